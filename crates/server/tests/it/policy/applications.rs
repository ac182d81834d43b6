//! Applications over gRPC, as callers use them.

use crate::application_calls::*;
use crate::group_calls::{is_in, leave, make_admin, private_group, public_group};
use crate::node::{
    all_pages, assert_denied, assert_exhausted, assert_forbidden, assert_invalid, assert_not_found, principal,
};
use crate::relation_calls::{block, follow, with_users};
use kith_proto::{
    application::v1::{list_applications_request::List, *},
    group::v1 as groups,
    relation::v1 as relations,
};
use tonic_types::StatusExt as _;

#[tokio::test]
async fn who_accepts_a_friend_request_is_a_friend() {
    let (node, [ann, bob]) = with_users().await;
    let asked = befriend(&node, ann, bob).await;
    assert_eq!((asked.state(), asked.applicant_id, asked.user_id), (State::Pending, ann, bob));
    assert_eq!((asked.message.as_str(), pending(&node, of_user(bob)).await), ("Hello", (1, 0)));
    assert!(!are_friends(&node, ann, bob).await);
    let accepted = accept(&node, bob, of_user(bob), asked.application_id).await.unwrap();
    assert_eq!(
        (accepted.state(), accepted.effect(), accepted.decider_id),
        (State::Accepted, Effect::Done, bob)
    );
    assert!(are_friends(&node, ann, bob).await && are_friends(&node, bob, ann).await);
    assert_eq!(pending(&node, of_user(bob)).await, (0, 0));
    let expected = [(asked.application_id, State::Accepted)];
    assert_eq!(shown(&node, ann, List::SentBy(ann)).await, expected);
    assert_eq!(shown(&node, bob, List::ReceivedBy(bob)).await, expected);
    assert_eq!(get(&node, ann, of_user(bob), asked.application_id).await.unwrap(), accepted);
}

#[tokio::test]
async fn a59_nobody_but_the_receiver_decides() {
    let (node, [ann, bob, cid]) = with_users().await;
    let id = befriend(&node, ann, bob).await.application_id;
    assert_denied(accept(&node, ann, of_user(bob), id).await);
    assert_denied(accept(&node, cid, of_user(bob), id).await);
    assert_not_found(accept(&node, cid, of_user(cid), id).await);
    assert_not_found(get(&node, cid, of_user(bob), id).await);
    assert_denied(list(&node, cid, List::ReceivedBy(bob)).await);
    let request = CountPendingRequest { receiver: of_user(bob) };
    assert_denied(node.applications().count_pending(principal(cid, request)).await);
    assert_denied(apply(&node, cid, ApplyRequest { applicant_id: ann, ..to_be_friends(bob) }).await);
    assert_eq!(get(&node, bob, of_user(bob), id).await.unwrap().state(), State::Pending);
}

#[tokio::test]
async fn a60_decided_application_is_final_and_says_who() {
    let (node, [ann, bob, cid]) = with_users().await;
    let id = befriend(&node, ann, bob).await.application_id;
    refuse(&node, bob, of_user(bob), id).await.unwrap();
    let refused = assert_forbidden(accept(&node, bob, of_user(bob), id).await);
    let details = refused.get_error_details();
    let metadata = &details.error_info().unwrap().metadata;
    assert_eq!((metadata["state"].as_str(), &metadata["decider_id"]), ("refused", &bob.to_string()));
    assert_forbidden(withdraw(&node, ann, of_user(bob), id).await);
    let id = befriend(&node, ann, cid).await.application_id;
    assert_denied(withdraw(&node, cid, of_user(cid), id).await);
    assert_not_found(withdraw(&node, bob, of_user(cid), id).await);
    assert_eq!(withdraw(&node, ann, of_user(cid), id).await.unwrap().state(), State::Withdrawn);
    assert_forbidden(accept(&node, cid, of_user(cid), id).await);
    assert!(!are_friends(&node, ann, cid).await);
    assert_eq!(pending(&node, of_user(cid)).await, (0, 0));
}

