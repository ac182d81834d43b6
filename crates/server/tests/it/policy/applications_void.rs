//! Applications end with their preconditions: accounts, groups, roles, and a membership that does not exist
//! yet.

use crate::application_calls::*;
use crate::group_calls::{self, add, dismiss, is_in, make, make_admin, public_group, remove, set_role};
use crate::node::{TestNode, assert_forbidden, until};
use crate::relation_calls::{block, follow, unblock, unfriend, with_users};
use kith_proto::{
    application::v1::{list_applications_request::List, *},
    group::v1 as groups,
    member::v1 as members,
};

async fn state(node: &TestNode, by: i64, receiver: Option<Receiver>, id: i64) -> State {
    get(node, by, receiver, id).await.unwrap().state()
}

#[tokio::test]
async fn requests_of_a_deleted_user_are_closed() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let join = apply(&node, cid, to_join(chess, "")).await.unwrap().application_id;
    let friend = befriend(&node, cid, bob).await.application_id;
    let received = befriend(&node, bob, cid).await.application_id;
    node.delete_user(cid).await;
    assert_closed(accept(&node, ann, of_group(chess), join).await);
    assert_closed(accept(&node, bob, of_user(bob), friend).await);
    let counts = async || {
        [
            pending(&node, of_group(chess)).await,
            pending(&node, of_user(bob)).await,
            pending(&node, of_user(cid)).await,
        ]
    };
    until(async || counts().await == [(0, 0); 3]).await;
    assert_eq!(state(&node, bob, of_user(cid), received).await, State::Closed);
}

#[tokio::test]
async fn invites_end_with_the_role_of_the_inviter() {
    let (node, [ann, bob, cid, dan]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    make_admin(&node, chess, bob).await;
    let of_removed = apply(&node, bob, to_invite(chess, cid)).await.unwrap().application_id;
    let of_owner = apply(&node, ann, to_invite(chess, dan)).await.unwrap().application_id;
    remove(&node, chess, bob).await;
    assert_eq!((pending(&node, of_user(cid)).await, pending(&node, of_user(dan)).await), ((0, 0), (0, 1)));
    assert_closed(accept(&node, cid, of_user(cid), of_removed).await);
    assert!(!is_in(&node, chess, cid).await);
    accept(&node, dan, of_user(dan), of_owner).await.unwrap();

    make_admin(&node, chess, bob).await;
    let of_demoted = apply(&node, bob, to_invite(chess, cid)).await.unwrap().application_id;
    set_role(&node, chess, bob, members::Role::Member).await;
    assert_eq!(pending(&node, of_user(cid)).await, (0, 0));
    assert_closed(accept(&node, cid, of_user(cid), of_demoted).await);
}

#[tokio::test]
async fn invite_by_a_service_rests_on_no_role() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let invite = ApplyRequest { applicant_id: bob, ..to_invite(chess, cid) };
    let asked = node.applications().apply(invite).await.unwrap().into_inner().application.unwrap();
    accept(&node, cid, of_user(cid), asked.application_id).await.unwrap();
    assert!(is_in(&node, chess, cid).await);
}

#[tokio::test]
async fn invite_does_not_undo_a_later_removal() {
    let (node, [ann, bob]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let id = apply(&node, ann, to_invite(chess, bob)).await.unwrap().application_id;
    add(&node, chess, &[bob]).await;
    assert_eq!(pending(&node, of_user(bob)).await, (0, 0));
    assert_eq!(state(&node, bob, of_user(bob), id).await, State::Closed);
    remove(&node, chess, bob).await;
    assert_closed(accept(&node, bob, of_user(bob), id).await);
    assert!(!is_in(&node, chess, bob).await);
    // A user who is invited again may join.
    let id = apply(&node, ann, to_invite(chess, bob)).await.unwrap().application_id;
    accept(&node, bob, of_user(bob), id).await.unwrap();
    assert!(is_in(&node, chess, bob).await);
}

#[tokio::test]
async fn join_request_ends_when_the_user_joins() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let asked = apply(&node, bob, to_join(chess, "")).await.unwrap().application_id;
    let other = apply(&node, cid, to_join(chess, "")).await.unwrap().application_id;
    add(&node, chess, &[bob]).await;
    assert_eq!(pending(&node, of_group(chess)).await, (1, 0));
    let shown = shown(&node, ann, List::GroupId(chess)).await;
    assert_eq!(shown, [(asked, State::Closed), (other, State::Pending)]);
}

#[tokio::test]
async fn applications_of_a_dismissed_group_are_closed() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    let invite = apply(&node, ann, to_invite(chess, bob)).await.unwrap().application_id;
    let join = apply(&node, cid, to_join(chess, "")).await.unwrap().application_id;
    dismiss(&node, ann, chess).await;
    // They are void before an acceptance, or the next group with that id, could close them.
    until(async || pending(&node, of_user(bob)).await == (0, 0)).await;
    until(async || state(&node, cid, of_group(chess), join).await == State::Closed).await;
    assert_closed(accept(&node, bob, of_user(bob), invite).await);
    let again = group_calls::chess(groups::Visibility::Public, groups::JoinPolicy::Approval);
    make(&node, cid, groups::Group { group_id: chess, ..again }).await;
    assert_closed(accept(&node, bob, of_user(bob), invite).await);
    assert_eq!((pending(&node, of_user(bob)).await, pending(&node, of_group(chess)).await), ((0, 0), (0, 0)));
    assert!(!is_in(&node, chess, bob).await);
    assert_eq!(shown(&node, cid, List::GroupId(chess)).await, []);
}

#[tokio::test]
async fn user_does_not_ask_whom_it_has_blocked() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, groups::JoinPolicy::Approval).await;
    block(&node, ann, bob).await;
    assert_forbidden(apply(&node, ann, to_be_friends(bob)).await);
    assert_forbidden(apply(&node, ann, to_invite(chess, bob)).await);
    // An earlier invite is not accepted while the block exists.
    let id = apply(&node, ann, to_invite(chess, cid)).await.unwrap().application_id;
    block(&node, ann, cid).await;
    assert_forbidden(accept(&node, cid, of_user(cid), id).await);
    assert!(!is_in(&node, chess, cid).await);
}

#[tokio::test]
async fn block_closes_the_own_request() {
    let (node, [ann, bob]) = with_users().await;
    let own = befriend(&node, ann, bob).await.application_id;
    let others = befriend(&node, bob, ann).await.application_id;
    block(&node, ann, bob).await;
    assert_eq!(state(&node, ann, of_user(bob), own).await, State::Closed);
    // A closed application would reveal the block.
    assert_eq!(state(&node, bob, of_user(ann), others).await, State::Pending);
    unblock(&node, ann, bob).await;
    assert_closed(accept(&node, bob, of_user(bob), own).await);
}

#[tokio::test]
async fn unfriending_closes_what_was_asked_before() {
    let (node, [ann, bob]) = with_users().await;
    let id = befriend(&node, ann, bob).await.application_id;
    follow(&node, ann, bob).await.unwrap();
    follow(&node, bob, ann).await.unwrap();
    unfriend(&node, ann, bob).await;
    assert_eq!(pending(&node, of_user(bob)).await, (0, 0));
    assert_closed(accept(&node, bob, of_user(bob), id).await);
    assert!(!are_friends(&node, ann, bob).await);
}
