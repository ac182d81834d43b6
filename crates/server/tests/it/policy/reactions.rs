//! Reactions: who may react, what readers see, and when reactions end.

use crate::dialog_calls::listed;
use crate::group_calls::{chat_with_id, leave, mute, mute_all};
use crate::message_calls::*;
use crate::message_streams::{Stream, live};
use crate::node::{
    SERVICE, TestNode, assert_denied, assert_forbidden, assert_invalid, assert_not_found, assert_refused,
    until,
};
use crate::reaction_calls::*;
use crate::relation_calls::{block, with_users};
use kith_proto::message::v1::{send_message_request::To, signal::What as Signaled, *};
use tonic::Code;

/// Starts a node with a direct conversation that has these messages by the first user.
async fn written(count: usize) -> (TestNode, [i64; 2], String) {
    let (node, [ann, bea], id) = direct_chat().await;
    for text in 0..count {
        say(&node, ann, To::UserId(bea), &text.to_string()).await.unwrap();
    }
    (node, [ann, bea], id)
}

#[tokio::test]
async fn reactions_are_counted_and_listed() {
    let (node, [ann, bea, cat]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat]).await;
    let seq = say(&node, ann, To::GroupId(group), "x").await.unwrap();
    assert_eq!(counts(&node, ann, &id, seq).await, "");
    for user in [bea, ann, cat] {
        react(&node, user, &id, seq, "👍").await.unwrap();
    }
    let answer = react(&node, cat, &id, seq, "ok").await.unwrap();
    assert_eq!((shown(&answer.reactions).as_str(), answer.replayed), ("👍3 ok1", false));
    assert_eq!(reacting(&node, ann, &id, seq, "👍").await.unwrap(), [bea, ann, cat], "by time");
    let seen = reactions(&node, cat, &id, &[seq, seq, 1]).await.unwrap();
    assert_eq!(seen, [(seq, "👍3 ok1".to_owned(), "ok 👍".to_owned())]);
    assert_eq!(reactions(&node, SERVICE, &id, &[seq]).await.unwrap()[0].2, "", "a service has no kinds");
    let answer = unreact(&node, bea, &id, seq, "👍").await.unwrap();
    assert_eq!((shown(&answer.reactions).as_str(), answer.replayed), ("👍2 ok1", false));
    assert_eq!(reacting(&node, ann, &id, seq, "👍").await.unwrap(), [ann, cat]);
}

#[tokio::test]
async fn repeated_calls_change_nothing() {
    let (node, [ann, bea], id) = written(1).await;
    react(&node, bea, &id, 1, "a").await.unwrap();
    let again = react(&node, bea, &id, 1, "a").await.unwrap();
    assert_eq!((shown(&again.reactions).as_str(), again.replayed), ("a1", true));
    unreact(&node, bea, &id, 1, "a").await.unwrap();
    let again = unreact(&node, bea, &id, 1, "a").await.unwrap();
    assert!(again.replayed && again.reactions.is_empty(), "{again:?}");
    assert_eq!(counts(&node, ann, &id, 1).await, "");
}

#[tokio::test]
async fn pages_have_counts_on_request_only() {
    let (node, [ann, bea], id) = written(2).await;
    react(&node, bea, &id, 2, "a").await.unwrap();
    let of = |messages: &[Message]| messages.iter().map(|one| shown(&one.reactions)).collect::<Vec<_>>();
    let asked = PullMessagesRequest { with_reactions: true, ..to_pull(&id, 0, 0, 0) };
    assert_eq!(of(&pull(&node, ann, asked).await.unwrap().messages), ["", "a1"]);
    assert_eq!(of(&pull(&node, ann, to_pull(&id, 0, 0, 0)).await.unwrap().messages), ["", ""]);
    let (conversation_id, with_reactions) = (id.clone(), true);
    let asked = PullBySeqsRequest { user_id: ann, conversation_id, seqs: vec![2], with_reactions };
    let found = node.messages().pull_by_seqs(asked).await.unwrap().into_inner();
    assert_eq!(of(&found.messages), ["a1"]);
    let asked =
        HistoryRequest { user_id: ann, conversation_id: id.clone(), with_reactions, ..Default::default() };
    assert_eq!(of(&node.messages().history(asked).await.unwrap().into_inner().messages), ["a1", ""]);
    let asked = ListConversationsRequest { user_id: ann, with_reactions, ..Default::default() };
    let listed_with = node.messages().list_conversations(asked).await.unwrap().into_inner().conversations;
    assert_eq!(of(&[listed_with[0].last_message.clone().unwrap()]), ["a1"]);
    assert_eq!(of(&[listed(&node, ann).await[0].last_message.clone().unwrap()]), [""]);
}

