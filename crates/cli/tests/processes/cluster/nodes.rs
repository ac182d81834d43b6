//! Operators see all nodes through any node.

use std::{net::TcpListener, time::Duration};

use kith_proto::admin::v1::*;
use tonic::{Code, Request};

use crate::cluster::{
    redis::{Redis, ask},
    site::{Peer, Site, stop, until_all_follow},
};

async fn inspect(peer: &Peer, key: &str, node_id: &str) -> InspectKeyResponse {
    let request = InspectKeyRequest { key: key.to_owned(), node_id: node_id.to_owned(), memory_only: false };
    peer.admin().inspect_key(request).await.unwrap().into_inner()
}

fn tiers(copies: &[TierCopy]) -> Vec<(&str, Presence, i64)> {
    copies.iter().map(|copy| (copy.tier.as_str(), copy.presence(), copy.version)).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn every_node_lists_all_with_itself_first() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    for (asked, other) in [(&a, &b), (&b, &a)] {
        let listed = asked.listed().await;
        assert!(listed.complete);
        let addresses: Vec<_> = listed.nodes.iter().map(|node| node.address.clone()).collect();
        assert_eq!(addresses, [asked.address(), other.address()]);
        assert!(listed.nodes[0].last_heard.is_none() && listed.nodes[1].last_heard.is_some());
        for node in &listed.nodes {
            assert_eq!(
                (node.version.as_str(), node.epoch),
                (kith_server::build_info::FULL, listed.nodes[0].epoch)
            );
            assert!(node.start_time.is_some() && !node.node_id.is_empty());
        }
        let node = asked.info().await;
        assert_eq!((node.nodes, node.redis.as_str(), node.redis_breaker.as_str()), (2, "follows", "closed"));
        assert_eq!((node.address, node.changes_waiting, node.trusted), (asked.address(), 0, true));
    }
    b.stop().await;
    assert_eq!(a.listed().await.nodes.len(), 1, "who stops in order leaves at once");
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_key_is_inspected_on_every_node_or_on_one() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let user = a.create("ann").await.user_id;
    assert_eq!(b.get(user).await.version, 1, "it fills Redis on its way");
    let flush = FlushMemoryRequest { namespace: "user".to_owned(), every_node: false };
    b.admin().flush_memory(flush).await.unwrap();
    let (key, b_id) = (format!("user/{user}"), b.info().await.node_id);
    let value = |tier| (tier, Presence::Value, 1);
    for _twice in 0..2 {
        let found = inspect(&a, &key, "").await;
        assert!(found.complete);
        assert_eq!(tiers(&found.copies), [value("memory"), value("redis"), value("store")]);
        assert_eq!(found.others.len(), 1);
        let other = &found.others[0];
        assert_eq!((other.node_id.as_str(), &other.address), (&*b_id, &b.address()));
        let nothing = ("memory", Presence::None, 0);
        assert_eq!(tiers(&other.copies), [nothing, value("redis"), value("store")], "looking fills nothing");
    }

    let in_memory = InspectKeyRequest { key: key.clone(), node_id: String::new(), memory_only: true };
    let found = a.admin().inspect_key(in_memory).await.unwrap().into_inner();
    assert_eq!((tiers(&found.copies), found.trusted), (vec![value("memory")], true));
    assert_eq!(tiers(&found.others[0].copies), [("memory", Presence::None, 0)]);

    let only = inspect(&a, &key, &b_id).await;
    assert!(only.copies.is_empty() && only.others.len() == 1);
    let itself = inspect(&a, &key, "self").await;
    assert!(itself.copies.len() == 3 && itself.others.is_empty());
    let nobody = InspectKeyRequest { key, node_id: "nobody".to_owned(), memory_only: false };
    assert_eq!(a.admin().inspect_key(nobody).await.unwrap_err().code(), Code::NotFound);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn node_that_cannot_be_called_is_named_in_time() {
    let site = Site::in_redis_of_tests();
    let a = site.node_with(|config| config.cluster.call_timeout = Duration::from_millis(300)).await;
    // It advertises an address at which no program listens.
    let wrong = "http://127.0.0.1:9";
    let b = site.node_with(|config| config.cluster.advertise = Some(wrong.to_owned())).await;
    until_all_follow([&b, &a]).await;
    let user = a.create("ann").await.user_id;
    let begun = std::time::Instant::now();
    let found = inspect(&a, &format!("user/{user}"), "").await;
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(found.others.len(), 1);
    assert_eq!(found.others[0].unanswered, format!("not reached at {wrong}"));
    assert_eq!(found.copies.len(), 3);
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a_call_that_pretends_to_be_a_node_is_refused() {
    let a = Site::in_redis_of_tests().node().await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    // The first proof is an older version's, the second is made without the key.
    for proof in ["00".repeat(32), format!("v1.{}.{now}.{}", a.info().await.node_id, "A".repeat(43))] {
        let mut request = Request::new(FlushMemoryRequest { namespace: String::new(), every_node: true });
        request.metadata_mut().insert("kith-node", proof.parse().unwrap());
        let refused = a.admin().flush_memory(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    a.stop().await;
}

/// Writes registry records as another program would: the nodes' own records, under other numbers and with
/// another address.
async fn forge(redis: &str, address: std::net::SocketAddr) {
    let script = format!(
        "for _, key in ipairs(redis.call('KEYS', '*:nodes:*')) do \
           local found, abouts = redis.call('HGETALL', key), string.gsub(key, ':nodes:', ':about:') \
           for at = 1, #found, 2 do \
             local about, forged = redis.call('HGET', abouts, found[at]), 'forged' .. (at + 10) \
             about = string.gsub(about, 'http://127.0.0.1:%d+', 'http://{address}') \
             redis.call('HSET', key, forged, found[at + 1]) \
             redis.call('HSET', abouts, forged, about) \
           end \
         end return 'done'"
    );
    assert_eq!(ask(redis, &format!("EVAL \"{script}\" 0")).await, "$4 done");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn a81_forged_node_record_is_not_called() {
    let redis = Redis::start(&[]).await;
    let (a, b) = Site::new(Some(redis.url())).pair().await;
    let user = a.create("ann").await.user_id;
    let listens = TcpListener::bind("127.0.0.1:0").unwrap();
    listens.set_nonblocking(true).unwrap();
    forge(&redis.url(), listens.local_addr().unwrap()).await;
    let found = inspect(&a, &format!("user/{user}"), "").await;
    let unanswered = |other: &NodeCopies| other.unanswered.clone();
    let (refused, called): (Vec<_>, Vec<_>) =
        found.others.iter().map(unanswered).partition(|unanswered| unanswered.starts_with("not called"));
    assert_eq!((refused.len(), called), (2, vec![String::new()]), "{found:?}");
    let request = FlushMemoryRequest { namespace: "user".to_owned(), every_node: true };
    a.admin().flush_memory(request).await.unwrap();
    let metrics = a.operations("/metrics").await;
    let counted = metrics.lines().find_map(|line| line.strip_prefix("kith_node_records_refused_total "));
    assert!(counted.unwrap().parse::<u64>().unwrap() >= 4, "{counted:?}");
    assert!(listens.accept().is_err(), "nothing was sent there");
    stop([a, b]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
async fn every_memory_is_emptied_through_one_node() {
    let (a, b) = Site::in_redis_of_tests().pair().await;
    let user = a.create("ann").await.user_id;
    for peer in [&a, &b] {
        peer.get(user).await;
        assert!(has_copy(peer, user).await);
    }
    let request = FlushMemoryRequest { namespace: "user".to_owned(), every_node: false };
    let flushed = a.admin().flush_memory(request.clone()).await.unwrap().into_inner();
    assert!(flushed.complete && flushed.others.is_empty());
    assert!(!has_copy(&a, user).await && has_copy(&b, user).await);
    let request = FlushMemoryRequest { every_node: true, ..request };
    let flushed = a.admin().flush_memory(request).await.unwrap().into_inner();
    assert_eq!((flushed.complete, flushed.others.len()), (true, 1));
    let other = &flushed.others[0];
    assert_eq!((&other.node_id, other.unanswered.as_str()), (&b.info().await.node_id, ""));
    assert!(!has_copy(&b, user).await);
    stop([a, b]).await;
}

/// Returns whether the node's memory has a copy of this user that it may serve.
async fn has_copy(peer: &Peer, user: i64) -> bool {
    let request =
        InspectKeyRequest { key: format!("user/{user}"), node_id: "self".to_owned(), memory_only: true };
    let found = peer.admin().inspect_key(request).await.unwrap().into_inner();
    found.copies.iter().any(|copy| copy.presence() == Presence::Value)
}
