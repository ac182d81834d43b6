//! Message store cases: recalls and edits.

use super::{
    message_sample::{
        append, at, batch, end, fill, log, log_of, message, new_numbers, page, replayed, stored, with_body,
    },
    sample::{at_once, each_at_once, user_id},
};
use crate::{
    Appended, ContentChange, ContentHash, Edited, Message, MessageChange, MessageChangeOutcome, MessageKey,
    MessageKind, NewContent, NewMessage, Recalled, RecalledBy, Seq, Stores, Text,
};

/// A change's event; two changes with the same hash are the same.
fn event(key: MessageKey, what: &str) -> NewMessage {
    NewMessage {
        key,
        hash: ContentHash::of("", what.as_bytes()),
        sender: None,
        sent: at(70),
        kind: MessageKind::Event,
        content_type: Text::default(),
        body: what.to_owned().into(),
        silent: true,
        client_message_id: None,
        ..message("event")
    }
}

/// A recall by user 8.
fn recall(seq: Seq) -> MessageChange {
    recall_by(seq, RecalledBy::User(user_id(8)))
}

fn recall_by(seq: Seq, by: RecalledBy) -> MessageChange {
    let recalled = Recalled { by, time: at(7) };
    let event = event(MessageKey::of_recall(seq), "recalled");
    MessageChange { seq, content: ContentChange::Recall(recalled), event }
}

/// Edits a message that was edited this often before.
fn edit(seq: Seq, edits_before: u32, body: &str) -> MessageChange {
    let content = NewContent {
        content_type: "text/plain".into(),
        body: body.to_owned().into(),
        mentions: Vec::new(),
        mention_all: false,
        edits_before,
        time: at(i64::from(edits_before) + 8),
    };
    edit_to(seq, content)
}

fn edit_to(seq: Seq, content: NewContent) -> MessageChange {
    let what = format!("edited {:?}", content.body);
    let event = event(MessageKey::of_edit(seq, content.edits_before), &what);
    MessageChange { seq, content: ContentChange::Edit(content), event }
}

/// The stored message after this recall.
fn without_content(new: &NewMessage, seq: Seq, by: RecalledBy) -> Message {
    Message {
        content_type: Text::default(),
        body: Vec::new().into(),
        mentions: Vec::new(),
        mention_all: false,
        client_message_id: None,
        recalled: Some(Recalled { by, time: at(7) }),
        ..stored(new, seq)
    }
}

async fn change(stores: &Stores, change: &MessageChange) -> MessageChangeOutcome {
    stores.messages.change(log_of(9), change).await.unwrap()
}

/// Makes a change, and returns the message and its event's number.
async fn made(stores: &Stores, asked: &MessageChange) -> (Message, Seq) {
    match change(stores, asked).await {
        MessageChangeOutcome::Done { message, event_seq, event_sent, replayed: false } => {
            assert_eq!(event_sent, asked.event.sent);
            (message, event_seq)
        }
        other => panic!("not made: {other:?}"),
    }
}

async fn one(stores: &Stores, seq: Seq) -> Message {
    page(stores, log_of(9), seq, seq).await.remove(0)
}

pub async fn recall_and_event_are_atomic(stores: Stores) {
    let messages = batch("m", 3);
    fill(&stores, log_of(9), &messages).await;
    let asked = recall(2);
    let changed = without_content(&messages[1], 2, RecalledBy::User(user_id(8)));
    assert_eq!(made(&stores, &asked).await, (changed.clone(), 4));
    let expected = [stored(&messages[0], 1), changed, stored(&messages[2], 3), stored(&asked.event, 4)];
    assert_eq!(log(&stores, log_of(9)).await, expected);
    let ends = stores.messages.ends(&[log_of(9)]).await.unwrap();
    assert_eq!((ends[0].seq, ends[0].sent), (4, Some(at(70))));
    assert_eq!(stores.messages.strong_end(log_of(9)).await.unwrap(), 4);
    // The log goes on behind the event.
    assert_eq!(append(&stores, log_of(9), &[message("next")]).await, [Appended::New(5)]);
}