#[tokio::test]
async fn only_who_can_read_a_message_reacts() {
    let (node, [ann, bea], id) = written(1).await;
    let dan = node.user("dan").await.user_id;
    assert_not_found(react(&node, dan, &id, 1, "a").await);
    assert_not_found(reactions(&node, dan, &id, &[1]).await);
    assert_not_found(reacting(&node, dan, &id, 1, "a").await);
    let beyond = react(&node, bea, &id, 2, "a").await.unwrap_err();
    assert_refused(&beyond, Code::OutOfRange, "SEQ_OUT_OF_RANGE", None);
    assert_invalid(node.messages().react(to_react(&id, 1, "a")).await, "user_id");
    let for_bea = ReactRequest { user_id: bea, ..to_react(&id, 1, "a") };
    node.messages().react(for_bea).await.unwrap();
    assert_eq!(reacting(&node, ann, &id, 1, "a").await.unwrap(), [bea]);
}

#[tokio::test]
async fn muted_and_former_members_do_not_react() {
    let (node, [ann, bea, cat]) = with_users().await;
    let (group, id) = chat_with_id(&node, ann, &[bea, cat]).await;
    let seq = say(&node, ann, To::GroupId(group), "x").await.unwrap();
    react(&node, bea, &id, seq, "a").await.unwrap();
    react(&node, cat, &id, seq, "a").await.unwrap();
    let later = kith_store::Timestamp::now().0 / 1_000 + 600;
    mute(&node, group, bea, Some(later)).await;
    let muted = react(&node, bea, &id, seq, "b").await.unwrap_err();
    assert_refused(&muted, Code::FailedPrecondition, "MUTED", None);
    unreact(&node, bea, &id, seq, "a").await.unwrap();
    mute(&node, group, bea, None).await;
    mute_all(&node, group, Some(later)).await;
    assert!(react(&node, bea, &id, seq, "b").await.is_err());
    react(&node, ann, &id, seq, "b").await.unwrap();
    leave(&node, group, cat).await;
    assert_denied(react(&node, cat, &id, seq, "c").await);
    assert_eq!(reactions(&node, cat, &id, &[seq]).await.unwrap(), [], "they may be newer than its leave");
    assert!(reacting(&node, cat, &id, seq, "a").await.unwrap().is_empty());
    assert_eq!(counts(&node, ann, &id, seq).await, "a1 b1", "leaving removes none");
}

#[tokio::test]
async fn block_refuses_reactions_of_both() {
    let (node, [ann, bea], id) = written(1).await;
    react(&node, bea, &id, 1, "a").await.unwrap();
    block(&node, ann, bea).await;
    for user in [ann, bea] {
        assert_forbidden(react(&node, user, &id, 1, "b").await);
    }
    assert_eq!(counts(&node, ann, &id, 1).await, "a1");
    unreact(&node, bea, &id, 1, "a").await.unwrap();
}

#[tokio::test]
async fn limits_of_kinds_are_named() {
    let (node, [_, bea], id) = written(1).await;
    for number in 0..20 {
        react(&node, bea, &id, 1, &format!("k{number}")).await.unwrap();
    }
    let refused = assert_forbidden(react(&node, bea, &id, 1, "more").await);
    assert!(refused.message().starts_with("kind: the user reacts to the message with 20 kinds"));
}

#[tokio::test]
async fn recall_ends_reactions() {
    let (node, [ann, bea], id) = written(2).await;
    react(&node, bea, &id, 1, "a").await.unwrap();
    react(&node, bea, &id, 2, "a").await.unwrap();
    recall(&node, ann, &id, 1).await.unwrap();
    let seen = reactions(&node, bea, &id, &[1, 2]).await.unwrap();
    assert_eq!(seen, [(2, "a1".to_owned(), "a".to_owned())]);
    assert_forbidden(react(&node, bea, &id, 1, "a").await);
    assert!(unreact(&node, bea, &id, 1, "a").await.unwrap().replayed);
    assert_invalid(react(&node, bea, &id, 3, "a").await, "seq");
}

