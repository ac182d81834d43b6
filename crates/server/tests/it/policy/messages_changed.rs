//! Recalls and edits: the users who may change a message, the time limit, and the readers' view.

use std::time::Duration;

use crate::dialog_calls::{clear, conversation, counts, listed, mark_up_to, set_range};
use crate::group_calls::{add, chat, chat_with_id, leave, make_admin, mute, remove};
use crate::message_calls::*;
use crate::node::{
    SERVICE, TestNode, assert_denied, assert_error, assert_forbidden, assert_invalid, assert_not_found,
};
use crate::relation_calls::{block, node_with_users, with_users};
use futures::future::join_all;
use kith_proto::message::v1::{event::What, send_message_request::To, *};
use kith_server::config::Config;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// Checks that a change came too late, for a message that may not be changed at all.
#[track_caller]
fn assert_late(refused: Result<impl std::fmt::Debug, Status>, sent: &SendMessageResponse) {
    let refused = assert_forbidden(refused);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["until"], sent.send_time.unwrap().to_string());
}

/// Starts a node with a direct conversation that has messages by the first user.
async fn written<const N: usize>(texts: [&str; N]) -> (TestNode, [i64; 2], String) {
    let (node, [ann, bea]) = with_users().await;
    for text in texts {
        say(&node, ann, To::UserId(bea), text).await.unwrap();
    }
    (node, [ann, bea], direct(ann, bea))
}

/// Returns a message as every call that returns messages shows it.
async fn seen(node: &TestNode, user: i64, id: &str, seq: i64) -> Message {
    let pulled = pull(node, user, to_pull(id, seq, seq, 0)).await.unwrap().messages;
    let found = by_seqs(node, user, id, &[seq]).await.unwrap().messages;
    let before = history(node, user, id, seq + 1, 1).await.unwrap().messages;
    assert_eq!((&pulled, &pulled), (&found, &before));
    pulled.into_iter().next().unwrap()
}

#[tokio::test]
async fn recalled_message_is_shown_without_content() {
    let (node, [ann, bea], id) = direct_chat().await;
    let request = SendMessageRequest {
        mention_ids: vec![bea],
        mention_all: true,
        reply_to_seq: 7,
        ..with_id(To::UserId(bea), "m-1", "secret")
    };
    let sent = send(&node, ann, request).await.unwrap();
    let answer = recall(&node, ann, &id, 1).await.unwrap();
    let message = answer.message.unwrap();
    assert_eq!((answer.event_seq, answer.replayed), (2, false));
    let Recall { user_id, time } = message.recall.unwrap();
    assert!(user_id == ann && time.unwrap().seconds >= sent.send_time.unwrap().seconds);
    let expected = Message {
        conversation_id: id.clone(),
        seq: 1,
        sender_id: ann,
        send_time: sent.send_time,
        kind: MessageKind::Message.into(),
        reply_to_seq: 7,
        recall: message.recall,
        ..Default::default()
    };
    assert_eq!(message, expected);
    for user in [ann, bea] {
        assert_eq!(seen(&node, user, &id, 1).await, expected);
    }
}

#[tokio::test]
async fn event_of_a_recall_is_in_the_log() {
    let (node, [ann, bea], id) = written(["first", "second"]).await;
    recall(&node, ann, &id, 1).await.unwrap();
    let event = seen(&node, bea, &id, 3).await;
    let what = What::Recalled(MessageRecalled { seq: 1, user_id: ann });
    assert_eq!(event.event.clone().unwrap().what, Some(what));
    assert_eq!((event.kind(), event.sender_id, event.silent), (MessageKind::Event, 0, true));
    assert!(event.body.is_empty() && event.recall.is_none(), "{event:?}");
    let last = listed(&node, bea).await.remove(0).last_message.unwrap();
    assert_eq!(last, event, "it is the last message of the conversation");
    assert_eq!(say(&node, bea, To::UserId(ann), "next").await.unwrap(), 4);
}

#[tokio::test]
async fn recalled_message_is_not_unread() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mention = SendMessageRequest { mention_ids: vec![bea], ..text(To::UserId(bea), "bea!") };
    send(&node, ann, mention).await.unwrap();
    for text in ["one", "two"] {
        say(&node, ann, To::UserId(bea), text).await.unwrap();
    }
    let unread = async || {
        let shown = conversation(&node, bea, &id).await.unwrap();
        let counted = counts(&node, bea, &[]).await;
        assert_eq!(counted, [(id.clone(), shown.unread)]);
        (shown.unread, shown.first_mention_seq)
    };
    assert_eq!(unread().await, (3, 1));
    recall(&node, ann, &id, 1).await.unwrap();
    assert_eq!(unread().await, (2, 0), "neither does its event count");
    edit(&node, ann, to_edit(&id, 2, "edited")).await.unwrap();
    assert_eq!(unread().await, (2, 0), "an edit leaves a message unread");
    assert_eq!(mark_up_to(&node, bea, &id, 2).await, (2, 1));
    edit(&node, ann, to_edit(&id, 2, "again")).await.unwrap();
    assert_eq!(unread().await, (1, 0), "and a read one read");
}

