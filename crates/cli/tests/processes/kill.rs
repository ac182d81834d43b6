//! An embedded node that is killed during writes loses nothing that it acknowledged, even if its log's end is
//! damaged. `KITH_FULL=1`: a thousand times.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(feature = "embedded")]

use crate::{backup::node::Node, damaged_log::LogTail};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kith_proto::user::v1::{user_result, user_service_client::UserServiceClient, *};
use parking_lot::Mutex;
use prost_types::FieldMask;
use tonic::transport::Channel;

/// How often the node is killed; the second number is for `KITH_FULL=1`.
const KILLS: [usize; 2] = [25, 1_000];
const WRITERS: i64 = 16;

/// The writes that the node has acknowledged.
#[derive(Default)]
struct Ledger {
    /// Every user's newest age, by id.
    ages: Mutex<BTreeMap<i64, i32>>,
    writes: AtomicUsize,
}

impl Ledger {
    fn note(&self, user_id: i64, age: i32) {
        self.ages.lock().insert(user_id, age);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_node_loses_no_acknowledged_write() {
    let full = std::env::vars().any(|(name, value)| name == "KITH_FULL" && value == "1");
    let kills = KILLS[usize::from(full)];
    let mut damaged = 0;
    let data = tempfile::tempdir().unwrap();
    let ledger = Arc::new(Ledger::default());
    for round in 0..kills {
        let node = Node::start(data.path()).await;
        verify(&node.channel, &ledger).await;
        let written = ledger.writes.load(Ordering::Relaxed);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| tokio::spawn(write(writer, round, node.channel.clone(), Arc::clone(&ledger))))
            .collect();
        // Each round is killed at another point, after some more acknowledged writes.
        let enough = written + 8 + round * 7 % 90;
        let progress = async {
            while ledger.writes.load(Ordering::Relaxed) < enough {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), progress).await.expect("writes are acknowledged");
        drop(node);
        for writer in writers {
            writer.await.unwrap();
        }
        damaged += usize::from(LogTail::of_round(round).damage(data.path(), u64::try_from(round).unwrap()));
    }
    let writes = ledger.writes.load(Ordering::Relaxed);
    println!("{kills} kills, {damaged} damaged logs, {writes} acknowledged writes");
    assert!(damaged > kills / 2, "{damaged}");
    let node = Node::start(data.path()).await;
    verify(&node.channel, &ledger).await;
    drop(node);
    let options = kith_store_sqlite::SqliteOptions::new(data.path().join("kith.db"));
    let store = kith_store_sqlite::open(options).await.unwrap();
    assert!(store.integrity_check().await.unwrap().is_empty());
}

/// Creates one user, then raises the age again and again until the node is gone.
async fn write(writer: i64, round: usize, channel: Channel, ledger: Arc<Ledger>) {
    let mut users = UserServiceClient::new(channel);
    let user_id = 1 + writer + WRITERS * i64::try_from(round % 10).unwrap();
    let user = User { user_id, user_name: format!("user {user_id}"), age: 1, ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    if users.create_user(request).await.is_ok() {
        ledger.note(user_id, 1);
    }
    loop {
        let known = ledger.ages.lock().get(&user_id).copied().unwrap_or(1);
        let age = known % 150 + 1;
        let request = UpdateUserRequest {
            user: Some(User { user_id, age, ..Default::default() }),
            update_mask: Some(FieldMask { paths: vec!["age".into()] }),
            ..Default::default()
        };
        match users.update_user(request).await {
            Ok(_) => ledger.note(user_id, age),
            Err(_) => return,
        }
    }
}

/// A write that was not acknowledged may have landed: the stored age is the acknowledged age or its
/// successor.
async fn verify(channel: &Channel, ledger: &Ledger) {
    let expected = ledger.ages.lock().clone();
    let request = BatchGetUsersRequest { user_ids: expected.keys().copied().collect(), consistency: None };
    let results =
        UserServiceClient::new(channel.clone()).batch_get_users(request).await.unwrap().into_inner().results;
    assert_eq!(results.len(), expected.len());
    for result in results {
        let age = expected[&result.user_id];
        let Some(user_result::Result::User(user)) = result.result else {
            panic!("user {} is lost", result.user_id);
        };
        assert!(
            user.age == age || user.age == age % 150 + 1,
            "user {} is {} and was {age}",
            user.user_id,
            user.age
        );
        ledger.ages.lock().insert(user.user_id, user.age);
    }
}
