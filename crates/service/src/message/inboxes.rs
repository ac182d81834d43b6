//! The users' inboxes, for this node's domains.

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, stream};
use kith_delivery::{InboxKeeper, NodeWake, Note, Wake};
use kith_store::{NodeName, UserId};
use prost::bytes::Bytes;

/// Inboxes that are written at the same time for one event.
const WRITTEN_AT_ONCE: usize = 16;

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
        self.signal_each(users.into_iter().map(|user| (user, signal.clone())).collect());
    }

    /// Sends each user among these who receives now its signal, in the background. Signals may be lost.
    pub(super) fn signal_each(&self, signals: BTreeMap<UserId, Bytes>) {
        if signals.is_empty() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let users: Vec<_> = signals.keys().copied().collect();
            match this.keeper.receiving(&users).await {
                Ok(nodes) => this.publish(wakes_of(signals, &nodes)),
                Err(_) => tracing::debug!("signals are lost"),
            }
        });
    }
}

/// Returns the wakes that bring each user's signal to the nodes of its receivers.
fn wakes_of(mut signals: BTreeMap<UserId, Bytes>, nodes: &BTreeMap<UserId, Vec<NodeName>>) -> Vec<NodeWake> {
    let mut wakes = Vec::new();
    for (user, nodes) in nodes {
        let Some(signal) = signals.remove(user) else { continue };
        let wake = Wake::Signal { user: *user, signal };
        wakes.extend(nodes.iter().map(|node| NodeWake { node: node.clone(), wake: wake.clone() }));
    }
    wakes
}
