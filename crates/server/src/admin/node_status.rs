//! A node's status: its state, its calls, its store.

use std::{sync::Arc, time::Duration};

use kith_store::{Migrations, NodeStore, Stores};
use tokio::time::timeout;

use crate::{cluster::CallersDigest, edge::Load, health::Reporter};

/// How long the store may take to answer. Shorter than the limit for the operator's call.
const STORE_LIMIT: Duration = Duration::from_secs(1);

/// Reads a running node's state. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    health: Reporter,
    load: Load,
    store: Arc<dyn NodeStore>,
    migrations: Arc<dyn Migrations>,
    callers: Option<CallersDigest>,
}

/// The store's answer.
#[derive(Debug, Default)]
pub(super) struct StoreStatus {
    /// Whether it answered; if not, the rest is empty.
    pub(super) answers: bool,
    /// Number and name for each migration that has been applied.
    pub(super) applied: Vec<String>,
    /// How many migrations are pending.
    pub(super) pending: usize,
}

impl NodeStatus {
    /// Creates it for the node with this health and these calls, over its stores.
    #[must_use]
    pub fn new(health: Reporter, load: Load, stores: &Stores) -> Self {
        let (store, migrations) = (Arc::clone(&stores.node), Arc::clone(&stores.migrations));
        Self { health, load, store, migrations, callers: None }
    }

    /// Also shows which callers the node knows.
    #[must_use]
    pub(crate) fn with_callers(self, callers: Option<CallersDigest>) -> Self {
        Self { callers, ..self }
    }

    /// How many bytes the data file can still grow by; `None`: the store is no file, or the system does not
    /// say.
    pub(super) fn free_bytes(&self) -> Option<i64> {
        self.health.store_room().map(|free| i64::try_from(free).unwrap_or(i64::MAX))
    }

    /// A digest over the callers that the node knows now. Empty if it has none.
    pub(super) fn callers(&self) -> String {
        self.callers.as_ref().map_or_else(String::new, CallersDigest::now)
    }

    pub(super) fn state(&self) -> &'static str {
        self.health.state().name()
    }

    /// Whether the relation store answers, according to the node's checks. Empty if this backend has none.
    pub(super) fn relations(&self, backend: &str) -> &'static str {
        if backend != "cluster" {
            return "";
        }
        let remarks = self.health.remarks();
        let has = |reason: &str| remarks.iter().any(|remark| remark.reason == reason);
        if has("relations_away") {
            "away"
        } else if has("relations_unconfigured") {
            "unconfigured"
        } else {
            "answers"
        }
    }

    pub(super) const fn load(&self) -> &Load {
        &self.load
    }

    /// Asks the store. Its unavailability is a valid result.
    pub(super) async fn store(&self) -> StoreStatus {
        let asked = async {
            self.store.ping(STORE_LIMIT).await.ok()?;
            self.migrations.status().await.ok()
        };
        let Ok(Some(all)) = timeout(STORE_LIMIT, asked).await else { return StoreStatus::default() };
        let (applied, pending): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.applied.is_some());
        let applied = applied.iter().map(|one| format!("{:04} {}", one.number, one.name)).collect();
        StoreStatus { answers: true, applied, pending: pending.len() }
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use tonic_health::pb::health_server::HealthServer;

    use super::*;
    use crate::{
        config::LimitsConfig,
        edge::{Edge, Routes},
    };

    #[tokio::test]
    async fn a_store_that_is_away_is_an_answer_too() {
        let file = kith_store_sqlite::open_in_memory().await.unwrap();
        let edge = Edge::new(Routes::default(), &LimitsConfig::default());
        let node_status = NodeStatus::new(Reporter::new(), edge.load(), &file.stores());
        let there = node_status.store().await;
        assert!(there.answers && there.pending == 0 && there.applied[0].starts_with("0001 "), "{there:?}");
        file.close().await;
        let away = node_status.store().await;
        assert!(!away.answers && away.applied.is_empty(), "{away:?}");
        assert_eq!(node_status.free_bytes(), None);
        node_status.health.set_store_room(Some(7));
        assert_eq!(node_status.free_bytes(), Some(7));
    }

    #[test]
    fn load_handle_does_not_keep_services_alive() {
        let service = Arc::new(Reporter::new());
        let edge = Edge::new(Routes::default(), &LimitsConfig::default());
        let held = edge.load();
        edge.open(Routes::new(HealthServer::from_arc(Arc::clone(&service))));
        drop(edge);
        assert_eq!((Arc::strong_count(&service), held.in_flight()), (1, 0));
    }
}
