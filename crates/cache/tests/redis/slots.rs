//! Redis Cluster channels, which are in the slots of their keys.

use std::collections::BTreeSet;

use kith_cache::remote::{
    Frame, Frames, Log as _, LogEntry, News,
    redis::{
        ChannelSubscription, RedisScript, RedisShared, SLOT_PARTS, ScriptCall, ScriptRunner, key_slot,
        slot_tag,
    },
};
use tokio::time::timeout;

use crate::{
    server::{Cluster, command},
    stage::{PATIENCE, accepted, eventually, options},
};

const PUBLISH: &str = "redis.call(ARGV[1], KEYS[1], ARGV[2]) return 0";

/// Publishes an entry of this nonce, as soon as the server takes it.
async fn change(shared: &RedisShared, nonce: u64) {
    let entry = LogEntry { nonce, message: b"message", strict: false };
    eventually("the change is taken", async || shared.change(1, &[], entry).await.is_ok()).await;
}

/// Receives entries up to that of a nonce. `false`: the subscription has ended.
async fn receives(frames: &mut Box<dyn Frames>, nonce: u64) -> bool {
    loop {
        match timeout(PATIENCE, frames.next()).await.expect("news, or an end, within the bound") {
            Some(News::Entry(bytes)) if Frame::from_bytes(&bytes).unwrap().nonce == nonce => return true,
            Some(_) => {}
            None => return false,
        }
    }
}

/// Subscribes as soon as the servers take it.
async fn subscribed(shared: &RedisShared) -> Box<dyn Frames> {
    let mut frames = None;
    eventually("a subscription", async || {
        frames = shared.subscribe(1, 1).await.ok();
        frames.is_some()
    })
    .await;
    frames.unwrap()
}

/// A channel in each part of the slots.
fn channels(tag: &str) -> Vec<String> {
    let stem = format!("{tag}:part");
    (0..SLOT_PARTS).map(|part| format!("{{{}}}:channel", slot_tag(&stem, part))).collect()
}

async fn publish_on_each(runner: &ScriptRunner, channels: &[String]) {
    let script = RedisScript::new(PUBLISH);
    for channel in channels {
        let call = || {
            ScriptCall::new(
                &script,
                vec![channel.clone()],
                [runner.publish_command().to_owned(), channel.clone()],
            )
        };
        eventually("the script runs", async || runner.run(&[call()]).await[0].is_ok()).await;
    }
}

async fn receives_each(subscription: &mut ChannelSubscription, channels: &[String]) {
    let mut left: BTreeSet<&[u8]> = channels.iter().map(String::as_bytes).collect();
    while !left.is_empty() {
        let message = timeout(PATIENCE, subscription.next()).await.unwrap().expect("nothing is lost");
        left.remove(&*message);
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn publication_stays_at_the_server_of_its_slot() {
    let cluster = Cluster::start().await;
    let options = options(&cluster.url());
    let runner = ScriptRunner::connect(options.clone()).await.unwrap();
    let shared = accepted(options).await;
    let (mut frames, channels) = (subscribed(&shared).await, channels(&runner.tag()));
    let mut subscription = runner.subscribe(channels.clone()).await.unwrap();
    for nonce in 1..=20 {
        change(&shared, nonce).await;
    }
    assert!(receives(&mut frames, 20).await);
    publish_on_each(&runner, &channels).await;
    receives_each(&mut subscription, &channels).await;
    for operator in cluster.operators().await {
        let info = command(&operator, "CLUSTER", &["INFO"]).await.as_string().unwrap();
        assert!(!info.contains("messages_publish_sent"), "{info}");
    }
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn subscription_ends_when_its_slot_moves() {
    let cluster = Cluster::start().await;
    let options = options(&cluster.url());
    let slot = key_slot(&format!("{{{}}}", options.tag()));
    let shared = accepted(options).await;
    let mut frames = subscribed(&shared).await;
    change(&shared, 1).await;
    assert!(receives(&mut frames, 1).await);
    cluster.move_slot(slot).await;
    assert!(!receives(&mut frames, 2).await, "its server says that it is over, and the client does not");
    let mut frames = subscribed(&shared).await;
    change(&shared, 3).await;
    assert!(receives(&mut frames, 3).await);
    eventually("the log has moved with its slot", async || {
        // A client whose slot has moved learns that from the first answer.
        let log = shared.replay(1, 1, 10).await.unwrap_or_default();
        log.iter().map(|frame| frame.nonce).eq([1, 3])
    })
    .await;
}

#[tokio::test]
#[ignore = "needs Redis: run cargo xtask test"]
async fn one_moved_slot_of_many_ends_a_subscription() {
    let cluster = Cluster::start().await;
    let runner = ScriptRunner::connect(options(&cluster.url())).await.unwrap();
    let channels = channels(&runner.tag());
    let mut subscription = runner.subscribe(channels.clone()).await.unwrap();
    cluster.move_slot(key_slot(&channels[7])).await;
    assert_eq!(timeout(PATIENCE, subscription.next()).await.unwrap(), None);
    let mut again = None;
    eventually("a subscription", async || {
        again = runner.subscribe(channels.clone()).await.ok();
        again.is_some()
    })
    .await;
    publish_on_each(&runner, &channels).await;
    receives_each(&mut again.unwrap(), &channels).await;
}
