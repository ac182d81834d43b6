//! Message store cases: appends, their numbers, and messages that are sent again.

use super::{
    message_sample::{
        append, assert_overloaded, at, batch, end, fill, log, log_of, message, new_numbers, page, replayed,
        stored, stored_from, with_body,
    },
    sample::user_id,
};
use crate::{
    Appended, BODY_BYTES_MAX, CLIENT_MESSAGE_ID_CHARS_MAX, CONTENT_TYPE_CHARS_MAX, ContentHash,
    ConversationId, MENTIONS_MAX, MessageKey, MessageKind, NewMessage, Stores,
};

pub async fn numbers_are_contiguous(stores: Stores) {
    let mut expected = 1..;
    // Within a document, across a border, up to a border, a whole document, and again within a document.
    for (step, size) in [1, 1, 2, 7, 100, 88, 1, 100, 3].into_iter().enumerate() {
        let appended = append(&stores, log_of(9), &batch(&format!("step{step}"), size)).await;
        assert_eq!(new_numbers(&appended), expected.by_ref().take(size).collect::<Vec<_>>());
    }
    assert_eq!(log(&stores, log_of(9)).await.len(), 303);
}

pub async fn batch_crosses_document_border(stores: Stores) {
    let (before, crossing) = (batch("before", 97), batch("crossing", 10));
    fill(&stores, log_of(9), &before).await;
    let appended = append(&stores, log_of(9), &crossing).await;
    assert_eq!(new_numbers(&appended), (98..=107).collect::<Vec<_>>());
    assert_eq!(page(&stores, log_of(9), 98, 100).await, stored_from(98, &crossing[..3]));
    assert_eq!(page(&stores, log_of(9), 101, 200).await, stored_from(101, &crossing[3..]));
}

pub async fn logs_have_their_own_numbers(stores: Stores) {
    // Compared as texts, the first id is the beginning of the second.
    let direct = |one, other| ConversationId::direct(user_id(one), user_id(other));
    let logs = [direct(7, 8), direct(7, 80), direct(7, 7), log_of(7), log_of(70)];
    for (count, conversation) in (1..).zip(logs) {
        fill(&stores, conversation, &batch("m", count)).await;
    }
    for (count, conversation) in (1..).zip(logs) {
        assert_eq!(log(&stores, conversation).await, stored_from(1, &batch("m", count)));
    }
}

pub async fn resent_id_is_one_message_in_one_call(stores: Stores) {
    let twice = [message("a"), message("b"), message("a")];
    assert_overloaded(stores.messages.append(log_of(9), &twice).await);
    assert_eq!(end(&stores, log_of(9)).await, 0);
    let once = append(&stores, log_of(9), &twice[..2]).await;
    assert_eq!(new_numbers(&once), [1, 2]);
}

pub async fn resent_id_is_one_message_later(stores: Stores) {
    let first = batch("first", 3);
    fill(&stores, log_of(9), &first).await;
    fill(&stores, log_of(9), &batch("between", 2)).await;
    for later in 1..=3 {
        let again: Vec<_> = first.iter().map(|new| NewMessage { sent: at(later), ..new.clone() }).collect();
        let appended = append(&stores, log_of(9), &again).await;
        assert_eq!(appended, [replayed(1), replayed(2), replayed(3)]);
    }
    let found = log(&stores, log_of(9)).await;
    assert_eq!((found.len(), &found[..3]), (5, &stored_from(1, &first)[..]));
}

pub async fn resent_id_is_one_message_across_documents(stores: Stores) {
    let crossing = batch("crossing", 10);
    fill(&stores, log_of(9), &batch("before", 95)).await;
    fill(&stores, log_of(9), &crossing).await;
    let again = append(&stores, log_of(9), &crossing).await;
    assert_eq!(again, (96..=105).map(replayed).collect::<Vec<_>>());
    // Their documents are full, and others have followed.
    fill(&stores, log_of(9), &batch("after", 200)).await;
    let again = append(&stores, log_of(9), &crossing).await;
    assert_eq!(again, (96..=105).map(replayed).collect::<Vec<_>>());
    assert_eq!(log(&stores, log_of(9)).await.len(), 305);
}

pub async fn resent_id_is_one_message_in_part(stores: Stores) {
    fill(&stores, log_of(9), &batch("before", 97)).await;
    fill(&stores, log_of(9), &[message("a"), message("b")]).await;
    let part = ["new1", "b", "new2", "a", "new3"].map(message);
    let appended = append(&stores, log_of(9), &part).await;
    let expected = [Appended::New(100), replayed(99), Appended::New(101), replayed(98), Appended::New(102)];
    assert_eq!(appended, expected);
    let found = log(&stores, log_of(9)).await;
    let kept = [(98, "a"), (99, "b"), (100, "new1"), (101, "new2"), (102, "new3")];
    assert_eq!(found[97..], kept.map(|(seq, id)| stored(&message(id), seq)));
}

