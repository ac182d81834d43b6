//! Cases that remove a sender's contents.

use super::{
    message_sample::{append, at, batch, end, fill, log_of, message, page, stored, with_body},
    sample::user_id,
};
use crate::{
    Appended, ContentChange, ContentHash, Message, MessageChange, MessageKey, MessageKind, NewMessage,
    Recalled, RecalledBy, SEARCHED_AT_ONCE, SentDocuments, Seq, Stores, Timestamp,
};

/// When everything is erased.
const ERASED: Timestamp = Timestamp(1_700_000_500_000);

async fn erase(stores: &Stores, first: Seq) -> u64 {
    stores.message_upkeep.erase_document(log_of(9), first, user_id(7), ERASED).await.unwrap()
}

async fn search(stores: &Stores, from: Seq) -> (Vec<Seq>, Option<Seq>) {
    let found = stores.message_upkeep.documents_sent_by(log_of(9), user_id(7), from).await.unwrap();
    let SentDocuments { firsts, next } = found;
    (firsts, next)
}

/// Gives a message another sender.
fn of_other(new: NewMessage) -> NewMessage {
    let (sender, id) = (Some(user_id(8)), new.client_message_id.clone().unwrap());
    NewMessage { sender, key: MessageKey::of(sender, &id), ..new }
}

/// Returns what is left after a message was erased.
fn marker(message: &Message) -> Message {
    let recalled = Some(Recalled { by: RecalledBy::Erasure, time: ERASED });
    Message {
        content_type: "".into(),
        body: "".into(),
        mentions: Vec::new(),
        mention_all: false,
        client_message_id: None,
        recalled,
        ..message.clone()
    }
}

pub async fn erasure_leaves_markers(stores: Stores) {
    let full = NewMessage {
        mentions: vec![user_id(8)],
        mention_all: true,
        silent: true,
        reply_to: Some(1),
        ..message("full")
    };
    let sent = [message("a"), of_other(message("b")), full.clone()];
    append(&stores, log_of(9), &sent).await;
    assert_eq!(erase(&stores, 1).await, 2);
    let expected = [marker(&stored(&sent[0], 1)), stored(&sent[1], 2), marker(&stored(&full, 3))];
    assert_eq!(page(&stores, log_of(9), 1, 100).await, expected);
    assert_eq!(stores.messages.last_documents(log_of(9)).await.unwrap(), expected);
    let heads = stores.messages.heads(&[(log_of(9), 0)]).await.unwrap();
    assert_eq!(heads[0].last, Some(expected[2].clone()));
}

pub async fn erasure_of_a_document_is_repeated(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 150)).await;
    assert_eq!((erase(&stores, 1).await, erase(&stores, 1).await), (100, 0));
    assert_eq!((erase(&stores, 101).await, erase(&stores, 201).await), (50, 0));
    let found = page(&stores, log_of(9), 1, 100).await;
    assert!(found.iter().all(|message| message.body.is_empty() && message.recalled.is_some()));
    assert_eq!(append(&stores, log_of(9), &[message("new")]).await, [Appended::New(151)]);
    assert_eq!(erase(&stores, 101).await, 1, "what came since");
}

pub async fn messages_of_others_and_events_stay(stores: Stores) {
    let event = NewMessage { kind: MessageKind::Event, ..message("event") };
    let of_service = NewMessage { sender: None, key: MessageKey::of(None, "s"), ..message("s") };
    let sent = [event, of_service, of_other(message("other"))];
    append(&stores, log_of(9), &sent).await;
    append(&stores, log_of(8), &[message("a")]).await;
    let before = page(&stores, log_of(9), 1, 100).await;
    assert_eq!(erase(&stores, 1).await, 0);
    assert_eq!(page(&stores, log_of(9), 1, 100).await, before);
    assert_eq!(page(&stores, log_of(8), 1, 100).await, [stored(&message("a"), 1)]);
}

pub async fn resent_id_after_erasure_is_a_replay(stores: Stores) {
    append(&stores, log_of(9), &[message("a")]).await;
    erase(&stores, 1).await;
    let replayed = Appended::Replayed { seq: 1, sent: at(0) };
    for again in [message("a"), with_body("a", "other")] {
        assert_eq!(append(&stores, log_of(9), &[again]).await, [replayed], "of the content nothing is left");
    }
    assert_eq!(end(&stores, log_of(9)).await, 1);
}

