//! A backup while callers write.

#![cfg(feature = "embedded")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    cluster::{
        backup_folder::BackupFolder,
        site::{Site, with_relations},
    },
    moved_data::Caller,
    polls::until,
};

/// Time for some writes.
const BOUND: Duration = Duration::from_secs(60);
/// Writes before the backup, and after it.
const SOME: usize = 30;

/// Creates users, each of whom joins the group after a message, until it is stopped.
async fn write(mut caller: Caller, written: Arc<Mutex<Vec<String>>>, stop: Arc<AtomicBool>) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let user = json!({ "user": { "userName": format!("user{number}") } });
        let created = caller.ok("User/CreateUser", user).await;
        let id = created["user"]["userId"].as_str().unwrap().to_owned();
        let message = json!({ "userId": 2, "senderId": 1, "clientMessageId": id, "body": "aGk=" });
        caller.ok("Message/SendMessage", message).await;
        caller.ok("Member/AddMembers", json!({ "groupId": 9, "userIds": [id] })).await;
        written.lock().push(id);
    }
}

/// Whether the user exists. Its id and its name must lead to the same user, or to none.
async fn exists(caller: &mut Caller, number: usize, id: &str) -> bool {
    let by_id = caller.found("User/GetUser", json!({ "userId": id })).await;
    let by_name = json!({ "userName": format!("user{number}") });
    let by_name = caller.found("User/FindUserByName", by_name).await;
    let found = by_id.as_ref().map(|found| &found["user"]["userId"]);
    assert_eq!(found, by_name.as_ref().map(|found| &found["user"]["userId"]), "user{number}");
    found.is_some()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MongoDB and Cassandra: run cargo xtask test"]
async fn backup_under_writes_has_no_half_write() {
    let site = Site::new(None);
    let (folder, node) = (BackupFolder::of(&site), site.node_with(with_relations).await);
    let mut calls = Caller::of(&node).await;
    for user in [1, 2] {
        let user = json!({ "userId": user, "userName": format!("first{user}") });
        calls.ok("User/CreateUser", json!({ "user": user })).await;
    }
    let group = json!({ "groupId": 9, "name": "chess", "creatorId": 1 });
    calls.ok("Group/CreateGroup", json!({ "group": group })).await;
    let (written, stop) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicBool>::default());
    let writing = tokio::spawn(write(Caller::of(&node).await, Arc::clone(&written), Arc::clone(&stop)));
    until(BOUND, async || written.lock().len() >= SOME).await;
    let before = written.lock().len();
    let backup = folder.back_up();
    let after = written.lock().len();
    until(BOUND, async || written.lock().len() >= after + SOME).await;
    stop.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    drop(calls);
    node.stop().await;
    folder.restore(&backup);
    let node = site.node_with(with_relations).await;
    let mut calls = Caller::of(&node).await;
    let (mut there, written) = (0, written.lock().clone());
    for (number, id) in written.iter().enumerate() {
        let exists = exists(&mut calls, number, id).await;
        assert!(exists || number >= before, "user{number} was acknowledged before the backup");
        there += usize::from(exists);
    }
    assert!((before..=after + 1).contains(&there), "{before} {there} {after}");
    let of = json!({ "userId": 1, "conversationId": "d1-2" });
    let history = calls.ok("Message/History", of).await;
    let last = history["messages"].as_array().unwrap().iter().map(|message| message["seq"].as_str().unwrap());
    let last = last.map(|seq| seq.parse::<usize>().unwrap()).max().unwrap();
    assert!(last == there || last + 1 == there, "{last} messages, {there} users");
    let max = calls.ok("Message/GetMaxSeqs", json!({ "userId": 1, "conversationIds": ["d1-2"] })).await;
    assert_eq!(max["results"][0]["maxSeq"], Value::String(last.to_string()), "{max}");
    let members = calls.ok("Member/ListMembers", json!({ "groupId": 9, "pageSize": 1000 })).await;
    let roster = calls.ok("Member/CountMembers", json!({ "groupId": 9 })).await;
    let count = members["members"].as_array().unwrap().len();
    assert_eq!(roster["roster"]["count"], Value::String(count.to_string()), "{roster}");
    drop(calls);
    node.stop().await;
}