pub async fn resent_id_with_other_body_is_refused(stores: Stores) {
    let first = message("a");
    fill(&stores, log_of(9), std::slice::from_ref(&first)).await;
    let mixed = [message("b"), with_body("a", "another"), message("c")];
    let appended = append(&stores, log_of(9), &mixed).await;
    assert_eq!(appended, [Appended::New(2), Appended::OtherContent, Appended::New(3)]);
    assert_eq!(append(&stores, log_of(9), &mixed[1..2]).await, [Appended::OtherContent]);
    assert_eq!(append(&stores, log_of(9), std::slice::from_ref(&first)).await, [replayed(1)]);
    let found = log(&stores, log_of(9)).await;
    assert_eq!((found.len(), &found[0]), (3, &stored(&first, 1)));
}

pub async fn resent_id_with_other_type_is_refused(stores: Stores) {
    let first = message("a");
    let hash = ContentHash::of("text/html", &first.body);
    let other = NewMessage { content_type: "text/html".into(), hash, ..first.clone() };
    fill(&stores, log_of(9), std::slice::from_ref(&first)).await;
    assert_eq!(append(&stores, log_of(9), &[other]).await, [Appended::OtherContent]);
    assert_eq!(log(&stores, log_of(9)).await, [stored(&first, 1)]);
}

pub async fn one_key_in_two_logs_is_two_messages(stores: Stores) {
    fill(&stores, log_of(8), &[message("a")]).await;
    fill(&stores, log_of(9), &[message("b")]).await;
    let appended = append(&stores, log_of(9), &[message("a")]).await;
    assert_eq!(appended, [Appended::New(2)]);
    assert_eq!(append(&stores, log_of(8), &[message("a")]).await, [replayed(1)]);
    assert_eq!(append(&stores, log_of(9), &[message("a")]).await, [replayed(2)]);
}

pub async fn batch_of_101_is_refused(stores: Stores) {
    let batch = batch("m", 101);
    assert_overloaded(stores.messages.append(log_of(9), &batch).await);
    assert_eq!(end(&stores, log_of(9)).await, 0);
    let appended = append(&stores, log_of(9), &batch[..100]).await;
    assert_eq!(new_numbers(&appended), (1..=100).collect::<Vec<_>>());
}

pub async fn empty_batch_appends_nothing(stores: Stores) {
    assert_eq!(append(&stores, log_of(9), &[]).await, []);
    assert_eq!(end(&stores, log_of(9)).await, 0);
}

/// A message with a value in every field.
fn full(id: &str) -> NewMessage {
    NewMessage {
        sender: Some(user_id(i64::MAX)),
        sent: at(-1),
        mentions: [9, i64::MAX, 8].map(user_id).to_vec(),
        mention_all: true,
        silent: true,
        reply_to: Some(i64::MAX),
        ..message(id)
    }
}

pub async fn every_field_round_trips(stores: Stores) {
    let messages = [
        full("full"),
        NewMessage { kind: MessageKind::Event, ..full("event") },
        NewMessage { silent: false, ..full("loud") },
        NewMessage { mention_all: false, ..full("mentions-some") },
        NewMessage { sender: None, ..full("of-a-service") },
    ];
    fill(&stores, log_of(9), &messages).await;
    assert_eq!(log(&stores, log_of(9)).await, stored_from(1, &messages));
}

pub async fn message_without_options_round_trips(stores: Stores) {
    let bare = NewMessage {
        key: MessageKey([0; 16]),
        hash: ContentHash::of("", b""),
        sender: None,
        content_type: "".into(),
        body: "".into(),
        client_message_id: None,
        ..message("bare")
    };
    let other = NewMessage { key: MessageKey([255; 16]), ..bare.clone() };
    fill(&stores, log_of(9), &[bare.clone(), other.clone()]).await;
    assert_eq!(log(&stores, log_of(9)).await, stored_from(1, &[bare, other]));
}

/// A body that contains every possible byte.
fn large_body() -> Vec<u8> {
    (0..=255).cycle().take(BODY_BYTES_MAX).collect()
}

pub async fn bodies_of_0_and_64_kib_round_trip(stores: Stores) {
    let messages = [with_body("empty", ""), with_body("large", large_body())];
    fill(&stores, log_of(9), &messages).await;
    assert_eq!(log(&stores, log_of(9)).await, stored_from(1, &messages));
}

pub async fn document_of_largest_messages_is_stored(stores: Stores) {
    let content_type = "t".repeat(CONTENT_TYPE_CHARS_MAX);
    let mentions: Vec<_> = (0..i64::MAX).rev().map(|below| user_id(below + 1)).take(MENTIONS_MAX).collect();
    let largest = |number: usize| {
        let id = format!("{number:0width$}", width = CLIENT_MESSAGE_ID_CHARS_MAX);
        let mut new = NewMessage { mentions: mentions.clone(), ..full(&id) };
        (new.content_type, new.body) = (content_type.as_str().into(), large_body().into());
        new.hash = ContentHash::of(&new.content_type, &new.body);
        new
    };
    let messages: Vec<_> = (1..=100).map(largest).collect();
    fill(&stores, log_of(9), &messages[..50]).await;
    fill(&stores, log_of(9), &messages[50..]).await;
    let found = log(&stores, log_of(9)).await;
    assert!(found == stored_from(1, &messages), "the texts are too long to be shown");
}
