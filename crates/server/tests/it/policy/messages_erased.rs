//! Erasing a user's messages.

use crate::dialog_calls::{conversation, counts};
use crate::group_calls::{chat, leave};
use crate::message_calls::*;
use crate::node::{SERVICE, TestNode};
use crate::relation_calls::with_users;
use kith_proto::message::v1::{event::What, send_message_request::To, *};

/// Returns all messages in a conversation, as a service reads them.
async fn all(node: &TestNode, id: &str) -> Vec<Message> {
    let request = to_pull(id, 0, 0, 1_000);
    pull(node, SERVICE, request).await.unwrap().messages
}

/// Returns the erased messages' numbers.
fn markers(messages: &[Message]) -> Vec<i64> {
    messages.iter().filter(|message| message.recall.is_some()).map(|message| message.seq).collect()
}

/// Returns the users whose messages were erased, according to the events.
fn events(messages: &[Message]) -> Vec<i64> {
    let whose = |message: &Message| match message.event.as_ref()?.what.as_ref()? {
        What::Erased(MessagesErased { user_id }) => Some(*user_id),
        _ => None,
    };
    messages.iter().filter_map(whose).collect()
}

#[tokio::test]
async fn content_is_gone_and_markers_stay() {
    let (node, [ann, bea], id) = direct_chat().await;
    let secret = SendMessageRequest {
        mention_ids: vec![bea],
        mention_all: true,
        reply_to_seq: 1,
        ..with_id(To::UserId(bea), "m-1", "secret")
    };
    say(&node, bea, To::UserId(ann), "question").await.unwrap();
    let sent = send(&node, ann, secret).await.unwrap();
    assert_eq!(counts(&node, bea, &[]).await, [(id.clone(), 1)]);
    erase(&node, ann, false).await.unwrap();
    let result = erased(&node, ann).await;
    assert_eq!((result.conversations, result.conversations_done, result.messages), (1, 1, 1));
    for user in [ann, bea] {
        let messages = pull(&node, user, to_pull(&id, 0, 0, 0)).await.unwrap().messages;
        let expected = Message {
            conversation_id: id.clone(),
            seq: 2,
            sender_id: ann,
            send_time: sent.send_time,
            kind: MessageKind::Message.into(),
            reply_to_seq: 1,
            recall: Some(Recall { user_id: 0, time: messages[1].recall.unwrap().time }),
            ..Default::default()
        };
        assert_eq!(messages[1], expected);
        assert_eq!(messages[0].body, "question");
        assert_eq!((events(&messages), messages.len()), (vec![ann], 3));
        assert!(messages[2].silent);
    }
    assert_eq!(counts(&node, bea, &[]).await, [], "an erased message is not unread");
    let again = recall(&node, ann, &id, 2).await.unwrap();
    assert_eq!((again.replayed, again.event_seq), (true, 0));
    assert_eq!(conversation(&node, ann, &id).await.unwrap().last_message.unwrap().seq, 3);
}

#[tokio::test]
async fn all_conversations_of_the_user_are_covered() {
    let (node, [ann, bea, cid]) = with_users().await;
    let [left, other] = [chat(&node, bea, &[ann, cid]).await, chat(&node, bea, &[ann]).await];
    for number in 0..3 {
        say(&node, ann, To::GroupId(left), &number.to_string()).await.unwrap();
    }
    say(&node, cid, To::GroupId(left), "stays").await.unwrap();
    leave(&node, left, ann).await;
    say(&node, ann, To::UserId(ann), "note").await.unwrap();
    say(&node, bea, To::GroupId(other), "of Bea").await.unwrap();
    erase(&node, ann, false).await.unwrap();
    let result = erased(&node, ann).await;
    assert_eq!((result.conversations, result.conversations_done, result.messages), (2, 2, 4));
    let [left, other] = [format!("g{left}"), format!("g{other}")];
    let messages = all(&node, &left).await;
    assert_eq!((markers(&messages), events(&messages)), (vec![2, 3, 4], vec![ann]));
    assert_eq!(read_all(&node, cid, &left).await, ["", "", "", "stays"]);
    assert_eq!(read_all(&node, ann, &direct(ann, ann)).await, [""]);
    let messages = all(&node, &other).await;
    assert_eq!((markers(&messages), events(&messages)), (vec![], vec![]), "there is nothing of Ann");
}

#[tokio::test]
async fn finished_erasure_is_repeated_if_asked() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "one").await.unwrap();
    erase(&node, ann, false).await.unwrap();
    let first = erased(&node, ann).await;
    say(&node, ann, To::UserId(bea), "two").await.unwrap();
    assert_eq!(erase(&node, ann, false).await.unwrap(), first, "it has finished");
    assert_eq!(read_all(&node, bea, &id).await, ["", "two"]);
    assert_eq!(erase(&node, ann, true).await.unwrap().state(), ErasureState::Running);
    assert_eq!(erased(&node, ann).await.messages, 1);
    let messages = all(&node, &id).await;
    assert_eq!((markers(&messages), events(&messages)), (vec![1, 3], vec![ann, ann]));
}

#[tokio::test]
async fn user_without_messages_has_none_erased() {
    let (node, [ann]) = with_users().await;
    for user in [ann, 987_654_321] {
        erase(&node, user, false).await.unwrap();
        let result = erased(&node, user).await;
        assert_eq!((result.conversations, result.messages), (0, 0));
    }
}

/// Only full documents are read through the tiers.
#[tokio::test]
async fn erasure_shows_at_once_in_an_old_document() {
    let (node, [ann, bea], id) = direct_chat().await;
    say(&node, ann, To::UserId(bea), "secret").await.unwrap();
    fill(&node, &id, 1_000).await;
    let first = async || by_seqs(&node, bea, &id, &[1]).await.unwrap().messages.remove(0);
    assert_eq!(first().await.body, "secret");
    erase(&node, ann, false).await.unwrap();
    erased(&node, ann).await;
    assert!(first().await.recall.is_some());
}