#[tokio::test]
async fn sender_changes_a_message_within_a_time() {
    let never = |config: &mut Config| {
        config.messages.recall_within = Duration::ZERO;
        config.messages.edit_within = Duration::ZERO;
    };
    let (node, [ann, bea]) = node_with_users(never).await;
    let sent = send(&node, ann, text(To::UserId(bea), "hi")).await.unwrap();
    let id = sent.conversation_id.clone();
    assert_late(recall(&node, ann, &id, 1).await, &sent);
    assert_late(edit(&node, ann, to_edit(&id, 1, "hello")).await, &sent);
    assert_eq!(read_all(&node, bea, &id).await, ["hi"]);
    // A service is bound by no time, and a repeated call changes nothing.
    edit(&node, SERVICE, to_edit(&id, 1, "news")).await.unwrap();
    let recalled = recall_with(&node, SERVICE, to_recall(&id, 1)).await.unwrap();
    let again = recall(&node, ann, &id, 1).await.unwrap();
    assert_eq!(again, RecallMessageResponse { replayed: true, ..recalled });
}

#[tokio::test]
async fn other_users_change_no_message() {
    let (node, [ann, bea, cid]) = with_users().await;
    let group = chat(&node, ann, &[bea]).await;
    for to in [To::UserId(bea), To::GroupId(group)] {
        let sent = send(&node, ann, text(to, "hi")).await.unwrap();
        let (id, seq) = (sent.conversation_id, sent.seq);
        assert_denied(recall(&node, bea, &id, seq).await);
        assert_denied(edit(&node, bea, to_edit(&id, seq, "ha")).await);
        assert_not_found(recall(&node, cid, &id, seq).await);
        assert_not_found(edit(&node, cid, to_edit(&id, seq, "ha")).await);
        let for_ann = RecallMessageRequest { user_id: ann, ..to_recall(&id, seq) };
        assert_denied(recall_with(&node, bea, for_ann).await);
        assert_eq!(read_all(&node, ann, &id).await, ["hi"]);
    }
}

#[tokio::test]
async fn higher_role_recalls_at_any_time() {
    let never = |config: &mut Config| config.messages.recall_within = Duration::ZERO;
    let (node, [owner, admin, second, member, other]) = node_with_users(never).await;
    let group = chat(&node, owner, &[admin, second, member, other]).await;
    for user in [admin, second] {
        make_admin(&node, group, user).await;
    }
    let id = format!("g{group}");
    let cases = [
        (owner, admin, true),
        (owner, member, true),
        (admin, member, true),
        (admin, second, false),
        (admin, owner, false),
        (member, other, false),
        (member, admin, false),
    ];
    for (user, sender, may) in cases {
        let seq = say(&node, sender, To::GroupId(group), "hi").await.unwrap();
        let recalled = recall(&node, user, &id, seq).await;
        if may {
            assert_eq!(recalled.unwrap().message.unwrap().recall.unwrap().user_id, user);
        } else {
            assert_denied(recalled);
        }
        assert_denied(edit(&node, user, to_edit(&id, seq, "ha")).await);
    }
    let news = send(&node, SERVICE, text(To::GroupId(group), "news")).await.unwrap().seq;
    assert_denied(recall(&node, owner, &id, news).await);
}

#[tokio::test]
async fn former_member_is_recalled_as_a_member() {
    let (node, [owner, admin, member, other]) = with_users().await;
    let group = chat(&node, owner, &[admin, member, other]).await;
    make_admin(&node, group, admin).await;
    let id = format!("g{group}");
    let say = async |user, body| say(&node, user, To::GroupId(group), body).await.unwrap();
    let [one, two, three] = [say(member, "one").await, say(member, "two").await, say(admin, "three").await];
    remove(&node, group, member).await;
    assert_denied(recall(&node, other, &id, one).await);
    recall(&node, admin, &id, one).await.unwrap();
    // A member may recall its own message, and edit no other message.
    assert_denied(edit(&node, member, to_edit(&id, two, "ha")).await);
    recall(&node, member, &id, two).await.unwrap();
    remove(&node, group, admin).await;
    assert_denied(recall(&node, admin, &id, two).await);
    recall(&node, owner, &id, three).await.unwrap();
    let texts = read_all(&node, owner, &id).await;
    assert!(texts.iter().all(String::is_empty), "{texts:?}");
}

