//! Dialog settings, and the bounds on the messages that users see.

use crate::dialog_calls::*;
use crate::group_calls::{add, dismiss, leave, transfer};
use crate::message_calls::*;
use crate::node::{
    SERVICE, TestNode, assert_denied, assert_error, assert_not_found, assert_reused, principal,
};
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
    let written = update(&node, ann, to_update(&id, none.clone(), &["*"])).await.unwrap();
    assert_eq!((written.settings.unwrap(), written.settings_version), (none, 3));
    assert_eq!(conversation(&node, bea, &id).await.unwrap().settings_version, 0, "settings are of one user");
}

#[tokio::test]
async fn mark_keeps_the_settings_version() {
    let (node, [ann, _], _, id) = filled(3).await;
    let draft = |text: &str| DialogSettings { ext: text.to_owned().into(), ..Default::default() };
    update(&node, ann, to_update(&id, draft("1"), &["ext"])).await.unwrap();
    mark_up_to(&node, ann, &id, 2).await;
    let shown = conversation(&node, ann, &id).await.unwrap();
    assert_eq!((shown.settings_version, shown.version), (1, 2));
    let expecting = |version, text| UpdateDialogRequest {
        expected_version: version,
        ..to_update(&id, draft(text), &["ext"])
    };
    assert_eq!(update(&node, ann, expecting(1, "2")).await.unwrap().settings_version, 2);
    assert_error(update(&node, ann, expecting(1, "3")).await, Code::Aborted, "VERSION_CONFLICT");
    assert_eq!(conversation(&node, ann, &id).await.unwrap().ext, "2");
}

#[tokio::test]
async fn repeated_request_has_one_effect() {
    let (node, [ann, _], _, id) = filled(3).await;
    let settings = DialogSettings { pinned: true, ..Default::default() };
    let request = UpdateDialogRequest { request_id: "r1".into(), ..to_update(&id, settings, &["pinned"]) };
    let first = update(&node, ann, request.clone()).await.unwrap();
    pin(&node, ann, &id, false).await;
    let again = update(&node, ann, request.clone()).await.unwrap();
    assert_eq!((again.settings, again.settings_version), (first.settings, 1));
    assert!(!conversation(&node, ann, &id).await.unwrap().pinned);
    let other = UpdateDialogRequest { settings: Some(DialogSettings::default()), ..request };
    assert_reused(update(&node, ann, other).await, "request_id");
    let hide = HideConversationRequest {
        conversation_id: id.clone(),
        request_id: "r2".into(),
        ..Default::default()
    };
    assert_eq!(
        node.messages()
            .hide_conversation(principal(ann, hide.clone()))
            .await
            .unwrap()
            .into_inner()
            .hidden_seq,
        3
    );
    fill(&node, &id, 1).await;
    let again = node.messages().hide_conversation(principal(ann, hide)).await.unwrap().into_inner();
    assert_eq!((again.hidden_seq, listed_ids(&node, ann).await), (3, vec![id.clone()]));
    let clear = ClearConversationRequest {
        conversation_id: id.clone(),
        request_id: "r3".into(),
        ..Default::default()
    };
    for _ in 0..2 {
        let cleared =
            node.messages().clear_conversation(principal(ann, clear.clone())).await.unwrap().into_inner();
        assert_eq!(cleared.min_seq, 5);
        fill(&node, &id, 1).await;
    }
    assert_eq!(readable(&node, ann, &id).await, numbers(5, 6));
}

#[tokio::test]
async fn clear_hides_all_messages_from_one_user() {
    let (node, [ann, bea], _, id) = filled(5).await;
    assert_eq!(clear(&node, ann, &id).await.unwrap().min_seq, 6);
    assert_eq!(readable(&node, ann, &id).await, [0; 0]);
    let shown = listed(&node, ann).await.remove(0);
    assert_eq!((shown.unread, shown.min_seq, shown.max_seq, shown.last_message), (0, 6, 0, None));
    assert_eq!(count(&node, ann, &[]).await.total, 0);
    fill(&node, &id, 2).await;
    assert_eq!(readable(&node, ann, &id).await, [6, 7]);
    assert_eq!(counts(&node, ann, &[]).await, [(id.clone(), 2)]);
    assert_eq!(readable(&node, bea, &id).await, numbers(1, 7));
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
async fn dialog_range_does_not_widen_the_members() {
    let (node, [_, bea], group, id) = filled(5).await;
    leave(&node, group, bea).await;
    fill(&node, &id, 5).await;
    set_range(&node, bea, &id, Some(1), Some(10)).await;
    assert_eq!(readable(&node, bea, &id).await, numbers(1, 5));
    let cid = node.user("cid").await.user_id;
    add(&node, group, &[cid]).await;
    fill(&node, &id, 2).await;
    set_range(&node, cid, &id, Some(1), None).await;
    assert_eq!(readable(&node, cid, &id).await, [12, 13, 14]);
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
