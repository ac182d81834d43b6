//! What a node that died left undone of an acceptance is brought about by the next one.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::relation_calls;
use std::{path::Path, time::Duration};

use crate::applications_void_at_use::replace;
use crate::applying::*;
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
use kith_store_sqlite::SqliteOptions;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::time::Instant;

/// Within so long what a dead node left is done.
const BOUND: Duration = Duration::from_secs(11);

async fn over(data_dir: &Path) -> TestNode {
    TestNode::start_with(|config| config.data_dir = data_dir.to_owned()).await
}

fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

/// Decides in the store as a node does that dies before it brings anything about.
async fn decided_and_died(data_dir: &Path, receiver: Receiver, id: i64, by: i64) {
    let handle = kith_store_sqlite::open(SqliteOptions::new(data_dir.join("kith.db"))).await.unwrap();
    let id = ApplicationId::new(id).unwrap();
    let change = ApplicationChange::Decide(id, Decision::Accept, Some(user(by)));
    let write = Write::at(Timestamp::now());
    handle.stores().applications.change_application(receiver, change, write).await.unwrap();
    handle.close().await;
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
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().join("data");
    let node = over(&data_dir).await;
    let [ann, bob] = relation_calls::users(&node).await;
    let there = befriend(&node, ann, bob).await.application_id;
    let back = befriend(&node, bob, ann).await.application_id;
    let data = node.stop().await;
    decided_and_died(&data_dir, Receiver::User(user(bob)), there, bob).await;
    let node = over(&data_dir).await;
    assert_eq!(settled(&node, bob, of_user(bob), there).await.effect(), Effect::Done);
    assert!(are_friends(&node, ann, bob).await);
    assert_eq!(get(&node, ann, of_user(ann), back).await.unwrap().state(), State::Closed);
    assert_eq!(shown(&node, ann, List::SentBy(ann)).await, [(there, State::Accepted)]);
    node.stop().await;
    drop(data);
}

#[tokio::test]
async fn effect_made_impossible_is_noted_refused() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().join("data");
    let node = over(&data_dir).await;
    let [ann, bob, cid] = relation_calls::users(&node).await;
    let chess = group(&node, ann, JoinPolicy::Approval).await;
    let id = apply(&node, bob, to_join(chess, "")).await.unwrap().application_id;
    apply(&node, cid, to_join(chess, "")).await.unwrap();
    let data = node.stop().await;
    decided_and_died(&data_dir, Receiver::Group(GroupId::new(chess).unwrap()), id, ann).await;
    let node = TestNode::start_with(|config| {
        config.data_dir = data_dir.clone();
        config.members.members_max = 1;
    })
    .await;
    let found = settled(&node, ann, of_group(chess), id).await;
    assert_eq!((found.state(), found.effect()), (State::Accepted, Effect::Refused));
    assert!(!is_in(&node, chess, bob).await);
    assert_eq!(pending(&node, of_group(chess)).await, (1, 0));
    node.stop().await;
    drop(data);
}

/// The account that accepted ended before its node brought anything about, and another one has its id.
#[tokio::test]
async fn effect_with_a_later_account_is_refused() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().join("data");
    let node = over(&data_dir).await;
    let [ann, bob] = relation_calls::users(&node).await;
    let id = befriend(&node, ann, bob).await.application_id;
    let data = node.stop().await;
    decided_and_died(&data_dir, Receiver::User(user(bob)), id, bob).await;
    let handle = kith_store_sqlite::open(SqliteOptions::new(data_dir.join("kith.db"))).await.unwrap();
    replace(&handle.stores(), bob).await;
    handle.close().await;
    let node = over(&data_dir).await;
    let found = settled(&node, ann, of_user(bob), id).await;
    assert_eq!((found.state(), found.effect()), (State::Accepted, Effect::Refused));
    assert!(!are_friends(&node, ann, bob).await);
    node.stop().await;
    drop(data);
}

/// Follows and unfollows in the store, by the request by which a node brings about a step of an application.
async fn brought_about_and_parted(data_dir: &Path, (from, to): (i64, i64), step: (&str, &'static str)) {
    let handle = kith_store_sqlite::open(SqliteOptions::new(data_dir.join("kith.db"))).await.unwrap();
    let id = RequestId::of_step(step.0, step.1);
    let fingerprint = Sha256::digest(id.as_str()).into();
    let edge = Edge::new(user(from), user(to)).unwrap();
    let now = Write::at(Timestamp::now());
    let write = Write { request: Some(Request { id, fingerprint }), ..now.clone() };
    let follows = handle.stores().follows;
    follows.follow(edge, Duration::from_secs(60), write).await.unwrap();
    follows.unfollow(edge, now).await.unwrap();
    handle.close().await;
}

#[tokio::test]
async fn unnoted_effect_is_not_repeated() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().join("data");
    let node = over(&data_dir).await;
    let [ann, bob] = relation_calls::users(&node).await;
    let id = befriend(&node, ann, bob).await.application_id;
    let data = node.stop().await;
    decided_and_died(&data_dir, Receiver::User(user(bob)), id, bob).await;
    let record = format!("application:0:{bob}:{id}");
    brought_about_and_parted(&data_dir, (ann, bob), (&record, "there")).await;
    brought_about_and_parted(&data_dir, (bob, ann), (&record, "back")).await;
    let node = over(&data_dir).await;
    assert_eq!(settled(&node, bob, of_user(bob), id).await.effect(), Effect::Done);
    let relation = relation_calls::relation(&node, ann, bob).await;
    assert!(relation.follow.is_none() && relation.followed_by.is_none(), "they have parted since");
    node.stop().await;
    drop(data);
}