#[tokio::test]
async fn unreadable_message_is_not_found() {
    let (node, [owner, admin, member]) = with_users().await;
    let (group, id) = chat_with_id(&node, owner, &[member]).await;
    for text in ["one", "two"] {
        say(&node, member, To::GroupId(group), text).await.unwrap();
    }
    add(&node, group, &[admin]).await;
    make_admin(&node, group, admin).await;
    assert_not_found(recall(&node, admin, &id, 1).await);
    crate::dialog_calls::trim(&node, SERVICE, &id, 2).await.unwrap();
    for user in [owner, member] {
        assert_not_found(recall(&node, user, &id, 1).await);
    }
    assert_not_found(recall_with(&node, SERVICE, to_recall(&id, 1)).await);
    assert_not_found(recall_with(&node, SERVICE, to_recall("g987654321", 1)).await);
    recall(&node, owner, &id, 2).await.unwrap();
}

#[tokio::test]
async fn service_changes_every_message() {
    let (node, [ann, bea], id) = written(["hi"]).await;
    let of_service = send(&node, SERVICE, text(To::ConversationId(id.clone()), "news")).await.unwrap();
    assert_eq!(of_service.seq, 2);
    for seq in [1, 2] {
        let edited = edit(&node, SERVICE, to_edit(&id, seq, "edited")).await.unwrap();
        assert_eq!(edited.message.unwrap().edits, 1);
        let recalled = recall_with(&node, SERVICE, to_recall(&id, seq)).await.unwrap();
        assert_eq!(recalled.message.unwrap().recall.unwrap().user_id, 0);
    }
    let event = seen(&node, bea, &id, 6).await.event.unwrap();
    assert_eq!(event.what, Some(What::Recalled(MessageRecalled { seq: 2, user_id: 0 })));
    // A service that acts for a user is bound by that user's rights.
    say(&node, ann, To::UserId(bea), "mine").await.unwrap();
    let by = |user_id| RecallMessageRequest { user_id, ..to_recall(&id, 7) };
    let edit_by = |user_id| EditMessageRequest { user_id, ..to_edit(&id, 7, "ha") };
    assert_denied(recall_with(&node, SERVICE, by(bea)).await);
    assert_denied(edit(&node, SERVICE, edit_by(bea)).await);
    edit(&node, SERVICE, edit_by(ann)).await.unwrap();
    let recalled = recall_with(&node, SERVICE, by(ann)).await.unwrap();
    assert_eq!(recalled.message.unwrap().recall.unwrap().user_id, ann);
}

#[tokio::test]
async fn repeated_recall_changes_nothing() {
    let (node, [ann, bea], id) = written(["hi"]).await;
    let calls = (0..8).map(|_| recall(&node, ann, &id, 1));
    let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1);
    let first = answers.into_iter().find(|answer| !answer.replayed).unwrap();
    let again = RecallMessageResponse { replayed: true, ..first };
    assert_eq!(recall(&node, ann, &id, 1).await.unwrap(), again);
    assert_eq!(recall_with(&node, SERVICE, to_recall(&id, 1)).await.unwrap(), again, "the sender was first");
    assert_denied(recall(&node, bea, &id, 1).await);
    assert_eq!(max_seqs(&node, bea, &[&id]).await, [Ok(2)]);
}

#[tokio::test]
async fn edited_message_has_its_new_content_and_counts() {
    let (node, [ann, bea], id) = written(["first", "second"]).await;
    let before = seen(&node, bea, &id, 1).await;
    for (edits, text) in (1..).zip(["one", "two", "three"]) {
        let answer = edit(&node, ann, to_edit(&id, 1, text)).await.unwrap();
        let message = answer.message.unwrap();
        assert_eq!((answer.event_seq, answer.replayed), (i64::from(edits) + 2, false));
        let edit_time = message.edit_time;
        assert!(edit_time.unwrap().seconds >= before.send_time.unwrap().seconds);
        let expected = Message { body: text.to_owned().into(), edits, edit_time, ..before.clone() };
        assert_eq!(message, expected);
        assert_eq!(seen(&node, bea, &id, 1).await, expected);
        let event = seen(&node, bea, &id, answer.event_seq).await;
        let what = What::Edited(MessageEdited { seq: 1 });
        assert_eq!((event.event.unwrap().what, event.edits), (Some(what), 0));
    }
    assert_eq!(seen(&node, bea, &id, 2).await.edits, 0);
    let recalled = recall(&node, ann, &id, 1).await.unwrap().message.unwrap();
    assert_eq!((recalled.edits, recalled.body.len()), (3, 0));
}

