//! The users' inboxes, for this node's domains.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, stream};
use kith_delivery::{InboxKeeper, NodeWake, Note, Wake};
use kith_store::{NodeName, UserId};
use prost::bytes::Bytes;

/// Inboxes that are written at the same time for one event.
const WRITTEN_AT_ONCE: usize = 16;

/// Users who receive, each with the nodes of its receivers.
pub(crate) type ReceivingNodes = BTreeMap<UserId, Vec<NodeName>>;

/// The users' inboxes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Inboxes {
    pub(super) keeper: Arc<dyn InboxKeeper>,
    /// This node's name.
    pub(super) node: NodeName,
}

impl Inboxes {
    /// Creates it over a keeper. `node`: this node's name, new for each start.
    #[must_use]
    pub fn new(keeper: Arc<dyn InboxKeeper>, node: NodeName) -> Self {
        Self { keeper, node }
    }

    /// Wakes nodes, in the background. A lost wake is compensated by the receivers' sweep.
    pub(super) fn publish(&self, wakes: Vec<NodeWake>) {
        if wakes.is_empty() {
            return;
        }
        let keeper = Arc::clone(&self.keeper);
        tokio::spawn(async move {
            if keeper.publish(&wakes).await.is_err() {
                tracing::debug!("nodes could not be woken; their receivers read again soon");
            }
        });
    }

    /// Enters a note into each user's inbox, in the background. Notes may be lost.
    pub(super) fn note(&self, users: Vec<UserId>, note: Note) {
        if users.is_empty() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let noted = users.into_iter().map(async |user| this.keeper.note(user, note).await);
            let mut noted = stream::iter(noted).buffer_unordered(WRITTEN_AT_ONCE);
            while let Some(wakes) = noted.next().await {
                match wakes {
                    Ok(wakes) => this.publish(wakes),
                    Err(_) => tracing::debug!("a note is lost"),
                }
            }
        });
    }

    /// Sends the same signal to the users among these who receive now, in the background. Signals may be
    /// lost.
    pub(super) fn signal(&self, users: Vec<UserId>, signal: &Bytes) {
        if users.is_empty() {
            return;
        }
        let (this, signal) = (self.clone(), signal.clone());
        tokio::spawn(async move {
            match this.keeper.receiving(&users).await {
                Ok(nodes) => this.signal_at(&nodes, |_| Some(signal.clone())),
                Err(_) => tracing::debug!("signals are lost"),
            }
        });
    }

    /// Sends these users, who receive at these nodes, their signals, in the background. Signals may be lost.
    pub(super) fn signal_at(&self, nodes: &ReceivingNodes, signal_of: impl Fn(UserId) -> Option<Bytes>) {
        let mut wakes = Vec::new();
        for (user, nodes) in nodes {
            let Some(signal) = signal_of(*user) else { continue };
            let wake = Wake::Signal { user: *user, signal };
            wakes.extend(nodes.iter().map(|node| NodeWake { node: node.clone(), wake: wake.clone() }));
        }
        self.publish(wakes);
    }
}
