//! A cluster node: shared state, the node's node info, and calls to other nodes.
//!
//! `kith_cache::remote` has the protocol. This module gives it the epoch store, the keys, the configuration,
//! and the tasks that follow, publish and watch while the node runs.

mod callers_digest;
mod calls;
mod database_lease;
mod epochs;
mod feed;
mod kept_changes;
mod keys;
mod node_info;
pub mod observer;
mod proofs;
mod refused;
mod schemas;
mod server;
mod watch;
mod window_epochs;

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use kith_cache::{
    Node, NodeConfig, Resyncer, TokenIssuer,
    remote::{
        ClusterNode, Feed, FeedReader, FeedTiming, FollowerConfig, FollowerStatus, FollowerThread, Peer,
        PeerConfirmations, SharedBus, SharedError, Sharing, UnpublishedQueue,
    },
};
use kith_delivery::{FanOutNotes, InboxKeeper, InboxLimits, ReaderBitmaps, SequenceKeeper, Windows};
use kith_presence::Presences;
use kith_service::{
    metric,
    schema_agreement::SchemaAgreement,
    write::{caches::CacheFactory, feed_mapping::FeedMapping, tasks::Tasks},
};
use kith_store::Stores;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

pub(crate) use callers_digest::CallersDigest;
pub(crate) use calls::{Admin, NodeCalls};
pub(crate) use database_lease::{DatabaseLease, PATIENCE};
pub(crate) use epochs::StoreEpochs;
pub use keys::NodeKeys;
pub(crate) use node_info::{ListedNode, NodeInfo, PublishedNode};
pub(crate) use proofs::Proofs;
pub(crate) use refused::RedisRefused;
pub use server::SharedServer;

use self::{
    feed::StoreFeed,
    node_info::{ProvenNodeInfo, without_replaced},
    schemas::SchemaWatch,
    window_epochs::WindowEpochs,
};
use crate::{
    config::{ClusterConfig, Config},
    health::Reporter,
};

/// Extra time for a command with a change, which may wait for other commands.
const PUBLISH_SLACK: Duration = Duration::from_millis(50);
/// How many entries a repair step reads.
const REPLAY_PAGE: usize = 1_000;
/// How often the store is asked for the epoch.
const EPOCH_POLL: Duration = Duration::from_secs(1);
/// Longest pause between two attempts to follow.
const RETRY_MAX: Duration = Duration::from_millis(500);
/// How often a condition is polled.
const POLL: Duration = Duration::from_millis(10);
/// Time limit for leaving the registry.
const LEAVE: Duration = Duration::from_millis(500);

/// This node as a cluster member.
#[derive(Debug)]
pub(crate) struct Cluster {
    server: SharedServer,
    caches: CacheFactory,
    member: ClusterNode,
    windows: Windows,
    node_info: NodeInfo,
    schemas: SchemaWatch,
    proofs: Proofs,
    calls: NodeCalls,
    /// The store's feeds, if others can change the store.
    feeds: Vec<StoreFeed>,
    /// Set once following has started.
    follower: Mutex<Option<FollowerThread>>,
    /// Background tasks: publishing, reading the feeds, comparing, watching. They end with this value.
    tasks: Tasks,
}

impl Cluster {
    /// Assembles a node that shares `shared` with others. It neither follows nor publishes yet. `mappings`
    /// creates the invalidations for changes in the store, from the conversation windows.
    pub(crate) fn new(
        server: SharedServer,
        keys: &NodeKeys,
        stores: &Stores,
        config: &Config,
        published: PublishedNode,
        mappings: impl FnOnce(&Windows) -> Arc<[Arc<dyn FeedMapping>]>,
    ) -> Self {
        let PublishedNode { node_info, callers } = published;
        let cluster = &config.cluster;
        let proofs = Proofs::new(keys);
        let following = following(cluster);
        let sharing = Sharing {
            backend: Arc::clone(server.shared()),
            queue: Arc::new(UnpublishedQueue::new(cluster.queue_max)),
            lease_waiters: Arc::default(),
            patience: cluster.patience,
        };
        let bus = Arc::new(SharedBus {
            id: node_info.number(),
            sharing,
            epochs: Arc::new(StoreEpochs(Arc::clone(&stores.node))),
            mac: keys.message_mac(),
            confirmations: Arc::new(PeerConfirmations::new(following.trust)),
            bound: config.redis.command_timeout + PUBLISH_SLACK,
        });
        let node = node(config, &bus, keys.token_issuer());
        let about = ProvenNodeInfo { node_info: node_info.clone(), callers, proofs: proofs.clone() };
        let member = ClusterNode::new(node.clone(), bus, Arc::new(about), following);
        let (epochs, limits) = (Arc::new(WindowEpochs(member.clone())), config.messages.windows());
        let windows = server.windows(epochs, Arc::clone(&stores.messages), limits);
        let schemas = SchemaWatch {
            coordination: Arc::clone(&stores.coordination),
            shared: Arc::clone(server.shared()),
            node: node.clone(),
            node_info: node_info.clone(),
            agreement: SchemaAgreement::unknown(),
        };
        let calls = NodeCalls::new(proofs.clone(), config, &node_info.id);
        let feeds = StoreFeed::all(stores, &mappings(&windows), &node_info.id, config.changes);
        let caches = CacheFactory::shared(node, member.bus.sharing.clone());
        Self {
            server,
            caches,
            member,
            windows,
            node_info,
            schemas,
            proofs,
            calls,
            feeds,
            follower: Mutex::default(),
            tasks: Tasks::default(),
        }
    }