#[tokio::test]
async fn mentions_stay_unless_the_edit_has_others() {
    let (node, [ann, bea], id) = direct_chat().await;
    let mentioning =
        SendMessageRequest { mention_ids: vec![bea], mention_all: true, ..text(To::UserId(bea), "hi") };
    send(&node, ann, mentioning).await.unwrap();
    let edited = async |mentions: Option<Mentions>, body| {
        let request = EditMessageRequest { mentions, ..to_edit(&id, 1, body) };
        let message = edit(&node, ann, request).await.unwrap().message.unwrap();
        let first = conversation(&node, bea, &id).await.unwrap().first_mention_seq;
        assert_eq!(first == 1, message.mention_all || message.mention_ids.contains(&bea));
        (message.mention_ids, message.mention_all)
    };
    assert_eq!(edited(None, "one").await, (vec![bea], true));
    assert_eq!(edited(Some(Mentions::default()), "two").await, (vec![], false));
    let other = Mentions { user_ids: vec![ann, bea], all: false };
    assert_eq!(edited(Some(other), "three").await, (vec![ann, bea], false));
}

#[tokio::test]
async fn repeated_edit_is_one_edit() {
    let (node, [ann, bea], id) = written(["hi"]).await;
    let first = edit(&node, ann, to_edit(&id, 1, "one")).await.unwrap();
    let again = EditMessageResponse { replayed: true, ..first.clone() };
    let expecting = |text, edits| EditMessageRequest { expected_edits: Some(edits), ..to_edit(&id, 1, text) };
    for request in [to_edit(&id, 1, "one"), expecting("one", 0)] {
        assert_eq!(edit(&node, ann, request).await.unwrap(), again);
    }
    for (text, edits) in [("two", 0), ("two", 2), ("one", 2)] {
        assert_error(edit(&node, ann, expecting(text, edits)).await, Code::Aborted, "VERSION_CONFLICT");
    }
    assert_eq!(seen(&node, bea, &id, 1).await, first.message.unwrap());
    edit(&node, ann, expecting("two", 1)).await.unwrap();
    edit(&node, ann, to_edit(&id, 1, "one")).await.unwrap();
    let shown = seen(&node, bea, &id, 1).await;
    assert_eq!((shown.edits, shown.body), (3, "one".into()), "back to what it was is an edit");
}

#[tokio::test]
async fn who_may_not_send_may_not_edit() {
    let (node, [ann, bea], id) = written(["hi"]).await;
    let group = chat(&node, bea, &[ann]).await;
    let seq = say(&node, ann, To::GroupId(group), "hi").await.unwrap();
    block(&node, bea, ann).await;
    assert_forbidden(edit(&node, ann, to_edit(&id, 1, "ha")).await);
    mute(&node, group, ann, Some(4_000_000_000)).await;
    let refused = edit(&node, ann, to_edit(&format!("g{group}"), seq, "ha")).await;
    assert_error(refused, Code::FailedPrecondition, "MUTED");
    // A recall puts nothing before the remaining message.
    recall(&node, ann, &id, 1).await.unwrap();
    recall(&node, ann, &format!("g{group}"), seq).await.unwrap();
}