pub async fn recalled_body_is_removed(stores: Stores) {
    let full = NewMessage {
        mentions: [7, 9].map(user_id).to_vec(),
        mention_all: true,
        silent: true,
        reply_to: Some(3),
        ..with_body("secret", "secret")
    };
    fill(&stores, log_of(9), &[message("first"), full.clone()]).await;
    made(&stores, &recall(2)).await;
    let expected = without_content(&full, 2, RecalledBy::User(user_id(8)));
    assert!(expected.silent && expected.reply_to == Some(3), "these are no content");
    assert_eq!(one(&stores, 2).await, expected);
    assert_eq!(stores.messages.last_documents(log_of(9)).await.unwrap()[1], expected);
    let header = stores.messages.headers(log_of(9), 2, 2).await.unwrap().remove(0);
    assert!(header.recalled && header.mentions.is_empty() && !header.mention_all, "{header:?}");
    let head = stores.messages.heads(&[(log_of(9), 0)]).await.unwrap().remove(0);
    assert!(head.headers[1].recalled && !head.headers[0].recalled);
}

pub async fn recall_by_each_kind_of_user_is_read(stores: Stores) {
    let messages = batch("m", 3);
    fill(&stores, log_of(9), &messages).await;
    let all = [RecalledBy::User(user_id(i64::MAX)), RecalledBy::Service, RecalledBy::Erasure];
    for ((seq, new), by) in (1..).zip(&messages).zip(all) {
        made(&stores, &recall_by(seq, by)).await;
        assert_eq!(one(&stores, seq).await, without_content(new, seq, by));
    }
}

pub async fn edited_body_is_read_and_counted(stores: Stores) {
    let messages = batch("m", 2);
    fill(&stores, log_of(9), &messages).await;
    for (edits_before, body) in (0..).zip(["one", "two", "three"]) {
        let (asked, event) = (edit(1, edits_before, body), Seq::from(edits_before) + 3);
        let (count, last) = (edits_before + 1, at(i64::from(edits_before) + 8));
        let expected = Message {
            body: body.into(),
            edited: Some(Edited { count, last, event: Some(event) }),
            ..stored(&messages[0], 1)
        };
        assert_eq!(made(&stores, &asked).await, (expected.clone(), event));
        assert_eq!(one(&stores, 1).await, expected);
    }
    assert_eq!(one(&stores, 2).await, stored(&messages[1], 2));
    // A recall keeps how often it was edited.
    let (recalled, _) = made(&stores, &recall(1)).await;
    assert_eq!((recalled.edited.unwrap().count, recalled.body.len()), (3, 0));
}

