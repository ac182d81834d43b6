//! A node is paused for a while and continued, while others write.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    cluster::{redis_proxy::following, site::Site},
    polls::until,
    spawned::{FREE, Started, signal},
};
use futures::future::join_all;
use kith_proto::user::v1::{
    CreateUserRequest, GetUserRequest, UpdateUserRequest, User, user_service_client::UserServiceClient,
};
use tonic::transport::Channel;

const USERS: usize = 50;

async fn version(channel: &Channel, user_id: i64) -> i64 {
    let request = GetUserRequest { user_id, consistency: None };
    let answer = UserServiceClient::new(channel.clone()).get_user(request).await.unwrap();
    answer.into_inner().user.unwrap().version
}

async fn create(channel: &Channel, number: usize) -> i64 {
    let user = User { user_name: format!("user{number}"), ..User::default() };
    let request = CreateUserRequest { user: Some(user), ..CreateUserRequest::default() };
    let created = UserServiceClient::new(channel.clone()).create_user(request).await.unwrap();
    created.into_inner().user.unwrap().user_id
}

/// Writes to all users in turn, for ever; acknowledged values are recorded.
async fn write(channel: Channel, ids: Vec<i64>, acknowledged: Arc<Mutex<HashMap<i64, i64>>>) {
    let mut users = UserServiceClient::new(channel);
    for round in 0_u64.. {
        for user_id in &ids {
            let user = User { user_id: *user_id, nick_name: round.to_string(), ..User::default() };
            let update_mask = Some(prost_types::FieldMask { paths: vec!["nick_name".to_owned()] });
            let request = UpdateUserRequest { user: Some(user), update_mask, ..UpdateUserRequest::default() };
            let updated = users.update_user(request).await.unwrap().into_inner();
            acknowledged.lock().unwrap().insert(*user_id, updated.user.unwrap().version);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn paused_node_is_right_from_its_first_answer() {
    let pause = if std::env::var_os("KITH_FULL").is_some() { 30 } else { 5 };
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let site = Site::in_redis_of_tests();
    let [writer, stopped] = [&one, &other].map(|folder| Started::of(site.command(folder.path(), &FREE)));
    let (at_writer, at_stopped) = (following(&writer).await, following(&stopped).await);
    let mut ids = Vec::new();
    for number in 0..USERS {
        ids.push(create(&at_writer, number).await);
        version(&at_stopped, ids[number]).await;
    }
    let acknowledged = Arc::<Mutex<HashMap<i64, i64>>>::default();
    let writing = tokio::spawn(write(at_writer, ids.clone(), Arc::clone(&acknowledged)));

    signal(stopped.id(), "-STOP");
    tokio::time::sleep(Duration::from_secs(pause)).await;
    let before = acknowledged.lock().unwrap().clone();
    assert_eq!(before.len(), USERS, "every user was written meanwhile");
    signal(stopped.id(), "-CONT");
    let begun = Instant::now();
    let answers = join_all(ids.iter().map(|id| version(&at_stopped, *id))).await;
    println!("first answers after {:?}", begun.elapsed());
    for (id, answer) in ids.iter().zip(answers) {
        assert!(answer >= before[id], "version {answer} where {} was acknowledged before", before[id]);
    }

    writing.abort();
    let last = acknowledged.lock().unwrap().clone();
    let begun = Instant::now();
    for id in &ids {
        let left = Duration::from_secs(3).saturating_sub(begun.elapsed());
        until(left, async || version(&at_stopped, *id).await >= last[id]).await;
    }
    stopped.stop();
    writer.stop();
}
