//! An erased user's content is removed.

use std::time::{Duration, Instant};

use kith_store::{
    ConversationId, DialogKey, Erasure, ErasureCursor, MessageKind, NewMessage, Seq, Timestamp, UserId,
};

use super::{
    faults::Fault,
    stage::{Node, log, message},
};
use crate::node::until;

/// Makes messages from a user, sent now.
fn messages_of(user: UserId, count: usize) -> Vec<NewMessage> {
    (0..count).map(|_| NewMessage { sender: Some(user), ..message(Timestamp::now()) }).collect()
}

/// Makes the dialog that every sender has.
async fn make_dialog(node: &Node, user: UserId, group: i64) {
    let key = DialogKey { user, conversation: log(group) };
    node.stores.dialogs.make_dialogs(&[key], Timestamp::now()).await.unwrap();
}

/// Appends messages by a user, who has a dialog, to a group's log, and begins the user's erasure.
async fn written_to_erase(node: &Node, user: UserId, group: i64, count: usize) {
    node.append(group, messages_of(user, count)).await;
    make_dialog(node, user, group).await;
    erasure(node, user).await;
}

/// Returns the stored erasure; begins it if there is none.
async fn erasure(node: &Node, user: UserId) -> Erasure {
    node.stores.erasures.begin_erasure(user, false, Timestamp::now()).await.unwrap()
}

async fn until_ended(node: &Node, user: UserId) {
    until(async || erasure(node, user).await.ended).await;
}

/// Starts the node's upkeep and waits until the erasure has ended.
async fn run_until_ended(node: &Node, user: UserId) {
    node.services.message_upkeep.start();
    until_ended(node, user).await;
}

/// Counts the events among up to 100 messages from this number on.
async fn events(node: &Node, log: ConversationId, first: Seq) -> usize {
    let found = node.stores.messages.messages(log, first, first + 99).await.unwrap();
    found.iter().filter(|message| message.kind == MessageKind::Event).count()
}

#[tokio::test]
async fn erasure_goes_on_where_a_node_died() {
    let node = Node::start(|_| {}).await;
    let ((first, user), (second, _)) = (node.group("first").await, node.group("second").await);
    assert!(first < second, "it is erased first");
    let (user, now) = (UserId::new(user).unwrap(), Timestamp::now());
    for group in [first, second] {
        node.append(group, messages_of(user, 50)).await;
        make_dialog(&node, user, group).await;
    }
    // It has recorded the first conversation's document and erased it.
    let cursor = ErasureCursor { after: None, from: 1, erased_some: true };
    let noted = Erasure { cursor, conversations: 2, ..erasure(&node, user).await };
    node.stores.erasures.save_erasure(&noted).await.unwrap().unwrap();
    node.stores.message_upkeep.erase_document(log(first), 1, user, now).await.unwrap();

    run_until_ended(&node, user).await;
    let ended = erasure(&node, user).await;
    assert_eq!((ended.run, ended.conversations, ended.conversations_done), (1, 2, 2));
    for group in [first, second] {
        let found = node.stores.messages.messages(log(group), 1, 100).await.unwrap();
        assert!(found[..50].iter().all(|message| message.recalled.is_some() && message.body.is_empty()));
        assert_eq!((found.len(), found[50].kind), (51, MessageKind::Event), "one event at the end");
    }
}

/// Erased content is not found again, so the event follows from the record alone.
#[tokio::test]
async fn erasure_event_survives_a_lost_answer() {
    let node = Node::start(|_| {}).await;
    node.faults.lock().push(Fault::AnswerOfAnErasure);
    let (group, user) = node.group("chess").await;
    let user = UserId::new(user).unwrap();
    written_to_erase(&node, user, group, 1).await;

    run_until_ended(&node, user).await;
    let found = node.stores.messages.messages(log(group), 1, 100).await.unwrap();
    assert!(found[0].recalled.is_some());
    assert_eq!(events(&node, log(group), 1).await, 1);
}

#[tokio::test]
async fn erasure_event_follows_the_first_document() {
    let node = Node::start(|config| config.messages.erase_rate = 10_000).await;
    let (group, user) = node.group("chess").await;
    let user = UserId::new(user).unwrap();
    node.append(group, messages_of(user, 1)).await;
    node.fill(group, 2_199, Timestamp::now()).await;
    make_dialog(&node, user, group).await;
    erasure(&node, user).await;
    run_until_ended(&node, user).await;
    assert_eq!(erasure(&node, user).await.messages, 1);
    assert_eq!(events(&node, log(group), 2_201).await, 1);
}

#[tokio::test]
async fn conversation_without_content_gets_no_event() {
    let node = Node::start(|_| {}).await;
    let ((with, user), (without, _)) = (node.group("with").await, node.group("without").await);
    assert!(with < without, "it is erased first");
    let user = UserId::new(user).unwrap();
    node.append(with, messages_of(user, 1)).await;
    node.fill(without, 1, Timestamp::now()).await;
    for group in [with, without] {
        make_dialog(&node, user, group).await;
    }
    erasure(&node, user).await;
    run_until_ended(&node, user).await;
    assert_eq!((events(&node, log(with), 1).await, events(&node, log(without), 1).await), (1, 0));
}

#[tokio::test]
async fn user_of_many_conversations_is_erased_in_all() {
    let node = Node::start(|config| config.messages.erase_rate = 10_000).await;
    let (_, user) = node.group("chess").await;
    let (user, last) = (UserId::new(user).unwrap(), 1_251);
    for group in 1_001..=last {
        make_dialog(&node, user, group).await;
    }
    node.append(last, messages_of(user, 1)).await;
    erasure(&node, user).await;
    run_until_ended(&node, user).await;
    let ended = erasure(&node, user).await;
    assert_eq!((ended.conversations, ended.conversations_done, ended.messages), (251, 251, 1));
    assert_eq!(events(&node, log(last), 1).await, 1);
}

#[tokio::test]
async fn erasure_keeps_to_its_rate() {
    let node = Node::start(|config| config.messages.erase_rate = 1).await;
    let (group, user) = node.group("chess").await;
    let user = UserId::new(user).unwrap();
    written_to_erase(&node, user, group, 101).await;
    node.services.message_upkeep.start();
    let begun = Instant::now();
    until_ended(&node, user).await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "two documents in {:?}", begun.elapsed());
}

#[tokio::test]
async fn erasure_that_fails_does_not_delay_others() {
    let node = Node::start(|_| {}).await;
    let ((failing, first), (group, second)) = (node.group("failing").await, node.group("chess").await);
    assert!(first < second, "it is begun first");
    node.faults.lock().push(Fault::Log(log(failing)));
    for (group, user) in [(failing, first), (group, second)] {
        let user = UserId::new(user).unwrap();
        written_to_erase(&node, user, group, 1).await;
    }
    node.services.message_upkeep.start();
    until_ended(&node, UserId::new(second).unwrap()).await;
    assert!(!erasure(&node, UserId::new(first).unwrap()).await.ended);
}