pub async fn edit_has_the_number_of_its_event(stores: Stores) {
    // The edit's event is in the next document.
    fill(&stores, log_of(9), &batch("m", 100)).await;
    let (edited, event) = made(&stores, &edit(1, 0, "one")).await;
    assert_eq!((event, edited.edited.unwrap().event), (101, Some(101)));
    for (seq, is_above) in [(100, true), (101, false), (102, false)] {
        assert_eq!(one(&stores, 1).await.is_edited_above(seq), is_above, "{seq}");
    }
    let (again, event) = made(&stores, &edit(1, 1, "two")).await;
    assert_eq!((event, again.edited.unwrap().event), (102, Some(102)), "that of the last edit");
    assert!(!one(&stores, 2).await.is_edited_above(0));
    let whole = stores.messages.document("g9/0".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(whole.messages[0], again);
}

pub async fn edit_replaces_the_whole_content(stores: Stores) {
    let mentioning = NewMessage {
        mentions: [7, 9].map(user_id).to_vec(),
        mention_all: true,
        silent: true,
        reply_to: Some(3),
        ..message("m")
    };
    fill(&stores, log_of(9), std::slice::from_ref(&mentioning)).await;
    let empty = NewContent {
        content_type: Text::default(),
        body: Vec::new().into(),
        mentions: Vec::new(),
        mention_all: false,
        edits_before: 0,
        time: at(8),
    };
    let full = NewContent {
        content_type: "text/html".into(),
        body: vec![0, 255].into(),
        mentions: vec![user_id(8)],
        mention_all: true,
        edits_before: 1,
        time: at(9),
    };
    for (content, event) in [(empty, 2), (full, 3)] {
        made(&stores, &edit_to(1, content.clone())).await;
        let expected = Message {
            edited: Some(content.edited(event)),
            content_type: content.content_type,
            body: content.body,
            mentions: content.mentions.clone(),
            mention_all: content.mention_all,
            ..stored(&mentioning, 1)
        };
        assert_eq!(one(&stores, 1).await, expected);
        let header = stores.messages.headers(log_of(9), 1, 1).await.unwrap().remove(0);
        assert_eq!((header.mentions, header.mention_all), (content.mentions, content.mention_all));
    }
}

pub async fn resent_id_after_recall_is_a_replay(stores: Stores) {
    let (first, other) = (message("a"), with_body("a", "another"));
    fill(&stores, log_of(9), &[first.clone(), message("b")]).await;
    made(&stores, &edit(2, 0, "edited")).await;
    made(&stores, &recall(1)).await;
    // Both are compared as they were sent.
    let again = append(&stores, log_of(9), &[first, message("b")]).await;
    assert_eq!(again, [replayed(1), replayed(2)]);
    assert_eq!(append(&stores, log_of(9), &[other]).await, [Appended::OtherContent]);
    assert_eq!(append(&stores, log_of(9), &[with_body("b", "edited")]).await, [Appended::OtherContent]);
    assert_eq!(end(&stores, log_of(9)).await, 4);
    assert_eq!(one(&stores, 1).await.body.len(), 0);
}

pub async fn repeated_change_is_one_change(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 2)).await;
    let (edited, event) = (edit(1, 0, "one"), 3);
    made(&stores, &edited).await;
    made(&stores, &edit(1, 1, "two")).await;
    // It is answered with the message as it is now.
    let expected = |message, event_seq| MessageChangeOutcome::Done {
        message,
        event_seq,
        event_sent: at(70),
        replayed: true,
    };
    let later = MessageChange { event: NewMessage { sent: at(99), ..edited.event.clone() }, ..edited };
    let now = one(&stores, 1).await;
    assert_eq!(now.edited.unwrap().count, 2);
    assert_eq!(change(&stores, &later).await, expected(now, event));
    made(&stores, &recall(1)).await;
    for again in [recall(1), recall_by(1, RecalledBy::Service)] {
        let now = one(&stores, 1).await;
        assert_eq!(now.recalled.unwrap().by, RecalledBy::User(user_id(8)), "the first one has recalled it");
        assert_eq!(change(&stores, &again).await, expected(now, 5));
    }
    assert_eq!(change(&stores, &later).await, expected(one(&stores, 1).await, event));
    assert_eq!(end(&stores, log_of(9)).await, 5);
}

pub async fn other_edit_under_one_key_is_refused(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 1)).await;
    made(&stores, &edit(1, 0, "one")).await;
    let now = one(&stores, 1).await;
    assert_eq!(change(&stores, &edit(1, 0, "another")).await, MessageChangeOutcome::Refused(now.clone()));
    assert_eq!((one(&stores, 1).await, end(&stores, log_of(9)).await), (now, 2));
}

pub async fn change_of_a_recalled_message_is_refused(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 1)).await;
    made(&stores, &recall(1)).await;
    let now = one(&stores, 1).await;
    let other_recall = MessageChange { event: event(MessageKey::of_recall(77), "recalled"), ..recall(1) };
    for refused in [edit(1, 0, "edited"), other_recall] {
        assert_eq!(change(&stores, &refused).await, MessageChangeOutcome::Refused(now.clone()));
    }
    assert_eq!((one(&stores, 1).await, end(&stores, log_of(9)).await), (now, 2));
}