#[tokio::test]
async fn known_answer_returns_although_refused_now() {
    let (node, [ann, bob]) = with_users().await;
    let ask = ApplyRequest { request_id: "ask".into(), ..to_be_friends(bob) };
    let asked = apply(&node, ann, ask.clone()).await.unwrap();
    block(&node, bob, ann).await;
    assert_eq!(apply(&node, ann, ask.clone()).await.unwrap(), asked);
    assert_forbidden(apply(&node, ann, ApplyRequest { request_id: "ask2".into(), ..ask }).await);
}

#[tokio::test]
async fn request_needs_permission_and_no_friendship() {
    let (node, [ann, bob, cid, dan]) = with_users().await;
    block(&node, bob, ann).await;
    assert_forbidden(apply(&node, ann, to_be_friends(bob)).await);
    let request = relations::SetPermissionsRequest {
        user_id: cid,
        target_id: ann,
        permissions: Some(63 - 32),
        ..Default::default()
    };
    node.relations().set_permissions(request).await.unwrap();
    assert_forbidden(apply(&node, ann, to_be_friends(cid)).await);
    follow(&node, ann, dan).await.unwrap();
    follow(&node, dan, ann).await.unwrap();
    assert_forbidden(apply(&node, ann, to_be_friends(dan)).await);
    assert_invalid(apply(&node, ann, to_be_friends(ann)).await, "user_id");
    assert_not_found(apply(&node, ann, to_be_friends(5)).await);
}

#[tokio::test]
async fn acceptance_is_refused_while_it_is_impossible() {
    let (node, [ann, bob, cid]) = with_users().await;
    let id = befriend(&node, ann, bob).await.application_id;
    block(&node, bob, ann).await;
    assert_forbidden(accept(&node, bob, of_user(bob), id).await);
    let of_cid = befriend(&node, cid, bob).await.application_id;
    node.delete_user(cid).await;
    assert_forbidden(accept(&node, bob, of_user(bob), of_cid).await);
    assert_eq!(pending(&node, of_user(bob)).await, (1, 0));
}

#[tokio::test]
async fn owner_and_admins_accept_applicants() {
    let (node, [ann, bob, cid, dan]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    make_admin(&node, chess, bob).await;
    let id = apply(&node, cid, to_join(chess, "")).await.unwrap().application_id;
    assert_eq!(pending(&node, of_group(chess)).await, (1, 0));
    assert_denied(accept(&node, cid, of_group(chess), id).await);
    assert_denied(accept(&node, dan, of_group(chess), id).await);
    for (by, of) in [(ann, List::ReceivedBy(ann)), (bob, List::ReceivedBy(bob)), (bob, List::GroupId(chess))]
    {
        assert_eq!(shown(&node, by, of).await, [(id, State::Pending)]);
    }
    assert_denied(list(&node, cid, List::GroupId(chess)).await);
    let accepted = accept(&node, bob, of_group(chess), id).await.unwrap();
    assert_eq!((accepted.effect(), accepted.decider_id), (Effect::Done, bob));
    assert!(is_in(&node, chess, cid).await);
    assert_forbidden(accept(&node, ann, of_group(chess), id).await);
    assert_forbidden(apply(&node, cid, to_join(chess, "")).await);
    assert_eq!(shown(&node, ann, List::ReceivedBy(ann)).await, [(id, State::Accepted)]);
}

#[tokio::test]
async fn a61_application_of_another_group_is_not_found() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let go = public_group(&node, bob, groups::JoinPolicy::Approval).await;
    let id = apply(&node, cid, to_join(chess, "")).await.unwrap().application_id;
    assert_not_found(accept(&node, bob, of_group(go), id).await);
    assert_denied(accept(&node, bob, of_group(chess), id).await);
    assert_not_found(get(&node, bob, of_group(chess), id).await);
    assert_not_found(accept(&node, bob, of_group(chess + 1_000), id).await);
}

