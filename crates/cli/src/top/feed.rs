//! Receives the messages that nodes send while they are watched.

use std::{convert::Infallible, time::Duration};

use anyhow::{Context as _, Result, anyhow};
use kith_proto::admin::v1::{ListNodesRequest, WatchNodeRequest, admin_service_client::AdminServiceClient};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    super::client::{Target, Targets, message_of},
    history::History,
    sample::Sample,
};

/// The pause before a node that went away is tried again: the first and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// How often a node is asked for the list of nodes.
const LIST_EVERY: Duration = Duration::from_secs(5);
/// The most events that wait to be received.
const EVENTS_MAX: usize = 256;
/// The most nodes that are watched at the same time; further nodes are left out.
const NODES_MAX: usize = 128;

/// A node that is watched.
#[derive(Clone, Debug)]
pub(super) struct WatchedNode {
    /// The address at which it is reached.
    pub(super) addr: String,
    /// Its last message.
    pub(super) now: NodeState,
    /// Its last samples.
    pub(super) history: History,
    /// Whether the last message came after [`Feed::mark_read`].
    pub(super) fresh: bool,
}

impl WatchedNode {
    /// Makes a node that has been asked and has not answered.
    pub(super) fn new(addr: String) -> Self {
        Self { addr, now: NodeState::Connecting, history: History::default(), fresh: false }
    }

    /// Returns how many rows its longest list has.
    pub(super) fn rows(&self) -> usize {
        match &self.now {
            NodeState::Reporting(sample) => sample.methods.len().max(sample.namespaces.len()),
            NodeState::Connecting | NodeState::Unreachable(_) => 0,
        }
    }

    /// Keeps its new state.
    pub(super) fn update(&mut self, now: NodeState) {
        self.history.add(match &now {
            NodeState::Reporting(sample) => Some(sample),
            NodeState::Connecting | NodeState::Unreachable(_) => None,
        });
        (self.now, self.fresh) = (now, true);
    }
}

/// The last known state of a node.
#[derive(Clone, Debug)]
pub(super) enum NodeState {
    /// The node has been asked.
    Connecting,
    /// The node does not answer, or not as asked, for this reason.
    Unreachable(String),
    /// Its last sample.
    Reporting(Box<Sample>),
}

enum FeedEvent {
    /// The state changed at the node with this address.
    Node(String, NodeState),
    /// The nodes at these addresses exist.
    Listed(Vec<String>),
}

/// The nodes that are watched.
#[derive(Debug)]
pub(super) struct Feed {
    /// The nodes, in the order in which they were given or found.
    pub(super) nodes: Vec<WatchedNode>,
    interval: Duration,
    template: Target,
    receiver: mpsc::Receiver<FeedEvent>,
    sender: mpsc::Sender<FeedEvent>,
    /// The tasks that watch; they end with this value.
    tasks: JoinSet<()>,
}

impl Feed {
    /// Begins to watch the nodes. If a single node is given, also watches the nodes that it knows; fails if
    /// it does not answer.
    pub(super) async fn begin(targets: &Targets, interval: Duration) -> Result<Self> {
        let all: Vec<_> = targets.each().collect();
        let template = all.first().cloned().context("--addr names no node")?;
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        let mut feed =
            Self { nodes: Vec::new(), interval, template, receiver, sender, tasks: JoinSet::new() };
        if let [one] = all.as_slice() {
            let channel = one.connect_now().await?;
            drop(channel);
            feed.tasks.spawn(list(one.clone(), feed.sender.clone()));
        }
        for target in all {
            feed.watch(target);
        }
        Ok(feed)
    }

    /// Waits for an event and applies it.
    pub(super) async fn changed(&mut self) {
        // This value keeps a sender, so the channel stays open.
        let Some(event) = self.receiver.recv().await else { return };
        match event {
            FeedEvent::Node(addr, now) => {
                if let Some(node) = self.nodes.iter_mut().find(|node| node.addr == addr) {
                    node.update(now);
                }
            }
            FeedEvent::Listed(addresses) => {
                for addr in addresses {
                    self.watch(Target { addr, ..self.template.clone() });
                }
            }
        }
    }

    /// Returns whether every node has sent something since [`Self::mark_read`].
    pub(super) fn complete(&self) -> bool {
        self.nodes.iter().all(|node| node.fresh)
    }

    /// Marks all states as read.
    pub(super) fn mark_read(&mut self) {
        // A node that is away is not expected to send anything soon.
        self.nodes.iter_mut().for_each(|node| node.fresh = matches!(node.now, NodeState::Unreachable(_)));
    }

    /// Returns how often nodes send a message.
    pub(super) const fn interval(&self) -> Duration {
        self.interval
    }

    fn watch(&mut self, target: Target) {
        let known = self.nodes.iter().any(|node| node.addr == target.addr);
        if known || self.nodes.len() >= NODES_MAX {
            return;
        }
        self.nodes.push(WatchedNode::new(target.addr.clone()));
        self.tasks.spawn(follow(target, self.interval, self.sender.clone()));
    }
}

/// Watches one node, repeatedly, until the receiver is gone.
async fn follow(target: Target, interval: Duration, sender: mpsc::Sender<FeedEvent>) {
    let mut pause = PAUSE.0;
    loop {
        let (received, why) = watch(&target, interval, &sender).await;
        if received {
            pause = PAUSE.0;
        }
        let away = FeedEvent::Node(target.addr.clone(), NodeState::Unreachable(format!("{why:#}")));
        if sender.send(away).await.is_err() {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Watches a node. Returns whether it sent anything, and why the stream ended.
async fn watch(
    target: &Target,
    interval: Duration,
    sender: &mpsc::Sender<FeedEvent>,
) -> (bool, anyhow::Error) {
    let mut received = false;
    match listen(target, interval, sender, &mut received).await {
        Err(why) => (received, why),
        Ok(never) => match never {},
    }
}

async fn listen(
    target: &Target,
    interval: Duration,
    sender: &mpsc::Sender<FeedEvent>,
    received: &mut bool,
) -> Result<Infallible> {
    let mut client = AdminServiceClient::new(target.connect_now().await?);
    let request = WatchNodeRequest { interval: Some(prost_types::Duration::try_from(interval)?) };
    let mut messages = target.response(client.watch_node(request)).await?;
    let limit = interval + target.options.answer_limit();
    loop {
        let message = timeout(limit, messages.message()).await;
        let message = message.map_err(|_| anyhow!("{} says nothing for {limit:?}", target.addr))?;
        let message = message.map_err(|status| anyhow!("{:?}: {}", status.code(), message_of(&status)))?;
        let sample = Sample::of(&message.context("the node has ended it")?);
        *received = true;
        sender.send(FeedEvent::Node(target.addr.clone(), NodeState::Reporting(Box::new(sample)))).await?;
    }
}

/// Asks a node periodically for the other nodes, until the receiver is gone.
async fn list(target: Target, sender: mpsc::Sender<FeedEvent>) {
    loop {
        // While it does not answer, the known nodes are watched.
        if let Ok(others) = others(&target).await
            && sender.send(FeedEvent::Listed(others)).await.is_err()
        {
            return;
        }
        sleep(LIST_EVERY).await;
    }
}

async fn others(target: &Target) -> Result<Vec<String>> {
    let mut client = AdminServiceClient::new(target.connect_now().await?);
    let listed = target.response(client.list_nodes(target.request(ListNodesRequest {}))).await?;
    // The node that answers is the first in its list.
    let others = listed.nodes.into_iter().skip(1).map(|node| node.address);
    Ok(others.filter(|address| !address.is_empty()).collect())
}
