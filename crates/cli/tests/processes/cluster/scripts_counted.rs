//! Counts the scripts that a message costs in Redis.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use kith_proto::{
    group::v1::{CreateGroupRequest, Group},
    member::v1::AddMembersRequest,
    message::v1::{ReceiveRequest, SendMessageRequest, send_message_request::To},
};
use kith_server::config::Config;
use tokio::task::JoinSet;

use crate::cluster::{
    redis::{Monitor, Redis},
    site::{Peer, Site, with_relations},
    windows::acting,
};

const GROUPS: i64 = 30;
const MESSAGES: usize = 20;

/// The kinds of keys that a message's scripts use.
const KINDS: [(&str, &str); 4] =
    [("window", ":log:"), ("inboxes", ":in:"), ("notes", ":fan:"), ("wakes", ":wake:")];

/// Creates groups with these ten users.
async fn groups(node: &Peer, users: &[i64]) -> Vec<i64> {
    let mut ids = Vec::new();
    for _ in 0..GROUPS {
        let group = Group { name: "group".to_owned(), creator_id: users[0], ..Group::default() };
        let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
        let made = node.groups().create_group(request).await.unwrap().into_inner().group.unwrap();
        let user_ids = users[1..].to_vec();
        let request = AddMembersRequest { group_id: made.group_id, user_ids, ..AddMembersRequest::default() };
        node.members().add_members(request).await.unwrap();
        ids.push(made.group_id);
    }
    ids
}

/// Sends `count` messages to each group one after the other, to all groups at the same time.
async fn send(node: &Peer, groups: &[i64], sender: i64, count: usize) {
    let send = async |group: &i64| {
        for _ in 0..count {
            let request = SendMessageRequest {
                to: Some(To::GroupId(*group)),
                content_type: "text/plain".to_owned(),
                body: "hi".to_owned().into(),
                sender_id: sender,
                // The sender's marks, which are batched by time, are left out.
                keep_unread: true,
                ..SendMessageRequest::default()
            };
            node.messages().send_message(request).await.unwrap();
        }
    };
    join_all(groups.iter().map(send)).await;
}

/// Returns the clients' commands since the last look: scripts by their first key's kind, others by name.
async fn commands(monitor: &mut Monitor) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in monitor.take().await {
        let kind = KINDS.iter().find(|(_, key)| line.contains(key));
        let words: Vec<&str> = line.split('"').collect();
        let name = kind.map_or_else(|| words[1].to_uppercase(), |(kind, _)| (*kind).to_owned());
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn scripts_of_messages(counts: &BTreeMap<String, usize>) -> usize {
    KINDS.iter().filter_map(|(kind, _)| counts.get(*kind)).sum()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis, MongoDB and Cassandra: run cargo xtask test"]
async fn message_to_ten_costs_few_scripts() {
    let redis = Redis::start(&[]).await;
    let patient = |config: &mut Config| {
        with_relations(config);
        // With this limit no call is given up and repeated.
        config.redis.command_timeout = Duration::from_secs(1);
    };
    let node = Site::new(Some(redis.url())).node_with(patient).await;
    let mut users = Vec::new();
    for name in 0..10 {
        users.push(node.create(&format!("user{name}")).await.user_id);
    }
    let groups = groups(&node, &users).await;
    send(&node, &groups, users[0], 1).await;
    let sent = groups.len() * MESSAGES;
    let mut monitor = Monitor::start(&redis.url()).await;
    send(&node, &groups, users[0], MESSAGES).await;
    let offline = commands(&mut monitor).await;
    println!("{sent} messages, no user is online: {offline:?}");
    // A message costs a window, one script for ten recipients, and a share of the notes.
    assert!(2 * scripts_of_messages(&offline) <= 5 * sent, "at most 2.5 a message: {offline:?}");

    let mut streams = JoinSet::new();
    for user in &users {
        let request = ReceiveRequest { now: true, ..ReceiveRequest::default() };
        let mut stream = node.messages().receive(acting(*user, request)).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().is_some(), "the receiver is live");
        // A receiver that is behind would read the window.
        streams.spawn(async move { while let Ok(Some(_)) = stream.message().await {} });
    }
    send(&node, &groups, users[0], 1).await;
    commands(&mut monitor).await;
    send(&node, &groups, users[0], MESSAGES).await;
    let online = commands(&mut monitor).await;
    println!("{sent} messages, ten users are online: {online:?}");
    // The node is woken once for each message. Receivers that are behind read windows, too.
    assert!(scripts_of_messages(&online) <= 4 * sent, "at most 4 a message: {online:?}");
    drop(streams);
    node.stop().await;
}
