//! Dialog settings, and the bounds on the messages that users see.

use crate::dialog_calls::*;
use crate::group_calls::{add, dismiss, transfer};
use crate::message_calls::*;
use crate::node::{SERVICE, TestNode, assert_denied, assert_error, assert_not_found, principal};
use kith_proto::group::v1 as groups;
use kith_proto::message::v1::{send_message_request::To, *};
use tonic::Code;

/// Returns the numbers that a user reads by every call that returns messages or their range.
async fn readable(node: &TestNode, by: i64, id: &str) -> Vec<i64> {
    let page = pull(node, by, to_pull(id, 0, 0, 1_000)).await.unwrap();
    let numbers = seqs(&page.messages);
    assert_eq!((page.min_seq..=page.max_seq).collect::<Vec<_>>(), numbers);
    let back = history(node, by, id, 0, 1_000).await.unwrap();
    assert_eq!(seqs(&back.messages).into_iter().rev().collect::<Vec<_>>(), numbers);
    let all: Vec<i64> = (1..=100).collect();
    assert_eq!(seqs(&by_seqs(node, by, id, &all).await.unwrap().messages), numbers);
    let shown = conversation(node, by, id).await.unwrap();
    let highest = numbers.last().copied().unwrap_or_default();
    assert_eq!((shown.min_seq, shown.max_seq), (page.min_seq, highest));
    assert_eq!(shown.last_message.map_or(0, |last| last.seq), highest);
    assert_eq!(max_seqs(node, by, &[id]).await, [Ok(highest)]);
    numbers
}

fn numbers(first: i64, last: i64) -> Vec<i64> {
    (first..=last).collect()
}

#[tokio::test]
async fn update_changes_what_the_mask_names() {
    let (node, [ann, bea], _, id) = filled(1).await;
    let all = DialogSettings { pinned: true, do_not_disturb: true, marked_unread: true, ext: "x".into() };
    let written = update(&node, ann, to_update(&id, all.clone(), &["pinned", "ext"])).await.unwrap();
    let expected = DialogSettings { pinned: true, ext: "x".into(), ..Default::default() };
    assert_eq!((written.settings.unwrap(), written.settings_version), (expected, 1));
    let written =
        update(&node, ann, to_update(&id, all.clone(), &["doNotDisturb", "marked_unread"])).await.unwrap();
    assert_eq!((written.settings.unwrap(), written.settings_version), (all, 2));
    let none = DialogSettings::default();
    mark_up_to(&node, ann, &id, 1).await;
    let stale = UpdateDialogRequest { expected_version: 1, ..to_update(&id, none.clone(), &["*"]) };
    assert_error(update(&node, ann, stale.clone()).await, Code::Aborted, "VERSION_CONFLICT");
    update(&node, ann, UpdateDialogRequest { expected_version: 2, ..stale }).await.unwrap();
    let written = update(&node, ann, to_update(&id, none.clone(), &["*"])).await.unwrap();
    assert_eq!((written.settings.unwrap(), written.settings_version), (none, 4));
    assert_eq!(conversation(&node, bea, &id).await.unwrap().settings_version, 0, "settings are of one user");
}

#[tokio::test]
async fn repeated_hide_and_clear_keep_later_messages() {
    let (node, [ann, _], _, id) = filled(3).await;
    let (conversation_id, request_id) = (id.clone(), "r1".to_owned());
    let hide = HideConversationRequest { conversation_id, request_id, ..Default::default() };
    for _ in 0..2 {
        let hidden = node.messages().hide_conversation(principal(ann, hide.clone())).await.unwrap();
        assert_eq!(hidden.into_inner().hidden_seq, 3);
        fill(&node, &id, 1).await;
        assert_eq!(listed_ids(&node, ann).await, [&*id]);
    }
    let (conversation_id, request_id) = (id.clone(), "r2".to_owned());
    let clear = ClearConversationRequest { conversation_id, request_id, ..Default::default() };
    for _ in 0..2 {
        let cleared = node.messages().clear_conversation(principal(ann, clear.clone())).await.unwrap();
        assert_eq!(cleared.into_inner().min_seq, 6);
        fill(&node, &id, 1).await;
    }
    assert_eq!(readable(&node, ann, &id).await, numbers(6, 7));
}