pub async fn edit_of_an_older_state_is_refused(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 1)).await;
    let original = one(&stores, 1).await;
    assert_eq!(change(&stores, &edit(1, 1, "ahead")).await, MessageChangeOutcome::Refused(original));
    for edits_before in 0..2 {
        made(&stores, &edit(1, edits_before, "edited")).await;
    }
    let now = one(&stores, 1).await;
    for edits_before in [0, 1, 3] {
        let refused = change(&stores, &edit(1, edits_before, "other")).await;
        assert_eq!(refused, MessageChangeOutcome::Refused(now.clone()), "as after {edits_before} edits");
    }
    assert_eq!((one(&stores, 1).await, end(&stores, log_of(9)).await), (now, 3));
}

pub async fn event_is_not_changed(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 1)).await;
    made(&stores, &recall(1)).await;
    let event = one(&stores, 2).await;
    for refused in [recall(2), edit(2, 0, "edited")] {
        assert_eq!(change(&stores, &refused).await, MessageChangeOutcome::Refused(event.clone()));
    }
    assert_eq!((one(&stores, 2).await, end(&stores, log_of(9)).await), (event, 2));
}

pub async fn change_of_a_missing_message_adds_no_event(stores: Stores) {
    assert_eq!(change(&stores, &recall(1)).await, MessageChangeOutcome::Missing);
    assert_eq!(end(&stores, log_of(9)).await, 0);
    fill(&stores, log_of(9), &batch("m", 100)).await;
    for missing in [-1, 0, 101, 200, 9_999] {
        assert_eq!(change(&stores, &recall(missing)).await, MessageChangeOutcome::Missing);
        assert_eq!(change(&stores, &edit(missing, 0, "edited")).await, MessageChangeOutcome::Missing);
    }
    assert_eq!(end(&stores, log_of(9)).await, 100);
    assert_eq!(append(&stores, log_of(9), &[message("next")]).await, [Appended::New(101)]);
}

pub async fn change_at_a_document_border(stores: Stores) {
    let messages = batch("m", 99);
    fill(&stores, log_of(9), &messages).await;
    // The event is the last message in its document; the next event begins another document.
    assert_eq!(made(&stores, &recall(99)).await.1, 100);
    assert_eq!(made(&stores, &recall(1)).await.1, 101);
    assert_eq!(made(&stores, &edit(50, 0, "edited")).await.1, 102);
    fill(&stores, log_of(9), &batch("later", 198)).await;
    assert_eq!(made(&stores, &recall(103)).await.1, 301);
    assert_eq!(made(&stores, &recall(300)).await.1, 302);
    let found = log(&stores, log_of(9)).await;
    let changed = found.iter().filter(|one| one.recalled.is_some() || one.edited.is_some());
    assert_eq!(changed.map(|one| one.seq).collect::<Vec<_>>(), [1, 50, 99, 103, 300]);
    let events = found.iter().filter(|one| one.kind == MessageKind::Event);
    assert_eq!(events.map(|one| one.seq).collect::<Vec<_>>(), [100, 101, 102, 301, 302]);
    assert_eq!(append(&stores, log_of(9), &[message("next")]).await, [Appended::New(303)]);
}

