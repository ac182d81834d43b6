//! Message imports: numbers, senders and times are kept, and nothing is stored twice or elsewhere.

use kith_proto::message::v1::{send_message_request::To, *};
use prost_types::Timestamp;
use tonic::Code;

use crate::dialog_calls::{conversation, counts, mark_up_to, until_read};
use crate::group_calls::chat_with_id;
use crate::message_calls::{direct, import_records, pull, send, seq_by_time, text, texts, to_pull, with_id};
use crate::message_streams::live;
use crate::node::{TestNode, until};
use crate::relation_calls::node_with_users;

const IN_2036: Timestamp = Timestamp { seconds: 2_100_000_000, nanos: 0 };

/// Returns the time in `seconds` seconds.
fn from_now(seconds: i64) -> Timestamp {
    let now = kith_store::Timestamp::now().0 / 1_000;
    Timestamp { seconds: now + seconds, nanos: 0 }
}

/// Starts a node with two users in a group, whose conversation is empty.
async fn started() -> (TestNode, [i64; 2], String) {
    let (node, [ann, bea]) = node_with_users(|config| config.messages.events = false).await;
    let (_, group) = chat_with_id(&node, ann, &[bea]).await;
    (node, [ann, bea], group)
}

/// Makes an old text with this number.
fn old(id: &str, seq: i64, sender_id: i64, body: &str) -> Message {
    Message {
        conversation_id: id.to_owned(),
        seq,
        sender_id,
        send_time: Some(Timestamp { seconds: 1_500_000_000 + seq.min(1_000_000), nanos: 7_000_000 }),
        kind: MessageKind::Message.into(),
        content_type: "text/plain".into(),
        body: body.to_owned().into(),
        ..Default::default()
    }
}

fn record(record: i64, message: Message) -> ImportMessage {
    ImportMessage { record, message: Some(message), ..Default::default() }
}

async fn import(node: &TestNode, messages: Vec<Message>) -> Vec<Result<i64, (String, String)>> {
    import_records(node, (1..).zip(messages).map(|(number, message)| record(number, message)).collect()).await
}

fn refused(reason: &str, field: &str) -> Result<i64, (String, String)> {
    Err((reason.to_owned(), field.to_owned()))
}

async fn all(node: &TestNode, by: i64, id: &str) -> Vec<Message> {
    pull(node, by, to_pull(id, 0, 0, 1000)).await.unwrap().messages
}

