//! A node among others.

use std::{sync::Arc, time::Duration};

use kith_cache::{
    Node, NodeConfig, PageLoader,
    remote::{
        ClusterNode, Epochs, FollowerConfig, MessageMac, PeerConfirmations, SharedBus, SharedError, Sharing,
        UnpublishedQueue,
    },
};
use tokio::task::JoinHandle;

use crate::{
    number_codec::NumberCodec,
    stage::{List, Span, policies},
    wire::Wire,
};

/// The epoch never changes.
#[derive(Debug)]
struct FixedEpoch;

#[async_trait::async_trait]
impl Epochs for FixedEpoch {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        Ok((1, "0".to_owned()))
    }

    async fn raise(&self, _seen: u64, _server: &str) -> Result<u64, SharedError> {
        Err(SharedError::Unexpected)
    }
}

pub(crate) struct Peer {
    pub(crate) node: Node,
    pub(crate) list: List,
    pub(crate) wire: Wire,
    pub(crate) bus: Arc<SharedBus>,
    tasks: Vec<JoinHandle<()>>,
}

impl Peer {
    /// A node that trusts its memory and receives nothing.
    pub(crate) fn new(id: u64, wire: Wire, loader: Arc<dyn PageLoader<u64, Span, u64>>) -> Self {
        let sharing = Sharing {
            backend: Arc::new(wire.clone()),
            queue: Arc::new(UnpublishedQueue::new(100)),
            lease_waiters: Arc::default(),
            patience: Duration::from_millis(500),
        };
        let bus = Arc::new(SharedBus {
            id,
            sharing,
            epochs: Arc::new(FixedEpoch),
            mac: MessageMac::new(&[7; 32]),
            confirmations: Arc::new(PeerConfirmations::new(Duration::from_millis(1_500))),
            bound: Duration::from_secs(60),
        });
        let node = Node::new(NodeConfig { bus: Arc::<SharedBus>::clone(&bus), ..NodeConfig::local(1) });
        let list = List::shared(&node, policies(), loader, &bus.sharing, Arc::new(NumberCodec));
        Self { node, list, wire, bus, tasks: Vec::new() }
    }

    /// Like `new`, with a node that follows the log and publishes queued changes.
    pub(crate) fn following(id: u64, wire: Wire, loader: Arc<dyn PageLoader<u64, Span, u64>>) -> Self {
        let mut peer = Self::new(id, wire, loader);
        let (bus, node) = (Arc::clone(&peer.bus), peer.node.clone());
        let about = Arc::new(String::new());
        let member = ClusterNode::new(node.clone(), Arc::clone(&bus), about, FollowerConfig::default());
        peer.tasks.push(tokio::spawn(async move { member.follow().await }));
        peer.tasks.push(tokio::spawn(async move { bus.drain(&node).await }));
        peer
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
