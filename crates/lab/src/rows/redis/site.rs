//! A node of the cluster, as the program puts it together, without anything to serve.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use kith_cache::{
    Bus, Moment, Node, NodeConfig, ThreadRandom,
    remote::{
        ClusterNode, FollowerStats, Following, LeaseWaiters, MessageMac, PeerConfirmations, Queue,
        RecentChanges, Shared, SharedBus, Sharing,
        redis::{RedisOptions, RedisShared},
    },
};
use kith_store::Epoch;
use tokio::{
    task::{JoinSet, yield_now},
    time::{Instant, timeout},
};

use super::applied::Followed;
use crate::peers::Store;

/// How long a node may take to trust its memory.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long a change may take before it waits, and a load for the lease of another: as the program has it.
const BOUND: Duration = Duration::from_millis(500);
/// Keys that may wait to be published.
const WAITING_MAX: usize = 100_000;

/// A node among others, and what its namespaces share by. It ends with the value.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) node: Node,
    pub(crate) sharing: Sharing,
    followed: Arc<Followed>,
    standing: Arc<PeerConfirmations>,
    _tasks: JoinSet<()>,
}

impl Site {
    /// The epoch in which the node trusts its memory, with its server.
    pub(super) fn followed(&self) -> Option<Epoch> {
        let (number, server) = self.standing.trusted(&self.node)?;
        Some(Epoch { number, server })
    }

    /// When the node had applied an entry for the last time, once that is after this moment.
    pub(super) async fn applied_after(&self, moment: Instant) -> Instant {
        loop {
            let applied = self.followed.applied();
            if applied > moment {
                return applied;
            }
            yield_now().await;
        }
    }
}

/// Where sites meet: a prefix of the run's own in a Redis.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) url: String,
    prefix: String,
    epochs: Store,
    sites: AtomicU64,
}

impl Place {
    pub(super) fn new(url: &str) -> Self {
        let prefix = format!("kith-bench-{:x}", rand::random::<u64>());
        Self { url: url.to_owned(), prefix, epochs: Store::new(Duration::ZERO, 1), sites: AtomicU64::new(1) }
    }

    /// What keys have between their braces.
    pub(super) fn tag(&self) -> String {
        self.options().tag()
    }

    pub(super) fn options(&self) -> RedisOptions {
        RedisOptions { url: self.url.clone(), prefix: self.prefix.clone(), ..RedisOptions::default() }
    }

    /// One more node, which trusts its memory.
    pub(super) async fn site(&self) -> Result<Site> {
        let shared: Arc<dyn Shared> = RedisShared::connect(self.options()).await?;
        let site = self.begin(self.sites.fetch_add(1, Ordering::Relaxed), &shared);
        let trusted = async {
            while !site.node.trusted() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        ensure!(timeout(READY_WITHIN, trusted).await.is_ok(), "a node does not trust its memory");
        Ok(site)
    }

    fn begin(&self, id: u64, shared: &Arc<dyn Shared>) -> Site {
        let (queue, wakes) = (Arc::new(Queue::new(WAITING_MAX)), Arc::new(LeaseWaiters::default()));
        let (following, seal) = (Following::default(), MessageMac::new(&[7; 32]));
        let standing = Arc::new(PeerConfirmations::new(following.trust));
        let bus = Arc::new(SharedBus {
            id,
            shared: Arc::clone(shared),
            queue: Arc::clone(&queue),
            epochs: Arc::new(self.epochs.clone()),
            seal: seal.clone(),
            standing: Arc::clone(&standing),
            bound: BOUND,
        });
        let of_node: Arc<dyn Bus> = Arc::<SharedBus>::clone(&bus);
        let node =
            Node::new(NodeConfig { trusted_until: Moment::new(0), bus: of_node, ..NodeConfig::local(0) });
        let followed = Arc::new(Followed::new(shared));
        let member = ClusterNode {
            node: node.clone(),
            id,
            about: Arc::new(String::new()),
            shared: Arc::<Followed>::clone(&followed),
            epochs: Arc::new(self.epochs.clone()),
            queue: Arc::clone(&queue),
            wakes: Arc::clone(&wakes),
            standing: Arc::clone(&standing),
            seal,
            recent: Arc::new(RecentChanges::default()),
            tally: Arc::new(FollowerStats::default()),
            following,
            random: Arc::new(ThreadRandom),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { member.follow().await });
        let telling = node.clone();
        tasks.spawn(async move { bus.drain(&telling).await });
        let sharing = Sharing { shared: Arc::clone(shared), queue, wakes, patience: BOUND };
        Site { node, sharing, followed, standing, _tasks: tasks }
    }
}