#[tokio::test]
async fn erasure_ends_all_reactions_of_a_user() {
    let (node, [ann, bea], id) = written(1).await;
    let seq = say(&node, bea, To::UserId(ann), "mine").await.unwrap();
    react(&node, bea, &id, 1, "a").await.unwrap();
    react(&node, ann, &id, 1, "a").await.unwrap();
    react(&node, ann, &id, seq, "b").await.unwrap();
    erased(&node, bea).await;
    assert_eq!(counts(&node, ann, &id, 1).await, "a1");
    assert_eq!(counts(&node, ann, &id, seq).await, "");
}

#[tokio::test]
async fn erasure_ends_reactions_to_erased_messages() {
    let (node, [ann, bea], id) = written(1).await;
    react(&node, bea, &id, 1, "a").await.unwrap();
    assert_eq!(counts(&node, bea, &id, 1).await, "a1");
    erased(&node, ann).await;
    assert_eq!(counts(&node, bea, &id, 1).await, "");
}

#[tokio::test]
async fn reactions_of_a_deleted_user_end() {
    let (node, [ann, bea], id) = written(1).await;
    react(&node, bea, &id, 1, "a").await.unwrap();
    react(&node, ann, &id, 1, "a").await.unwrap();
    node.delete_user(bea).await;
    until(async || counts(&node, ann, &id, 1).await == "a1").await;
    assert_eq!(reacting(&node, ann, &id, 1, "a").await.unwrap(), [ann]);
}

/// Returns the next signal's message, which must be about reactions.
async fn changed(stream: &mut Stream) -> (String, i64) {
    let signal = stream.signal().await;
    let Some(Signaled::Reactions(ReactionsChanged { seq })) = signal.what else { panic!("{signal:?}") };
    (signal.conversation_id, seq)
}

#[tokio::test]
async fn receivers_get_a_signal_for_changes() {
    let (node, [ann, bea], id) = written(2).await;
    let mut stream = live(&node, ann).await;
    react(&node, bea, &id, 1, "a").await.unwrap();
    assert_eq!(changed(&mut stream).await, (id.clone(), 1));
    for kind in ["b", "c", "d"] {
        react(&node, bea, &id, 1, kind).await.unwrap();
    }
    assert_eq!(changed(&mut stream).await, (id.clone(), 1), "one for all within a second");
    react(&node, bea, &id, 2, "a").await.unwrap();
    assert_eq!(changed(&mut stream).await, (id.clone(), 2), "there was no other in between");
}

fn imported(id: &str, seq: i64, user_id: i64, seconds: i64) -> ImportMessage {
    let (conversation_id, kind) = (id.to_owned(), "a".to_owned());
    let time = Some(prost_types::Timestamp { seconds, nanos: 0 });
    let reaction = Some(ImportReaction { conversation_id, seq, user_id, kind, time });
    ImportMessage { reaction, ..Default::default() }
}

#[tokio::test]
async fn imported_reactions_keep_their_times() {
    let (node, [ann, bea], id) = written(1).await;
    let records = [(1, ann, 1_500_000_000), (1, bea, 1_400_000_000), (2, bea, 5), (1, 987_654, 5)];
    let of = |(seq, user, seconds)| imported(&id, seq, user, seconds);
    let records: Vec<_> = records.into_iter().map(of).collect();
    for expected in ["Id(1)", "ID_TAKEN"] {
        let request = ImportMessagesRequest { records: records.clone() };
        let answers = node.messages().import_messages(tokio_stream::iter([request])).await;
        let results = answers.unwrap().into_inner().message().await.unwrap().unwrap().results;
        let outcome = results.into_iter().map(|one| format!("{:?}", one.result.unwrap()));
        let outcomes: Vec<String> = outcome.collect();
        assert!(outcomes[..2].iter().all(|one| one.contains(expected)), "{outcomes:?}");
        assert!(outcomes[2].contains("NOT_FOUND"), "no such message: {outcomes:?}");
        assert!(outcomes[3].contains("must be one of the two users"), "{outcomes:?}");
    }
    assert_eq!(reacting(&node, ann, &id, 1, "a").await.unwrap(), [bea, ann], "by their times");
}
