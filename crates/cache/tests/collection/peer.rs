//! A node among others.

use std::{sync::Arc, time::Duration};

use kith_cache::{
    Node, NodeConfig, PageLoader,
    remote::{
        ClusterNode, Codec, Epochs, Following, LeaseWaiters, MessageMac, PeerConfirmations, Queue, SharedBus,
        SharedError, Sharing,
    },
};
use tokio::task::JoinHandle;

use crate::{
    stage::{List, Span, policies},
    wire::Wire,
};

/// One epoch for ever.
#[derive(Debug)]
struct Still;

#[async_trait::async_trait]
impl Epochs for Still {
    async fn current(&self) -> Result<(u64, String), SharedError> {
        Ok((1, "0".to_owned()))
    }

    async fn raise(&self, _seen: u64, _server: &str) -> Result<u64, SharedError> {
        Err(SharedError::Unexpected)
    }
}

#[derive(Debug)]
struct Number;

impl Codec<u64> for Number {
    fn schema(&self) -> u16 {
        1
    }

    fn encode(&self, number: &u64) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<u64> {
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    }
}

pub(crate) struct Peer {
    pub(crate) node: Node,
    pub(crate) list: List,
    pub(crate) wire: Wire,
    pub(crate) queue: Arc<Queue>,
    bus: Arc<SharedBus>,
    wakes: Arc<LeaseWaiters>,
    tasks: Vec<JoinHandle<()>>,
}

impl Peer {
    /// A node that trusts its memory and hears nothing.
    pub(crate) fn new(id: u64, wire: Wire, loader: Arc<dyn PageLoader<u64, Span, u64>>) -> Self {
        let (shared, queue) = (Arc::new(wire.clone()), Arc::new(Queue::new(100)));
        let bus = Arc::new(SharedBus {
            id,
            shared: Arc::<Wire>::clone(&shared),
            queue: Arc::clone(&queue),
            epochs: Arc::new(Still),
            seal: MessageMac::new(&[7; 32]),
            standing: Arc::new(PeerConfirmations::new(Duration::from_millis(1_500))),
            bound: Duration::from_secs(60),
        });
        let node = Node::new(NodeConfig { bus: Arc::<SharedBus>::clone(&bus), ..NodeConfig::local(1) });
        let wakes = Arc::<LeaseWaiters>::default();
        let sharing = Sharing {
            shared,
            queue: Arc::clone(&queue),
            wakes: Arc::clone(&wakes),
            patience: Duration::from_millis(500),
        };
        let list = List::shared(&node, policies(), loader, &sharing, Arc::new(Number));
        Self { node, list, wire, queue, bus, wakes, tasks: Vec::new() }
    }

    /// The same, with a node that follows the log and publishes queued changes.
    pub(crate) fn following(id: u64, wire: Wire, loader: Arc<dyn PageLoader<u64, Span, u64>>) -> Self {
        let mut peer = Self::new(id, wire, loader);
        let member = ClusterNode {
            node: peer.node.clone(),
            id,
            shared: Arc::new(peer.wire.clone()),
            epochs: Arc::new(Still),
            about: Arc::new(String::new()),
            queue: Arc::clone(&peer.queue),
            wakes: Arc::clone(&peer.wakes),
            standing: Arc::clone(&peer.bus.standing),
            seal: MessageMac::new(&[7; 32]),
            recent: Arc::default(),
            tally: Arc::default(),
            following: Following::default(),
            random: Arc::new(kith_cache::ThreadRandom),
        };
        let (bus, node) = (Arc::clone(&peer.bus), peer.node.clone());
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