#[tokio::test]
async fn a_group_that_is_not_joined_so_says_how_it_is() {
    let (node, [ann, bob]) = with_users().await;
    let open = public_group(&node, ann, groups::JoinPolicy::Open).await;
    let refused = assert_forbidden(apply(&node, bob, to_join(open, "")).await);
    assert!(refused.message().contains("join it"), "{}", refused.message());
    let closed = public_group(&node, ann, groups::JoinPolicy::Invite).await;
    let refused = assert_forbidden(apply(&node, bob, to_join(closed, "")).await);
    assert!(refused.message().contains("invit"), "{}", refused.message());
}

#[tokio::test]
async fn code_must_be_the_groups_and_tries_are_few() {
    let (node, [ann, bob]) = with_users().await;
    let secret = private_group(&node, ann, groups::JoinPolicy::Code).await;
    for _ in 0..4 {
        assert_denied(apply(&node, bob, to_join(secret, "guess")).await);
    }
    let request = groups::GetInviteCodeRequest { group_id: secret };
    let code = node.groups().get_invite_code(request).await.unwrap().into_inner().invite_code;
    assert!(apply(&node, bob, to_join(secret, &code)).await.is_ok());
    assert_exhausted(apply(&node, bob, to_join(secret, "guess")).await, "TOO_MANY_TRIES");
}

#[tokio::test]
async fn invited_user_decides_and_joins() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Invite).await;
    make_admin(&node, chess, bob).await;
    assert_denied(apply(&node, cid, to_invite(chess, cid + 1_000)).await);
    let invite = apply(&node, bob, to_invite(chess, cid)).await.unwrap();
    assert_eq!((invite.applicant_id, invite.user_id, invite.group_id), (bob, cid, chess));
    assert_eq!(apply(&node, ann, to_invite(chess, cid)).await.unwrap(), invite, "a group invites once");
    assert_eq!((pending(&node, of_user(cid)).await, pending(&node, of_group(chess)).await), ((0, 1), (0, 0)));
    let id = invite.application_id;
    assert_denied(accept(&node, bob, of_user(cid), id).await);
    for (by, of) in [(bob, List::SentBy(bob)), (ann, List::GroupId(chess)), (cid, List::ReceivedBy(cid))] {
        assert_eq!(shown(&node, by, of).await, [(id, State::Pending)]);
    }
    accept(&node, cid, of_user(cid), id).await.unwrap();
    assert!(is_in(&node, chess, cid).await);
}

#[tokio::test]
async fn deciders_of_the_group_withdraw_an_invite() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Invite).await;
    make_admin(&node, chess, bob).await;
    let id = apply(&node, bob, to_invite(chess, cid)).await.unwrap().application_id;
    assert_denied(withdraw(&node, cid, of_user(cid), id).await);
    let withdrawn = withdraw(&node, ann, of_user(cid), id).await.unwrap();
    assert_eq!((withdrawn.state(), withdrawn.decider_id), (State::Withdrawn, ann));
    assert_forbidden(accept(&node, cid, of_user(cid), id).await);
}

#[tokio::test]
async fn invite_and_application_close_each_other() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let mut both = Vec::new();
    for user in [bob, cid] {
        let ask = apply(&node, user, to_join(chess, "")).await.unwrap().application_id;
        both.push((ask, apply(&node, ann, to_invite(chess, user)).await.unwrap().application_id));
    }
    accept(&node, bob, of_user(bob), both[0].1).await.unwrap();
    accept(&node, ann, of_group(chess), both[1].0).await.unwrap();
    assert_eq!(get(&node, bob, of_group(chess), both[0].0).await.unwrap().state(), State::Closed);
    assert_eq!(get(&node, cid, of_user(cid), both[1].1).await.unwrap().state(), State::Closed);
    assert_eq!((pending(&node, of_group(chess)).await, pending(&node, of_user(cid)).await), ((0, 0), (0, 0)));
    assert!(is_in(&node, chess, bob).await && is_in(&node, chess, cid).await);
}