pub async fn changes_at_once_are_made_once(stores: Stores) {
    fill(&stores, log_of(9), &batch("m", 98)).await;
    let calls = each_at_once(&stores, 0..8, |stores, caller| async move {
        let recalled = change(&stores, &recall_by(3, RecalledBy::User(user_id(caller + 1)))).await;
        let edited = change(&stores, &edit(4, 0, &format!("edit {caller}"))).await;
        (recalled, edited)
    });
    let (recalls, edits): (Vec<_>, Vec<_>) = calls.await.into_iter().unzip();
    let is_new = |changed: &MessageChangeOutcome| {
        matches!(changed, MessageChangeOutcome::Done { replayed: false, .. })
    };
    let is_replay =
        |changed: &MessageChangeOutcome| matches!(changed, MessageChangeOutcome::Done { replayed: true, .. });
    assert_eq!(recalls.iter().filter(|one| is_new(one)).count(), 1, "{recalls:?}");
    assert_eq!(recalls.iter().filter(|one| is_replay(one)).count(), 7, "{recalls:?}");
    assert_eq!(edits.iter().filter(|one| is_new(one)).count(), 1, "{edits:?}");
    assert!(
        edits.iter().all(|one| is_new(one) || matches!(one, MessageChangeOutcome::Refused(_))),
        "{edits:?}"
    );
    let found = log(&stores, log_of(9)).await;
    assert_eq!((found.len(), found[3].edited.unwrap().count), (100, 1));
}

pub async fn changes_and_appends_at_once_leave_no_hole(stores: Stores) {
    const MESSAGES: Seq = 12;
    fill(&stores, log_of(9), &batch("m", 12)).await;
    let appends = (0..4).map(|caller| append_many(stores.clone(), caller));
    let changes = (1..=MESSAGES).map(|seq| change_twice(stores.clone(), seq));
    let (appended, events) = tokio::join!(at_once(appends), at_once(changes));
    let added: Vec<(NewMessage, Seq)> = appended.into_iter().chain(events).flatten().collect();
    // Looks for holes itself.
    let found = log(&stores, log_of(9)).await;
    let (changed, others) = found.split_at(12);
    for message in changed {
        assert_eq!(message.edited.map(|edited| edited.count), Some(1));
        assert!(message.recalled.is_some() && message.body.is_empty(), "{message:?}");
    }
    assert_eq!(others.len(), added.len());
    for (new, seq) in added {
        let index = usize::try_from(seq - MESSAGES - 1).unwrap();
        assert_eq!(others[index], stored(&new, seq));
    }
}

/// Appends batches, and returns the messages with their numbers.
async fn append_many(stores: Stores, caller: usize) -> Vec<(NewMessage, Seq)> {
    let mut sent = Vec::new();
    for step in 0..10 {
        let batch = batch(&format!("{caller}-{step}"), 1 + (caller * 5 + step * 3) % 9);
        let numbers = new_numbers(&append(&stores, log_of(9), &batch).await);
        sent.extend(batch.into_iter().zip(numbers));
    }
    sent
}

/// Edits a message and recalls it. Returns the events with their numbers.
async fn change_twice(stores: Stores, seq: Seq) -> Vec<(NewMessage, Seq)> {
    let mut events = Vec::new();
    for asked in [edit(seq, 0, "edited"), recall(seq)] {
        let (_, event_seq) = made(&stores, &asked).await;
        events.push((asked.event, event_seq));
    }
    events
}

pub async fn recalled_message_is_not_unread(stores: Stores) {
    let mentioning = NewMessage { mentions: vec![user_id(8)], ..message("mention") };
    fill(&stores, log_of(9), &[message("first"), mentioning, message("third")]).await;
    let unread = async || {
        let head = stores.messages.heads(&[(log_of(9), 0)]).await.unwrap().remove(0);
        let range = crate::UnreadRange { user: user_id(8), read_seq: 0, min_seq: 1, max_seq: None };
        let unread = crate::count_unread(range, head.headers.iter().map(Into::into));
        (unread.count, unread.first_mention)
    };
    assert_eq!(unread().await, (3, Some(2)));
    made(&stores, &recall(2)).await;
    assert_eq!(unread().await, (2, None), "and the event does not count");
    made(&stores, &edit(1, 0, "edited")).await;
    assert_eq!(unread().await, (2, None), "an edited message stays unread");
}
