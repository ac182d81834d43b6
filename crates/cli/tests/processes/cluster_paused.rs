//! A node that is stopped for a while and continued, under writes elsewhere.

#![cfg(feature = "cluster")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::HashMap,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::spawned::{FREE, Started, kith};
use futures::future::join_all;
use kith_proto::{
    admin::v1::{GetNodeRequest, admin_service_client::AdminServiceClient},
    user::v1::{
        CreateUserRequest, GetUserRequest, UpdateUserRequest, User, user_service_client::UserServiceClient,
    },
};
use tonic::transport::{Channel, Endpoint};

const USERS: usize = 50;

fn variable(name: &str) -> String {
    let found = std::env::vars().find(|(wanted, _)| wanted == name);
    found.map(|(_, value)| value).unwrap_or_else(|| panic!("{name} is not set: run cargo xtask test"))
}

/// A process of its own, of the cluster of this test.
fn serve(dir: &Path) -> Started {
    let mut command = kith(dir, &FREE);
    let cluster = format!("kith_paused_{}", std::process::id());
    command.env("KITH_STORE__BACKEND", "cluster").env("KITH_STORE__MONGODB__DATABASE", &cluster);
    command.env("KITH_STORE__MONGODB__URI", variable("KITH_TEST_MONGODB"));
    command.env("KITH_REDIS__URL", variable("KITH_TEST_REDIS")).env("KITH_REDIS__PREFIX", &cluster);
    Started::of(command)
}

async fn channel(node: &Started) -> Channel {
    let channel = Endpoint::from_shared(format!("http://{}", node.grpc())).unwrap().connect().await.unwrap();
    let mut admin = AdminServiceClient::new(channel.clone());
    let begun = Instant::now();
    loop {
        let answer = admin.get_node(GetNodeRequest {}).await;
        if answer.is_ok_and(|answer| answer.into_inner().redis == "follows") {
            return channel;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not follow: {}", node.logged());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

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

/// Writes to all of them in turn, for ever; what is acknowledged is noted.
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

fn signal(node: &Started, name: &str) {
    let pid = node.banner["pid"].to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn paused_node_is_right_from_its_first_answer() {
    let pause = if std::env::var_os("KITH_FULL").is_some() { 30 } else { 5 };
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (writer, stopped) = (serve(one.path()), serve(other.path()));
    let (at_writer, at_stopped) = (channel(&writer).await, channel(&stopped).await);
    let mut ids = Vec::new();
    for number in 0..USERS {
        ids.push(create(&at_writer, number).await);
        version(&at_stopped, ids[number]).await;
    }
    let acknowledged = Arc::<Mutex<HashMap<i64, i64>>>::default();
    let writing = tokio::spawn(write(at_writer, ids.clone(), Arc::clone(&acknowledged)));

    signal(&stopped, "-STOP");
    tokio::time::sleep(Duration::from_secs(pause)).await;
    let before = acknowledged.lock().unwrap().clone();
    assert_eq!(before.len(), USERS, "every user was written meanwhile");
    signal(&stopped, "-CONT");
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
        while version(&at_stopped, *id).await < last[id] {
            assert!(begun.elapsed() < Duration::from_secs(3), "it does not catch up");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let (code, _, logged) = stopped.terminate();
    assert_eq!(code, Some(0), "{logged}");
    assert_eq!(writer.terminate().0, Some(0));
}
