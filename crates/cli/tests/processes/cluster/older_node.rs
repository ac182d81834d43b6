//! A rolling upgrade: messages are not available while a node with an older schema is registered.

use std::time::Duration;

use kith_proto::message::v1::{send_message_request::To, *};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    cluster::{
        hand,
        redis::ask,
        site::{Peer, Site, stop},
    },
    polls::until,
};

/// The registry entry of a node that knows an early schema.
const CARD: &str =
    r#"{"id":"6f1f54ae-3ac0-4b06-b5b2-f0b8be3f9a25","address":"http://127.0.0.1:1","schema":1}"#;
/// The node's number in the registry.
const NUMBER: &str = "oldernod";
/// How long a node takes to see a change in the registry: it looks every 2 s.
const SEEN: Duration = Duration::from_secs(20);

/// The registry with a site's nodes, and another node in it.
struct Registry {
    redis: String,
    key: String,
}

impl Registry {
    /// Opens the registry for the epoch that the nodes follow.
    async fn of(site: &Site, epoch: i64) -> Self {
        let redis = site.redis.clone().unwrap();
        let keys = ask(&redis, &format!("KEYS *{}*nodes:{epoch}", site.prefix)).await;
        let key = keys.split(' ').find(|word| word.ends_with(&format!("nodes:{epoch}"))).unwrap();
        Self { redis, key: key.to_owned() }
    }

    /// Registers an older node, or renews its registration: an entry has 8 bytes with its applied position,
    /// 13 digits with the time, and the card.
    async fn live(&self) {
        let script = "local entry = string.rep(string.char(0), 8) .. \
                      string.format('%013.0f', redis.call('TIME')[1] * 1000) .. ARGV[2] \
                      return redis.call('HSET', KEYS[1], ARGV[1], entry)";
        let line = format!("EVAL \"{script}\" 1 {} {NUMBER} '{CARD}'", self.key);
        let answer = ask(&self.redis, &line).await;
        assert!([":0", ":1"].contains(&answer.as_str()), "{answer}");
    }

    async fn remove(&self) {
        ask(&self.redis, &format!("HDEL {} {NUMBER}", self.key)).await;
    }
}

/// Returns the result of one call of each kind: a send, a message read, a dialog write.
async fn called(peer: &Peer, user: i64) -> [Result<(), Status>; 3] {
    let to = Some(To::UserId(user));
    let send = SendMessageRequest { to, sender_id: user, body: "hi".into(), ..Default::default() };
    let conversation_id = format!("d{user}-{user}");
    let pin = UpdateDialogRequest {
        user_id: user,
        conversation_id,
        settings: Some(DialogSettings { pinned: true, ..Default::default() }),
        update_mask: Some(prost_types::FieldMask { paths: vec!["pinned".to_owned()] }),
        ..Default::default()
    };
    [
        peer.messages().send_message(send).await.map(drop),
        peer.messages().get_max_seqs(GetMaxSeqsRequest::default()).await.map(drop),
        peer.messages().update_dialog(pin).await.map(drop),
    ]
}

fn assert_unavailable(refused: &Status) {
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    let details = refused.get_error_details();
    let again = details.retry_info().expect("it says when to try again").retry_delay;
    assert!(again.is_some_and(|after| !after.is_zero()), "{refused:?}");
    let outcome = details.error_info().and_then(|info| info.metadata.get("outcome").cloned());
    assert!(outcome.is_none_or(|outcome| outcome == "not_applied"), "{refused:?}");
    assert!(refused.message().contains("older version"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn older_node_makes_messages_unavailable() {
    let site = Site::in_redis_of_tests();
    let first = site.node().await;
    first.until_following().await;
    let user = first.create("ann").await.user_id;
    assert!(called(&first, user).await.iter().all(Result::is_ok), "all registered nodes know the schema");
    let registry = Registry::of(&site, first.info().await.epoch).await;
    registry.live().await;
    // Nodes that agreed once record it; the record is deleted.
    hand::delete_named(&site.database, "leases", "schema_agreed");

    let newer = site.node().await;
    until(SEEN, async || {
        registry.live().await;
        newer.operations("/readyz").await.contains("older_nodes")
    })
    .await;
    let ready = newer.operations("/readyz").await;
    assert!(ready.starts_with("HTTP/1.0 200"), "it serves all else: {ready}");
    assert!(ready.contains("a node of an older version is registered"), "{ready}");
    for refused in called(&newer, user).await {
        assert_unavailable(&refused.unwrap_err());
    }
    assert_eq!(newer.get(user).await.user_name, "ann", "other services answer");

    registry.remove().await;
    until(SEEN, async || called(&newer, user).await.iter().all(Result::is_ok)).await;
    until(SEEN, async || !newer.operations("/readyz").await.contains("older_nodes")).await;
    let later = site.node().await;
    assert!(called(&later, user).await.iter().all(Result::is_ok), "it is noted that all agree");
    stop([first, newer, later]).await;
}