pub async fn recalled_message_stays_recalled(stores: Stores) {
    append(&stores, log_of(9), &[message("a")]).await;
    let recalled = Recalled { by: RecalledBy::User(user_id(8)), time: at(5) };
    let event = NewMessage {
        key: MessageKey::of_recall(1),
        hash: ContentHash::of("", b"event"),
        kind: MessageKind::Event,
        ..message("event")
    };
    let change = MessageChange { seq: 1, content: ContentChange::Recall(recalled), event };
    stores.messages.change(log_of(9), &change).await.unwrap();
    assert_eq!(erase(&stores, 1).await, 1, "its hash is left");
    assert_eq!(page(&stores, log_of(9), 1, 1).await[0].recalled, Some(recalled));
    let again = append(&stores, log_of(9), &[with_body("a", "other")]).await;
    assert_eq!(again, [Appended::Replayed { seq: 1, sent: at(0) }]);
}

pub async fn erased_message_is_not_unread(stores: Stores) {
    append(&stores, log_of(9), &[message("a"), of_other(message("b"))]).await;
    erase(&stores, 1).await;
    let headers = stores.messages.headers(log_of(9), 1, 2).await.unwrap();
    assert_eq!(headers.iter().map(|header| header.recalled).collect::<Vec<_>>(), [true, false]);
    let heads = stores.messages.heads(&[(log_of(9), 0)]).await.unwrap();
    assert_eq!(heads[0].headers, headers);
}

pub async fn documents_of_a_sender_are_found(stores: Stores) {
    assert_eq!(search(&stores, 0).await, (vec![], None), "an empty log");
    let others = |ids: &str, count| batch(ids, count).into_iter().map(of_other).collect::<Vec<_>>();
    let documents = SEARCHED_AT_ONCE + 2;
    for document in 0..documents {
        let ids = format!("{document}");
        let sent = match document {
            1 | 3 => [others(&ids, 99), vec![message(&ids)]].concat(),
            _ => others(&ids, 100),
        };
        fill(&stores, log_of(9), &sent).await;
    }
    fill(&stores, log_of(9), &[message("last")]).await;
    let next = Seq::try_from(SEARCHED_AT_ONCE * 100 + 1).unwrap();
    assert_eq!(search(&stores, 0).await, (vec![101, 301], Some(next)));
    assert_eq!(search(&stores, next).await, (vec![next + 200], None));
    assert_eq!(search(&stores, 201).await.0, [301]);
    erase(&stores, 101).await;
    assert_eq!(search(&stores, 1).await.0, [301], "what is erased is not found again");
    assert_eq!(search(&stores, next + 300).await, (vec![], None));
}

pub async fn search_goes_on_behind_a_trimmed_part(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 450)).await;
    let now = crate::Timestamp::now().after(2 * crate::SUCCESSOR_AGE);
    stores.message_upkeep.trim(log_of(9), 301, now).await.unwrap();
    assert_eq!(search(&stores, 0).await, (vec![301, 401], None));
    assert_eq!(erase(&stores, 1).await, 0);
}

pub async fn erasure_during_appends_loses_nothing(stores: Stores) {
    let appending = {
        let stores = stores.clone();
        tokio::spawn(async move {
            for step in 0..30 {
                fill(&stores, log_of(9), &batch(&format!("{step}"), 7)).await;
            }
        })
    };
    while !appending.is_finished() {
        for first in [1, 101, 201] {
            erase(&stores, first).await;
        }
    }
    appending.await.unwrap();
    for first in [1, 101, 201] {
        erase(&stores, first).await;
    }
    let mut found = Vec::new();
    for first in [1, 101, 201] {
        found.extend(page(&stores, log_of(9), first, first + 99).await);
    }
    assert_eq!(found.iter().map(|message| message.seq).collect::<Vec<_>>(), (1..=210).collect::<Vec<_>>());
    assert!(found.iter().all(|message| message.recalled.is_some() && message.sender == Some(user_id(7))));
}