    /// Begins the feeds in a database that no node has served yet, before this node joins its first epoch.
    /// There are no copies to discard then. A feed that cannot be begun in this time is no reason not to
    /// serve: it discards all copies later.
    pub(crate) async fn begin_feeds(&self, limit: Duration) {
        let epochs = &self.member.bus.epochs;
        let begun = async {
            while matches!(epochs.current().await, Ok((0, _))) {
                let begun = join_all(self.feeds.iter().map(StoreFeed::begin_new)).await;
                if begun.iter().all(|begun| *begun == Ok(true)) {
                    return;
                }
                sleep(POLL).await;
            }
        };
        drop(timeout(limit, begun).await);
    }

    /// Begins to follow, to publish queued changes, and to report in `health` whether Redis is unavailable.
    pub(crate) fn start(&self, health: Reporter) {
        drop(metrics::counter!(metric::NODE_RECORDS_REFUSED.name));
        let bus = Arc::clone(&self.member.bus);
        let (node, queue) = (self.node().clone(), Arc::clone(&self.member.bus.sharing.queue));
        let of_resync = node.clone();
        let tasks = &self.tasks;
        self.follow();
        tasks.spawn({
            let node = node.clone();
            async move { bus.drain(&node).await }
        });
        tasks.spawn(async move { Resyncer::default().run(&of_resync).await });
        for feed in &self.feeds {
            let (member, feed): (_, Arc<dyn Feed>) = (self.member.clone(), Arc::new(feed.clone()));
            let reader = FeedReader { member, feed, timing: FeedTiming::default() };
            tasks.spawn(async move { reader.read().await });
        }
        tasks.spawn(watch::watch_feeds(Arc::clone(&self.member.stats), health.clone()));
        tasks.spawn(self.schemas.clone().watch(health.clone()));
        tasks.spawn(watch::keep_prefix(self.server.clone(), health.clone()));
        tasks.spawn(watch::watch(self.server.clone(), node, queue, health));
    }

    /// Follows on its own thread. Without room for a thread it follows among the calls.
    fn follow(&self) {
        let member = self.member.clone();
        match FollowerThread::start(member.clone()) {
            Ok(thread) => *self.follower.lock() = Some(thread),
            Err(error) => {
                tracing::warn!(%error, "there is no thread to follow changes: a busy node may not trust its memory");
                self.tasks.spawn(async move { member.follow().await });
            }
        }
    }

    /// Waits until the node follows, at most this long. Returns whether it does.
    pub(crate) async fn follows_within(&self, limit: Duration) -> bool {
        within(limit, || self.node().trusted()).await
    }

    /// Waits until the nodes agree on the schema, at most this long. Returns whether they do.
    pub(crate) async fn agrees_within(&self, limit: Duration) -> bool {
        within(limit, || self.schemas.agreement.check().is_ok()).await
    }

    /// Whether all nodes know this node's schema.
    pub(crate) const fn agreement(&self) -> &SchemaAgreement {
        &self.schemas.agreement
    }

    /// Publishes queued changes, for at most this time, and leaves the cluster. The other nodes receive the
    /// rest through the change feed.
    pub(crate) async fn stop(&self, limit: Duration) {
        if !within(limit, || self.member.bus.sharing.queue.is_empty()).await {
            tracing::warn!(
                waiting = self.member.bus.sharing.queue.len(),
                "not all changes could be published to other nodes"
            );
        }
        self.tasks.end().await;
        let follower = self.follower.lock().take();
        if let Some(follower) = follower {
            follower.end().await;
        }
        // Another node takes them at once.
        let yielded = join_all(self.feeds.iter().map(|feed| feed.yield_lead()));
        drop(timeout(LEAVE, yielded).await);
        let left = self.server.shared().leave(self.node().epoch(), self.member.bus.id);
        // If it cannot leave, the registry forgets the node after a while.
        drop(timeout(LEAVE, left).await);
    }

    pub(crate) const fn caches(&self) -> &CacheFactory {
        &self.caches
    }

    pub(crate) const fn node(&self) -> &Node {
        self.caches.node()
    }