#[tokio::test]
async fn service_sets_what_a_user_sees() {
    let (node, [ann, bea], _, id) = filled(10).await;
    set_range(&node, ann, &id, Some(3), Some(6)).await;
    assert_eq!(readable(&node, ann, &id).await, numbers(3, 6));
    let shown = conversation(&node, ann, &id).await.unwrap();
    assert_eq!((shown.unread, counts(&node, ann, &[&id]).await), (4, vec![(id.clone(), 4)]));
    set_range(&node, ann, &id, None, Some(0)).await;
    assert_eq!(readable(&node, ann, &id).await, [0; 0]);
    set_range(&node, ann, &id, None, Some(99)).await;
    assert_eq!(readable(&node, ann, &id).await, numbers(1, 10));
    assert_eq!(set_range(&node, ann, &id, None, None).await.settings_version, 4);
    assert_eq!(readable(&node, ann, &id).await, numbers(1, 10));
    assert_eq!(readable(&node, bea, &id).await, numbers(1, 10));
    let request = SetUserSeqRangeRequest { conversation_id: id.clone(), user_id: ann, ..Default::default() };
    assert_denied(node.messages().set_user_seq_range(principal(ann, request)).await);
}

#[tokio::test]
async fn trim_hides_messages_from_all() {
    let (node, [ann, bea], _, id) = filled(10).await;
    assert_eq!(trim(&node, ann, &id, 4).await.unwrap(), 4);
    for user in [ann, bea] {
        assert_eq!(readable(&node, user, &id).await, numbers(4, 10));
        assert_eq!(conversation(&node, user, &id).await.unwrap().unread, 7);
    }
    let as_service = pull(&node, SERVICE, to_pull(&id, 0, 0, 100)).await.unwrap();
    assert_eq!(seqs(&as_service.messages), numbers(4, 10));
    assert_eq!(trim(&node, SERVICE, &id, 2).await.unwrap(), 4, "it never falls");
    assert_eq!(trim(&node, SERVICE, &id, 11).await.unwrap(), 11);
    assert_eq!(readable(&node, ann, &id).await, [0; 0]);
    fill(&node, &id, 1).await;
    assert_eq!(readable(&node, ann, &id).await, [11]);
    assert_error(trim(&node, SERVICE, &id, 13).await, Code::OutOfRange, "SEQ_OUT_OF_RANGE");
}

#[tokio::test]
async fn owner_and_services_trim() {
    let (node, [ann, bea], group, id) = filled(3).await;
    assert_denied(trim(&node, bea, &id, 2).await);
    let stranger = node.user("stranger").await.user_id;
    assert_not_found(trim(&node, stranger, &id, 2).await);
    assert_not_found(trim(&node, SERVICE, "g987654321", 1).await);
    transfer(&node, group, bea).await;
    assert_denied(trim(&node, ann, &id, 2).await);
    assert_eq!(trim(&node, bea, &id, 2).await.unwrap(), 2);
    let both = direct(ann, bea);
    say(&node, ann, To::UserId(bea), "hi").await.unwrap();
    assert_denied(trim(&node, ann, &both, 1).await);
    assert_eq!(trim(&node, SERVICE, &both, 2).await.unwrap(), 2);
    assert_eq!(readable(&node, bea, &both).await, [0; 0]);
}

#[tokio::test]
async fn recreated_group_reads_no_old_message() {
    let (node, [ann, bea], group, id) = filled(5).await;
    mark_up_to(&node, ann, &id, 3).await;
    dismiss(&node, SERVICE, group).await;
    assert_not_found(pull(&node, ann, to_pull(&id, 0, 0, 0)).await);
    assert_not_found(conversation(&node, ann, &id).await);
    let again = groups::Group {
        group_id: group,
        name: "Again".into(),
        creator_id: bea,
        history_for_new_members: true,
        ..Default::default()
    };
    assert_eq!(node.group(again).await.group_id, group);
    add(&node, group, &[ann]).await;
    // The readable message is the event that Ann joined.
    for user in [ann, bea] {
        assert_eq!(readable(&node, user, &id).await, [6]);
    }
    assert_eq!(say(&node, bea, To::GroupId(group), "new").await.unwrap(), 7);
    for user in [ann, bea] {
        assert_eq!(readable(&node, user, &id).await, [6, 7]);
    }
    assert_eq!(counts(&node, ann, &[]).await, [(id.clone(), 1)]);
    let as_service = pull(&node, SERVICE, to_pull(&id, 0, 0, 100)).await.unwrap();
    assert_eq!(seqs(&as_service.messages), [6, 7]);
}
