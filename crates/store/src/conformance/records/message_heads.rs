//! Message store cases: log heads, and headers.

use super::{
    message_sample::{append, assert_overloaded, fill, log_of, message, stored, stored_from},
    sample::user_id,
};
use crate::{
    ConversationId, HEADS_AT_ONCE, LogHead, MessageKind, NewMessage, Seq, StoredHeader, Stores, UserId,
};

/// Messages of all kinds by turns: plain, silent, events, from services, and with mentions.
fn of_all_kinds(count: i64) -> Vec<NewMessage> {
    let kind_of = |number: i64| {
        let plain = message(&format!("m{number}"));
        match number % 6 {
            0 => NewMessage { silent: true, ..plain },
            1 => NewMessage { kind: MessageKind::Event, sender: None, ..plain },
            2 => NewMessage { mentions: vec![user_id(number), user_id(8)], ..plain },
            3 => NewMessage { mention_all: true, sender: Some(user_id(8)), ..plain },
            4 => NewMessage { sender: None, ..plain },
            _ => plain,
        }
    };
    (1..=count).map(kind_of).collect()
}

/// The headers of these messages, which were all that the log has.
fn headers_of(messages: &[NewMessage], from: Seq, to: Seq) -> Vec<StoredHeader> {
    let all = stored_from(1, messages);
    all.iter().filter(|message| (from..=to).contains(&message.seq)).map(StoredHeader::of).collect()
}

async fn heads(stores: &Stores, asked: &[(ConversationId, Seq)]) -> Vec<LogHead> {
    stores.messages.heads(asked).await.unwrap()
}

async fn head(stores: &Stores, above: Seq) -> LogHead {
    heads(stores, &[(log_of(9), above)]).await.pop().unwrap()
}

pub async fn headers_have_what_counts(stores: Stores) {
    let messages = of_all_kinds(130);
    fill(&stores, log_of(9), &messages).await;
    for (first, last) in [(1, 100), (1, 1), (7, 9), (100, 100), (101, 130), (125, 200), (131, 140)] {
        let found = stores.messages.headers(log_of(9), first, last).await.unwrap();
        assert_eq!(found, headers_of(&messages, first, last), "{first} to {last}");
    }
    let all = stores.messages.headers(log_of(9), 1, 100).await.unwrap();
    let of = |seq: usize| &all[seq - 1];
    assert!(of(6).silent && of(7).silent && !of(5).silent, "events are silent");
    assert_eq!((of(7).sender, of(4).sender, of(5).sender), (None, None, Some(user_id(7))));
    assert_eq!(of(2).mentions, [user_id(2), user_id(8)]);
    assert!(of(3).mention_all && !of(2).mention_all);
    assert_eq!(of(3).sender, Some(UserId::new(8).unwrap()));
    assert_eq!(stores.messages.headers(log_of(8), 1, 100).await.unwrap(), []);
}

pub async fn headers_across_documents_are_refused(stores: Stores) {
    fill(&stores, log_of(9), &of_all_kinds(200)).await;
    for (first, last) in [(100, 101), (1, 200), (0, 1), (-1, 5)] {
        assert_overloaded(stores.messages.headers(log_of(9), first, last).await);
    }
}

pub async fn head_has_the_last_hundred(stores: Stores) {
    assert_eq!(head(&stores, 0).await, LogHead::default());
    let messages = of_all_kinds(250);
    let mut before = 0;
    for count in [1, 2, 99, 100, 101, 150, 199, 200, 201, 250] {
        fill(&stores, log_of(9), &messages[before..count]).await;
        before = count;
        let (end, messages) = (Seq::try_from(count).unwrap(), &messages[..count]);
        let found = head(&stores, 0).await;
        assert_eq!(found.last, Some(stored(messages.last().unwrap(), end)), "of {count}");
        assert_eq!(found.headers, headers_of(messages, end - 99, end), "of {count}");
    }
}

pub async fn head_begins_above_the_number_asked(stores: Stores) {
    let messages = of_all_kinds(150);
    fill(&stores, log_of(9), &messages).await;
    for above in [0, 49, 50, 51, 99, 100, 101, 149, 150, 151, Seq::MAX] {
        let found = head(&stores, above).await;
        let first = above.saturating_add(1).max(51);
        assert_eq!(found.headers, headers_of(&messages, first, 150), "above {above}");
        assert_eq!(found.last.map(|last| last.seq), Some(150));
    }
}

pub async fn heads_of_parts_have_what_is_asked(stores: Stores) {
    let messages = of_all_kinds(160);
    fill(&stores, log_of(9), &messages[..120]).await;
    for above in [110, 100, 115, 40] {
        let found = head(&stores, above).await;
        assert_eq!(found.headers, headers_of(&messages, above + 1, 120), "above {above}");
    }
    fill(&stores, log_of(9), &messages[120..]).await;
    for above in [159, 70, 155, 0] {
        let found = head(&stores, above).await;
        assert_eq!(found.headers, headers_of(&messages, (above + 1).max(61), 160), "above {above}");
    }
}

pub async fn heads_are_in_the_order_asked(stores: Stores) {
    let direct = ConversationId::direct(user_id(7), user_id(8));
    for (log, count) in [(log_of(1), 3), (log_of(3), 101), (direct, 100)] {
        fill(&stores, log, &of_all_kinds(count)).await;
    }
    let asked = [(direct, 98), (log_of(2), 0), (log_of(3), 90), (log_of(1), 0), (direct, 0), (log_of(1), 3)];
    let found = heads(&stores, &asked).await;
    let counts: Vec<_> =
        found.iter().map(|head| (head.last.as_ref().map(|last| last.seq), head.headers.len())).collect();
    let expected = [(Some(100), 2), (None, 0), (Some(101), 11), (Some(3), 3), (Some(100), 100), (Some(3), 0)];
    assert_eq!(counts, expected);
    assert_eq!(heads(&stores, &[]).await, []);
}

pub async fn heads_of_101_logs_are_refused(stores: Stores) {
    let many = i64::try_from(HEADS_AT_ONCE).unwrap();
    fill(&stores, log_of(many), &of_all_kinds(2)).await;
    let mut asked: Vec<_> = (1..=many).map(|group| (log_of(group), 0)).collect();
    let found = heads(&stores, &asked).await;
    assert_eq!((found.len(), found[HEADS_AT_ONCE - 1].headers.len()), (HEADS_AT_ONCE, 2));
    asked.push((log_of(many + 1), 0));
    assert_overloaded(stores.messages.heads(&asked).await);
}

pub async fn head_has_the_content_of_the_last_message(stores: Stores) {
    let last = NewMessage { body: vec![7; 60_000].into(), reply_to: Some(1), ..message("last") };
    append(&stores, log_of(9), &[message("first"), last.clone()]).await;
    assert_eq!(head(&stores, 0).await.last, Some(stored(&last, 2)));
}
