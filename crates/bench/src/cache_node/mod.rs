//! A cluster node's cache, assembled as in the program, without anything to serve.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use kith_cache::{
    Node, NodeConfig, SystemClock,
    remote::{
        ClusterNode, Epochs, FollowerConfig, LeaseWaiters, MessageMac, PeerConfirmations, SharedBackend,
        SharedBus, SharedError, Sharing, UnpublishedQueue,
        redis::{RedisOptions, ScriptRunner},
    },
};
use kith_delivery::{EpochSource, RedisSequences, SequenceLimits, Sequences};
use kith_service::sequence::TokioBackground;
use kith_store::{Epoch, SequenceStore};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

/// How long a node may take to trust its memory.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// The pause between two checks.
const POLL: Duration = Duration::from_millis(5);
/// How long a change's publication may take before it waits, as in the program.
const CHANGE_BOUND: Duration = Duration::from_millis(150);
/// How long a load waits for another node's lease, as in the program.
const PATIENCE: Duration = Duration::from_millis(500);
/// Keys that may wait to be published.
const WAITING_MAX: usize = 100_000;

/// An epoch in memory, which several nodes share. Its clones are one epoch.
#[derive(Clone, Debug)]
pub(crate) struct SharedEpoch(Arc<Mutex<(u64, String)>>);

/// A node among others, and the state that its namespaces share. Its background work ends when it is dropped.
#[derive(Debug)]
pub(crate) struct CacheNode {
    pub(crate) node: Node,
    pub(crate) sharing: Sharing,
    member: ClusterNode,
    _tasks: JoinSet<()>,
}

impl CacheNode {
    /// Begins to follow the server `shared`. Its memory is trusted later, see [`Self::until_trusted`].
    pub(crate) fn start(id: u64, shared: &Arc<dyn SharedBackend>, epochs: Arc<dyn Epochs>) -> Self {
        let following = FollowerConfig::default();
        let (queue, lease_waiters) =
            (Arc::new(UnpublishedQueue::new(WAITING_MAX)), Arc::new(LeaseWaiters::default()));
        let confirmations = Arc::new(PeerConfirmations::new(following.trust));
        let bus = Arc::new(SharedBus {
            id,
            sharing: Sharing { backend: Arc::clone(shared), queue, lease_waiters, patience: PATIENCE },
            epochs,
            mac: MessageMac::new(&[7; 32]),
            confirmations,
            bound: CHANGE_BOUND,
        });
        let node = Node::new(NodeConfig::following(Arc::<SharedBus>::clone(&bus)));
        let sharing = bus.sharing.clone();
        let member = ClusterNode::new(node.clone(), bus, Arc::new(String::new()), following);
        let mut tasks = JoinSet::new();
        let (following, publishing) = (member.clone(), member.clone());
        tasks.spawn(async move { following.follow().await });
        tasks.spawn(async move { publishing.bus.drain(&publishing.node).await });
        Self { node, sharing, member, _tasks: tasks }
    }

    /// Waits until memory is trusted.
    ///
    /// # Errors
    /// If it is not within 20 s.
    pub(crate) async fn until_trusted(&self) -> Result<()> {
        let trusted = async {
            while !self.node.trusted() {
                sleep(POLL).await;
            }
        };
        ensure!(timeout(READY_WITHIN, trusted).await.is_ok(), "a node does not trust its memory");
        Ok(())
    }
}

impl SharedEpoch {
    /// The first epoch.
    pub(crate) fn first() -> Self {
        Self(Arc::new(Mutex::new((1, String::new()))))
    }
}

#[async_trait]
impl Epochs for SharedEpoch {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        Ok(self.0.lock().clone())
    }

    async fn raise(&self, seen: u64, server: &str) -> Result<u64, SharedError> {
        let mut epoch = self.0.lock();
        if epoch.0 == seen {
            *epoch = (seen + 1, server.to_owned());
        }
        Ok(epoch.0)
    }
}

#[async_trait]
impl EpochSource for CacheNode {
    fn followed_epoch(&self) -> Option<Epoch> {
        let (number, server) = self.member.bus.confirmations.trusted(&self.node)?;
        Some(Epoch { number, server })
    }

    async fn settled_epoch(&self) -> Option<u64> {
        None
    }
}

/// Sequences whose blocks come from this store and whose numbers come from this Redis, in the epoch that the
/// node follows.
///
/// # Errors
/// If the address cannot be used.
pub(crate) async fn sequences(
    options: RedisOptions,
    node: CacheNode,
    store: Arc<dyn SequenceStore>,
) -> Result<Sequences> {
    let runner = Arc::new(ScriptRunner::connect(options).await?);
    let numbers = RedisSequences::over(runner, Arc::new(node));
    let (clock, limits) = (Arc::new(SystemClock::new()), SequenceLimits::default());
    Ok(Sequences::new(store, Arc::new(numbers), clock, Arc::new(TokioBackground), limits))
}
