//! When a node dies during an acceptance, the next node finishes it.

use crate::group_calls::{is_in, public_group};
use crate::relation_calls::{self, with_users};
use std::time::Duration;

use crate::application_calls::*;
use crate::applications_void_at_use::replace;
use crate::bare_node::in_store;
use crate::node::TestNode;
use kith_proto::{
    application::v1::{
        Application, Effect, Receiver as WireReceiver, State, list_applications_request::List,
    },
    group::v1::JoinPolicy,
};
use kith_store::{
    ApplicationChange, ApplicationId, Decision, Edge, GroupId, Receiver, Request, RequestId, Timestamp,
    UserId, Write,
};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::time::Instant;

/// How soon a dead node's work is done.
const BOUND: Duration = Duration::from_secs(11);

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

/// Decides in the store, like a node that dies before it applies any effect.
async fn decided_and_died(folder: &TempDir, receiver: Receiver, id: i64, by: i64) {
    let id = ApplicationId::new(id).unwrap();
    let change = ApplicationChange::Decide(id, Decision::Accept, Some(user(by)));
    let write = Write::at(Timestamp::now());
    in_store(folder, async |stores| {
        stores.applications.change_application(receiver, change, write).await.unwrap();
    })
    .await;
}

/// Waits until the application has no pending effect, and returns its result.
async fn settled(node: &TestNode, by: i64, receiver: Option<WireReceiver>, id: i64) -> Application {
    let give_up = Instant::now() + BOUND;
    loop {
        let found = get(node, by, receiver, id).await.unwrap();
        if found.effect() != Effect::Outstanding {
            return found;
        }
        assert!(Instant::now() < give_up, "nobody brings it about");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn acceptance_of_a_dead_node_makes_friends() {
    let (node, [ann, bob]) = with_users().await;
    let there = befriend(&node, ann, bob).await.application_id;
    let back = befriend(&node, bob, ann).await.application_id;
    let folder = node.stop().await;
    decided_and_died(&folder, Receiver::User(user(bob)), there, bob).await;
    let node = TestNode::start_over(&folder).await;
    assert_eq!(settled(&node, bob, of_user(bob), there).await.effect(), Effect::Done);
    assert!(are_friends(&node, ann, bob).await);
    assert_eq!(get(&node, ann, of_user(ann), back).await.unwrap().state(), State::Closed);
    assert_eq!(shown(&node, ann, List::SentBy(ann)).await, [(there, State::Accepted)]);
    node.stop().await;
}

#[tokio::test]
async fn effect_made_impossible_is_noted_refused() {
    let (node, [ann, bob, cid]) = with_users().await;
    let chess = public_group(&node, ann, JoinPolicy::Approval).await;
    let id = apply(&node, bob, to_join(chess, "")).await.unwrap().application_id;
    apply(&node, cid, to_join(chess, "")).await.unwrap();
    let folder = node.stop().await;
    decided_and_died(&folder, Receiver::Group(GroupId::new(chess).unwrap()), id, ann).await;
    let node = TestNode::start_with(|config| {
        config.data_dir = folder.path().join("data");
        config.members.members_max = 1;
    })
    .await;
    let found = settled(&node, ann, of_group(chess), id).await;
    assert_eq!((found.state(), found.effect()), (State::Accepted, Effect::Refused));
    assert!(!is_in(&node, chess, bob).await);
    assert_eq!(pending(&node, of_group(chess)).await, (1, 0));
    node.stop().await;
}

/// The account that accepted ended before its node applied any effect, and another account has its id.
#[tokio::test]
async fn effect_with_a_later_account_is_refused() {
    let (node, [ann, bob]) = with_users().await;
    let id = befriend(&node, ann, bob).await.application_id;
    let folder = node.stop().await;
    decided_and_died(&folder, Receiver::User(user(bob)), id, bob).await;
    in_store(&folder, async |stores| replace(stores, bob).await).await;
    let node = TestNode::start_over(&folder).await;
    let found = settled(&node, ann, of_user(bob), id).await;
    assert_eq!((found.state(), found.effect()), (State::Accepted, Effect::Refused));
    assert!(!are_friends(&node, ann, bob).await);
    node.stop().await;
}

/// Follows and unfollows in the store, with the request that a node uses for an application's step.
async fn brought_about_and_parted(folder: &TempDir, edge: Edge, id: RequestId) {
    let fingerprint = Sha256::digest(id.as_str()).into();
    let now = Write::at(Timestamp::now());
    let write = Write { request: Some(Request { id, fingerprint }), ..now.clone() };
    in_store(folder, async |stores| {
        stores.follows.follow(edge, Duration::from_secs(60), write).await.unwrap();
        stores.follows.unfollow(edge, now).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn unnoted_effect_is_not_repeated() {
    let (node, [ann, bob]) = with_users().await;
    let id = befriend(&node, ann, bob).await.application_id;
    let folder = node.stop().await;
    decided_and_died(&folder, Receiver::User(user(bob)), id, bob).await;
    let record = format!("application:0:{bob}:{id}");
    let there = Edge::new(user(ann), user(bob)).unwrap();
    brought_about_and_parted(&folder, there, RequestId::of_step(&record, "there")).await;
    brought_about_and_parted(&folder, there.reversed(), RequestId::of_step(&record, "back")).await;
    let node = TestNode::start_over(&folder).await;
    assert_eq!(settled(&node, bob, of_user(bob), id).await.effect(), Effect::Done);
    let relation = relation_calls::relation(&node, ann, bob).await;
    assert!(relation.follow.is_none() && relation.followed_by.is_none(), "they have parted since");
    node.stop().await;
}