#[tokio::test]
async fn repeated_decision_does_not_readmit() {
    let (node, [ann, bob]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let id = apply(&node, bob, to_join(chess, "")).await.unwrap().application_id;
    let yes = DecideRequest { request_id: "yes".into(), ..decision(of_group(chess), id, Decision::Accept) };
    decide(&node, ann, yes.clone()).await.unwrap();
    leave(&node, chess, bob).await;
    assert_eq!(decide(&node, ann, yes).await.unwrap().state(), State::Accepted);
    assert!(!is_in(&node, chess, bob).await);
}

#[tokio::test]
async fn received_and_read_are_noted_once_a_side() {
    let (node, [ann, bob]) = with_users().await;
    let id = befriend(&node, ann, bob).await.application_id;
    let received = MarkReceivedRequest { user_id: bob, application_ids: vec![id, id + 1] };
    assert_denied(node.applications().mark_received(principal(ann, received.clone())).await);
    let marked =
        node.applications().mark_received(principal(bob, received.clone())).await.unwrap().into_inner();
    let first = marked.applications[0].receive_time;
    assert!(marked.applications.len() == 1 && first.is_some() && marked.applications[0].read_time.is_none());
    let read = MarkReadRequest { user_id: bob, application_ids: vec![id] };
    let marked = node.applications().mark_read(principal(bob, read)).await.unwrap().into_inner();
    let (again, then) = (marked.applications[0].receive_time, marked.applications[0].read_time);
    assert!(again == first && then.is_some());
    node.applications().mark_received(principal(bob, received)).await.unwrap();
    let listed = list(&node, bob, List::ReceivedBy(bob)).await.unwrap();
    assert_eq!((listed[0].receive_time, listed[0].read_time), (first, then));
    let sent = list(&node, ann, List::SentBy(ann)).await.unwrap();
    assert_eq!((sent[0].receive_time, sent[0].read_time), (None, None));
}

#[tokio::test]
async fn lists_continue_after_a_page_or_known_id() {
    let (node, [ann, bob, cid, dan, eve]) = with_users().await;
    let mut ids = Vec::new();
    for user in [ann, bob, cid, dan] {
        ids.push(befriend(&node, user, eve).await.application_id);
    }
    // Ids from the same millisecond have no order.
    ids.sort_unstable();
    let seen = all_pages(async |page_token| {
        let list = Some(List::ReceivedBy(eve));
        let request = ListApplicationsRequest { list, after_id: 0, page_size: 2, page_token };
        let page = node.applications().list_applications(request).await?.into_inner();
        assert!(page.applications.len() <= 2);
        Ok((page.applications, page.next_page_token))
    });
    let seen = seen.await.unwrap().into_iter().map(|one| one.application.unwrap().application_id);
    assert_eq!(seen.collect::<Vec<_>>(), ids);
    let list = Some(List::ReceivedBy(eve));
    let request = ListApplicationsRequest { list, after_id: ids[2], ..Default::default() };
    let page = node.applications().list_applications(request).await.unwrap().into_inner();
    assert_eq!(page.applications.len(), 1);
}

#[tokio::test]
async fn what_nobody_takes_is_refused_with_the_field() {
    let (node, [ann, bob]) = with_users().await;
    let long = ApplyRequest { message: "x".repeat(201), ..to_be_friends(bob) };
    assert_invalid(apply(&node, ann, long).await, "message");
    let long = ApplyRequest { reference: "x".repeat(65), ..to_be_friends(bob) };
    assert_invalid(apply(&node, ann, long).await, "reference");
    assert_invalid(accept(&node, bob, None, 7).await, "receiver");
    assert_invalid(decide(&node, bob, decision(of_user(bob), 7, Decision::Unspecified)).await, "decision");
}