#[tokio::test]
async fn number_sender_time_and_content_are_kept() {
    let (node, [ann, bea], group) = started().await;
    let joined = Event { what: Some(event::What::Joined(MembersJoined { user_ids: vec![ann, bea] })) };
    let messages = vec![
        Message {
            kind: MessageKind::Event.into(),
            content_type: String::new(),
            body: Vec::new().into(),
            event: Some(joined),
            ..old(&group, 1, 0, "")
        },
        Message {
            mention_ids: vec![bea, ann],
            reply_to_seq: 1,
            silent: true,
            client_message_id: "phone-1".into(),
            ..old(&group, 2, bea, "hi")
        },
        Message { mention_all: true, ..old(&group, 3, ann, "all") },
    ];
    assert_eq!(import(&node, messages.clone()).await, [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(
        all(&node, bea, &group).await,
        [messages[0].clone(), messages[1].clone(), messages[2].clone()]
    );
    let next = send(&node, ann, text(To::ConversationId(group), "new")).await.unwrap();
    assert_eq!(next.seq, 4, "the log goes on");
}

#[tokio::test]
async fn falling_times_are_kept_and_searched() {
    let (node, [ann, bea], group) = started().await;
    let times = [3_000, 2_000, 1_000, 2_500, 3_500, 10];
    let sent = |(seq, time): (i64, &i64)| Message {
        send_time: Some(Timestamp { seconds: *time, nanos: 0 }),
        ..old(&group, seq, ann, "hi")
    };
    let messages: Vec<_> = (1..).zip(&times).map(sent).collect();
    assert_eq!(import(&node, messages.clone()).await, (1..=6).map(Ok).collect::<Vec<_>>());
    assert_eq!(all(&node, bea, &group).await, messages);
    for (time, seq) in [(0, 1), (1_000, 1), (2_400, 1), (3_000, 1), (3_001, 5), (3_500, 5), (3_501, 7)] {
        let found = seq_by_time(&node, bea, &group, Timestamp { seconds: time, nanos: 0 }).await;
        assert_eq!(found.unwrap(), seq, "{time}");
    }
}

#[tokio::test]
async fn send_after_import_a_moment_ahead_has_its_time() {
    let (node, [ann, _], group) = started().await;
    let ahead = from_now(50);
    let message = Message { send_time: Some(ahead), ..old(&group, 1, ann, "hi") };
    assert_eq!(import(&node, vec![message]).await, [Ok(1)]);
    let sent = send(&node, ann, text(To::ConversationId(group.clone()), "new")).await.unwrap();
    assert_eq!((sent.seq, sent.send_time), (2, Some(ahead)), "it does not fall behind the last one");
    let found = all(&node, ann, &group).await;
    assert_eq!(found[1].send_time, Some(ahead));
}

/// The numbers and texts of messages that are imported in turn, and the results.
type Attempt<'a> = (Vec<Message>, Vec<Result<i64, (String, String)>>, &'a [&'a str]);

#[tokio::test]
async fn numbers_are_taken_once_without_gaps() {
    let (node, [ann, bea], _) = started().await;
    let taken = || refused("ID_TAKEN", "message.seq");
    let gap = || refused("VERSION_CONFLICT", "message.seq");
    let (_, group) = chat_with_id(&node, ann, &[bea]).await;
    let text = |seq: i64| old(&group, seq, ann, &seq.to_string());
    let long = Message { content_type: "a".repeat(129), ..text(4) };
    let with_id = |seq| Message { client_message_id: "a".into(), ..old(&group, seq, ann, "8") };
    let attempts: [Attempt<'_>; 6] = [
        (vec![text(2), text(1), text(3), text(i64::MAX)], vec![gap(), Ok(1), gap(), gap()], &["1"]),
        (vec![text(2), text(3)], vec![Ok(2), Ok(3)], &["1", "2", "3"]),
        (vec![text(1), text(2), text(4)], vec![taken(), taken(), Ok(4)], &["1", "2", "3", "4"]),
        // A refused record holds up later ones: they would get other numbers.
        (
            vec![text(5), Message { seq: 6, ..long }, text(7)],
            vec![Ok(5), refused("INVALID_FIELD", "message.content_type"), gap()],
            &["1", "2", "3", "4", "5"],
        ),
        (vec![text(6), text(7)], vec![Ok(6), Ok(7)], &["1", "2", "3", "4", "5", "6", "7"]),
        // The second message has the first message's id: it would not be stored.
        (
            vec![with_id(8), with_id(9)],
            vec![Ok(8), refused("STATE_FORBIDS", "message.seq")],
            &["1", "2", "3", "4", "5", "6", "7", "8"],
        ),
    ];
    for (messages, results, stored) in attempts {
        assert_eq!(import(&node, messages).await, results);
        assert_eq!(texts(&all(&node, ann, &group).await), stored);
    }
}

#[tokio::test]
async fn message_without_number_gets_the_next_once() {
    let (node, [ann, _], group) = started().await;
    let unnumbered = |number: i64, id: &str| ImportMessage {
        request_id: id.into(),
        ..record(number, Message { seq: 0, ..old(&group, 0, ann, id) })
    };
    let records = || vec![unnumbered(1, "a"), unnumbered(2, "b")];
    assert_eq!(import_records(&node, records()).await, [Ok(1), Ok(2)]);
    let longer = [records(), vec![unnumbered(3, "c")]].concat();
    assert_eq!(import_records(&node, longer).await, [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(texts(&all(&node, ann, &group).await), ["a", "b", "c"]);
    let wrong = import_records(&node, vec![unnumbered(1, "a:b")]).await;
    assert_eq!(wrong, [refused("INVALID_FIELD", "request_id")]);
}

#[tokio::test]
async fn imported_message_sent_again_is_a_replay() {
    let (node, [ann, _], group) = started().await;
    let message = Message { client_message_id: "phone-1".into(), ..old(&group, 1, ann, "hi") };
    assert_eq!(import(&node, vec![message]).await, [Ok(1)]);
    let sent = send(&node, ann, with_id(To::ConversationId(group), "phone-1", "hi")).await.unwrap();
    assert_eq!((sent.seq, sent.replayed), (1, true));
}

#[tokio::test]
async fn senders_have_read_what_they_sent() {
    let (node, [ann, bea], group) = started().await;
    let messages = vec![old(&group, 1, ann, "one"), old(&group, 2, bea, "two"), old(&group, 3, ann, "three")];
    import(&node, messages).await;
    for (user, read, unread) in [(ann, 3, 0), (bea, 2, 1)] {
        until(async || {
            let seen = conversation(&node, user, &group).await.unwrap();
            (seen.read_seq, seen.unread) == (read, unread)
        })
        .await;
    }
}

#[tokio::test]
async fn conversation_that_does_not_exist_takes_none() {
    let (node, [ann, bea], group) = started().await;
    let messages = vec![
        old("g999", 1, ann, "hi"),
        old(&direct(ann, 999_999), 1, ann, "hi"),
        old(&direct(ann, bea), 1, ann, "hi"),
        old(&group, 1, ann, "hi"),
    ];
    let none = refused("NOT_FOUND", "");
    assert_eq!(import(&node, messages).await, [none.clone(), none, Ok(1), Ok(1)]);
}

#[tokio::test]
async fn records_with_a_wrong_field_are_refused() {
    let (node, [ann, bea], group) = started().await;
    let right = || old(&group, 1, ann, "hi");
    let wrong = [
        (Message { conversation_id: "d8-7".into(), ..right() }, "conversation_id"),
        (Message { seq: -1, ..right() }, "seq"),
        (Message { sender_id: -1, ..right() }, "sender_id"),
        (Message { sender_id: 999, ..old(&direct(ann, bea), 1, ann, "hi") }, "sender_id"),
        (Message { send_time: None, ..right() }, "send_time"),
        (Message { send_time: Some(Timestamp { seconds: -1, nanos: 0 }), ..right() }, "send_time"),
        (Message { send_time: Some(IN_2036), ..right() }, "send_time"),
        (Message { send_time: Some(from_now(90)), ..right() }, "send_time"),
        (Message { kind: 0, ..right() }, "kind"),
        (Message { kind: 99, ..right() }, "kind"),
        (Message { event: Some(Event::default()), ..right() }, "event"),
        (Message { kind: MessageKind::Event.into(), ..right() }, "body"),
        (Message { content_type: "a\nb".into(), ..right() }, "content_type"),
        (Message { body: vec![7; 64 * 1024 + 1].into(), ..right() }, "body"),
        (Message { mention_ids: vec![7; 51], ..right() }, "mention_ids"),
        (Message { mention_ids: vec![0], ..right() }, "mention_ids"),
        (Message { reply_to_seq: -1, ..right() }, "reply_to_seq"),
        (Message { client_message_id: "a:b".into(), ..right() }, "client_message_id"),
    ];
    for (message, field) in wrong {
        let results = import(&node, vec![message]).await;
        assert_eq!(results, [refused("INVALID_FIELD", &format!("message.{field}"))]);
    }
    let none = import_records(&node, vec![ImportMessage { record: 9, ..Default::default() }]).await;
    assert_eq!(none, [refused("INVALID_FIELD", "message")]);
    assert_eq!(all(&node, ann, &group).await, []);
    node.assert_healthy().await;
}

#[tokio::test]
async fn content_of_64_kib_and_none_are_taken() {
    let (node, [ann, _], group) = started().await;
    let messages = vec![
        Message { body: vec![7; 64 * 1024].into(), ..old(&group, 1, ann, "") },
        Message { content_type: String::new(), ..old(&group, 2, ann, "") },
    ];
    assert_eq!(import(&node, messages).await, [Ok(1), Ok(2)]);
}

#[tokio::test]
async fn message_of_501_records_is_refused() {
    let (node, [ann, _], group) = started().await;
    let records = (1..=501).map(|seq| record(seq, old(&group, seq, ann, "hi"))).collect();
    let stream = tokio_stream::iter([ImportMessagesRequest { records }]);
    let refused = node.messages().import_messages(stream).await.unwrap().into_inner().message().await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(all(&node, ann, &group).await, []);
}

fn mark_record(record: i64, id: &str, user_id: i64, read_seq: i64) -> ImportMessage {
    let mark = ImportMark { conversation_id: id.to_owned(), user_id, read_seq };
    ImportMessage { record, mark: Some(mark), ..Default::default() }
}

#[tokio::test]
async fn marks_are_imported_without_notes() {
    let (node, [ann, bea], group) = started().await;
    import(&node, (1..=5).map(|seq| old(&group, seq, ann, "x")).collect()).await;
    assert_eq!(counts(&node, bea, &[]).await, [(group.clone(), 5)]);
    let mut stream = live(&node, bea).await;
    let records = vec![
        mark_record(1, &group, bea, 6),
        record(2, old(&group, 6, ann, "x")),
        mark_record(3, &group, bea, 2),
        record(4, old(&group, 7, ann, "x")),
    ];
    assert_eq!(import_records(&node, records).await, [Ok(6), Ok(6), Ok(6), Ok(7)], "messages come first");
    assert_eq!(counts(&node, bea, &[]).await, [(group.clone(), 1)]);
    assert_eq!(stream.seqs(&group, 2).await, [6, 7], "and no note");
    let to = To::ConversationId(group.clone());
    assert_eq!(send(&node, ann, text(to, "new")).await.unwrap().seq, 8);
    assert_eq!(stream.seqs(&group, 1).await, [8]);
}

#[tokio::test]
async fn imported_marks_signal_no_sender() {
    let (node, [ann, bea], group) = started().await;
    import(&node, (1..=3).map(|seq| old(&group, seq, ann, "x")).collect()).await;
    let mut stream = live(&node, ann).await;
    let records = vec![record(1, old(&group, 4, ann, "x")), mark_record(2, &group, bea, 3)];
    assert_eq!(import_records(&node, records).await, [Ok(4), Ok(3)]);
    assert_eq!(stream.seqs(&group, 1).await, [4]);
    // Her own message marks number 4 as read.
    assert_eq!(import(&node, vec![old(&group, 5, bea, "x")]).await, [Ok(5)]);
    assert_eq!(stream.seqs(&group, 1).await, [5]);
    until_read(&node, bea, &group, 5).await;
    let to = To::ConversationId(group.clone());
    let seq = send(&node, ann, text(to, "new")).await.unwrap().seq;
    assert_eq!(stream.seqs(&group, 1).await, [seq]);
    mark_up_to(&node, bea, &group, seq).await;
    let signal = stream.signal().await;
    let Some(signal::What::Receipts(ReceiptCounts { counts })) = signal.what else { panic!("{signal:?}") };
    let read = counts.iter().map(|count| (count.seq, count.read)).collect::<Vec<_>>();
    assert_eq!(read, [(seq, 1)], "nothing else was marked since the last signal");
}

#[tokio::test]
async fn mark_that_cannot_be_made_is_refused_alone() {
    let (node, [ann, bea], group) = started().await;
    let stranger = node.user("stranger").await.user_id;
    import(&node, vec![old(&group, 1, ann, "x")]).await;
    let both = ImportMessage { message: Some(old(&group, 2, ann, "x")), ..mark_record(4, &group, bea, 1) };
    let records = vec![
        mark_record(1, &group, bea, 0),
        mark_record(2, &group, bea, 2),
        mark_record(3, &group, stranger, 1),
        both,
        mark_record(5, &group, bea, 1),
    ];
    let results = import_records(&node, records).await;
    let expected = [
        refused("INVALID_FIELD", "mark.read_seq"),
        refused("SEQ_OUT_OF_RANGE", ""),
        refused("NOT_FOUND", ""),
        refused("INVALID_FIELD", "mark"),
        Ok(1),
    ];
    assert_eq!(results, expected);
    assert_eq!(all(&node, ann, &group).await.len(), 1);
}