    pub(crate) const fn node_info(&self) -> &NodeInfo {
        &self.node_info
    }

    pub(crate) const fn calls(&self) -> &NodeCalls {
        &self.calls
    }

    /// The shared presence.
    pub(crate) const fn presences(&self) -> &Presences {
        self.server.presences()
    }

    /// The shared conversation windows.
    pub(crate) const fn windows(&self) -> &Windows {
        &self.windows
    }

    fn window_epochs(&self) -> Arc<WindowEpochs> {
        Arc::new(WindowEpochs(self.member.clone()))
    }

    /// The shared sequences.
    pub(crate) fn sequences(&self) -> Arc<dyn SequenceKeeper> {
        self.server.sequences(self.window_epochs())
    }

    /// The shared bitmaps with the readers of notices.
    pub(crate) fn reader_bitmaps(&self) -> Option<Arc<dyn ReaderBitmaps>> {
        self.server.reader_bitmaps(self.window_epochs())
    }

    /// The shared inboxes for all users.
    pub(crate) fn inboxes(&self, limits: InboxLimits) -> Arc<dyn InboxKeeper> {
        self.server.inboxes(self.window_epochs(), limits)
    }

    /// The shared notes about unfinished fan-outs.
    pub(crate) fn fan_out_notes(&self) -> Option<Arc<dyn FanOutNotes>> {
        self.server.fan_out_notes(self.window_epochs())
    }

    /// The state of Redis' circuit breaker.
    pub(crate) fn breaker(&self) -> &'static str {
        self.server.breaker()
    }

    /// This node's number in the registry.
    pub(crate) fn number(&self) -> u64 {
        self.member.bus.id
    }

    /// Brings the follower's metrics up to date.
    pub(crate) fn export_metrics(&self) {
        self.member.export_metrics();
        self.server.export_metrics();
    }

    /// This node's position in the log.
    pub(crate) fn followed(&self) -> FollowerStatus {
        self.member.follower_status()
    }

    /// Changes that wait to be published.
    pub(crate) fn waiting(&self) -> usize {
        self.member.bus.sharing.queue.len()
    }

    /// The nodes in the epoch that this node follows, itself among them. A killed node is left out once
    /// another node has its address.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub(crate) async fn peers(&self) -> Result<Vec<Peer>, SharedError> {
        let listed = self.listed(self.node().epoch()).await?;
        Ok(listed.into_iter().map(|(peer, _)| peer).collect())
    }

    async fn listed(&self, epoch: u64) -> Result<Vec<(Peer, ListedNode)>, SharedError> {
        let peers = self.server.shared().peers(epoch).await?.into_iter();
        Ok(without_replaced(peers.map(|peer| {
            let listed = ListedNode::of(&peer, epoch, &self.proofs);
            (peer, listed)
        })))
    }

    /// The other nodes, by their node infos. Records without a valid proof are counted.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub(crate) async fn others(&self) -> Result<Vec<ListedNode>, SharedError> {
        let listed = self.listed(self.node().epoch()).await?.into_iter();
        let others = listed.filter(|(peer, _)| peer.node != self.member.bus.id);
        let others: Vec<_> = others.map(|(_, listed)| listed).collect();
        let unproven = others.iter().filter(|listed| !listed.is_proven).count();
        metrics::counter!(metric::NODE_RECORDS_REFUSED.name).increment(unproven as u64);
        Ok(others)
    }

    /// Makes the node move to this epoch or a later epoch, so that it uses no shared data from before. Waits
    /// for it, at most this long. Returns whether it has moved.
    pub(crate) async fn moves_to(&self, epoch: u64, limit: Duration) -> bool {
        self.member.bus.sharing.queue.raise_barrier(epoch);
        within(limit, || self.node().epoch() >= epoch).await
    }
}

/// The node does not trust its memory before it follows the others.
fn node(config: &Config, bus: &Arc<SharedBus>, tokens: TokenIssuer) -> Node {
    let cluster = &config.cluster;
    Node::new(NodeConfig {
        tokens,
        memory_bytes: config.cache.memory_bytes,
        trust_grace: cluster.trust_grace,
        token_wait: cluster.token_wait,
        ..NodeConfig::following(Arc::<SharedBus>::clone(bus))
    })
}

fn following(cluster: &ClusterConfig) -> FollowerConfig {
    FollowerConfig {
        probe_every: cluster.probe_every,
        epoch_check_every: EPOCH_POLL,
        trust: cluster.trust,
        settle_time: cluster.trust,
        replay_page: REPLAY_PAGE,
        replay_max: cluster.replay_max,
        retry_max: RETRY_MAX,
    }
}

/// Whether the condition becomes true within the limit.
async fn within(limit: Duration, is: impl Fn() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !is() {
        if Instant::now() >= until {
            return false;
        }
        sleep(POLL).await;
    }
    true
}
