//! The users' inboxes, for this node's domains.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use kith_cache::remote::SharedError;
use kith_delivery::{InboxKeeper, NodeWake, Note};
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
            this.publish_all(noted).await;
        });
    }

    /// Sends a signal to the users among these who receive now, in the background. Signals may be lost.
    pub(super) fn signal(&self, users: Vec<UserId>, signal: Bytes) {
        if users.is_empty() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let sent = users.into_iter().map(async |user| this.keeper.signal(user, signal.clone()).await);
            this.publish_all(sent).await;
        });
    }

    async fn publish_all(
        &self,
        written: impl Iterator<Item = impl Future<Output = Result<Vec<NodeWake>, SharedError>>>,
    ) {
        let mut written = stream::iter(written).buffer_unordered(WRITTEN_AT_ONCE);
        while let Some(wakes) = written.next().await {
            match wakes {
                Ok(wakes) => self.publish(wakes),
                Err(_) => tracing::debug!("a note or a signal is lost"),
            }
        }
    }
}