#[tokio::test]
async fn number_of_no_message_is_refused() {
    let (node, [ann, _], id) = written(["hi"]).await;
    recall(&node, ann, &id, 1).await.unwrap();
    assert_invalid(recall(&node, ann, &id, 2).await, "seq");
    assert_invalid(edit(&node, SERVICE, to_edit(&id, 2, "ha")).await, "seq");
    assert_forbidden(edit(&node, SERVICE, to_edit(&id, 1, "back")).await);
    for above in [3, i64::MAX] {
        assert_error(recall(&node, ann, &id, above).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
        assert_error(edit(&node, ann, to_edit(&id, above, "ha")).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
    }
    assert_eq!(max_seqs(&node, ann, &[&id]).await, [Ok(2)]);
}

/// Returns a message as each call shows it to a former member: its text, whether it mentions the user, and
/// how often it was edited.
async fn shown_to_former(node: &TestNode, user: i64, id: &str, seq: i64) -> (String, bool, i32) {
    let message = seen(node, user, id, seq).await;
    let of_list = conversation(node, user, id).await.unwrap();
    if of_list.max_seq == seq {
        assert_eq!(of_list.last_message.as_ref(), Some(&message), "the last message is the same");
        let is_mentioned = message.mention_ids.contains(&user);
        assert_eq!(of_list.first_mention_seq, if is_mentioned { seq } else { 0 });
    }
    let is_mentioned = message.mention_ids.contains(&user) || message.mention_all;
    (texts(std::slice::from_ref(&message)).remove(0), is_mentioned, message.edits)
}

fn mentioning_edit(id: &str, seq: i64, text: &str, user: i64) -> EditMessageRequest {
    let mentions = Some(Mentions { user_ids: vec![user], all: true });
    EditMessageRequest { mentions, ..to_edit(id, seq, text) }
}

#[tokio::test]
async fn former_member_reads_no_later_edit() {
    let (node, [ann, bea, cid]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cid]).await;
    let first = say(&node, ann, To::GroupId(group), "first").await.unwrap();
    let second = say(&node, ann, To::GroupId(group), "second").await.unwrap();
    edit(&node, ann, mentioning_edit(&id, first, "before", bea)).await.unwrap();
    let last = say(&node, ann, To::GroupId(group), "last").await.unwrap();
    leave(&node, group, bea).await;
    remove(&node, group, cid).await;
    assert_eq!(shown_to_former(&node, bea, &id, first).await, ("before".into(), true, 1));
    for seq in [second, last] {
        edit(&node, ann, mentioning_edit(&id, seq, "after", bea)).await.unwrap();
    }
    edit(&node, ann, mentioning_edit(&id, first, "again", bea)).await.unwrap();
    for user in [bea, cid] {
        for (seq, edits) in [(first, 2), (second, 1), (last, 1)] {
            assert_eq!(shown_to_former(&node, user, &id, seq).await, (String::new(), false, edits), "{seq}");
        }
    }
    assert_eq!(read_all(&node, ann, &id).await, ["again", "after", "after"]);
    recall(&node, ann, &id, second).await.unwrap();
    assert!(seen(&node, bea, &id, second).await.recall.is_some(), "that it was recalled is no content");
}

#[tokio::test]
async fn edit_behind_a_range_of_a_service_is_withheld() {
    let (node, [ann, bea]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let seq = say(&node, ann, To::GroupId(group), "text").await.unwrap();
    set_range(&node, bea, &id, None, Some(seq)).await;
    edit(&node, ann, mentioning_edit(&id, seq, "later", bea)).await.unwrap();
    assert_eq!(shown_to_former(&node, bea, &id, seq).await, (String::new(), false, 1));
    let of_list = listed(&node, bea).await.remove(0);
    assert_eq!((of_list.last_message.unwrap().body.len(), of_list.first_mention_seq), (0, 0));
    set_range(&node, bea, &id, None, None).await;
    assert_eq!(shown_to_former(&node, bea, &id, seq).await, ("later".into(), true, 1));
}

#[tokio::test]
async fn cleared_message_is_not_changed_by_its_sender() {
    let (node, [ann, bea], id) = written(["hi"]).await;
    clear(&node, ann, &id).await.unwrap();
    assert_not_found(recall(&node, ann, &id, 1).await);
    assert_not_found(edit(&node, ann, to_edit(&id, 1, "ha")).await);
    assert_eq!(read_all(&node, bea, &id).await, ["hi"]);
}

#[tokio::test]
async fn range_of_a_service_holds_for_a_former_member() {
    let (node, [ann, bea]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea]).await;
    let first = say(&node, ann, To::GroupId(group), "first").await.unwrap();
    say(&node, ann, To::GroupId(group), "second").await.unwrap();
    set_range(&node, bea, &id, None, Some(first)).await;
    leave(&node, group, bea).await;
    let pulled = pull(&node, bea, to_pull(&id, first, 0, 0)).await.unwrap();
    assert_eq!(texts(&pulled.messages), ["first"]);
    assert_eq!(max_seqs(&node, bea, &[&id]).await, [Ok(first)]);
}

/// Only full documents are read through the tiers.
#[tokio::test]
async fn change_shows_at_once_in_an_old_document() {
    let (node, [ann, bea], id) = written(["first", "second"]).await;
    fill(&node, &id, 1_000).await;
    for seq in [1, 2] {
        assert!(seen(&node, bea, &id, seq).await.recall.is_none());
    }
    recall(&node, ann, &id, 1).await.unwrap();
    edit(&node, ann, to_edit(&id, 2, "edited")).await.unwrap();
    assert!(seen(&node, bea, &id, 1).await.recall.is_some());
    assert_eq!(seen(&node, bea, &id, 2).await.body, "edited");
}
