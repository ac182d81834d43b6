//! A database's lease: held by a single node, or by the nodes that share one Redis under one prefix. Other
//! nodes would not receive changes.

use std::{sync::Arc, time::Duration};

use kith_store::{Coordination, StoreError, Stores};
use tokio::time::sleep;

use super::NodeKeys;
use crate::config::{Backend, Config};

/// The lease's name. Nodes that share hold it together.
const LEASE: &str = "single_node";
/// How long a lease outlives a node that was killed.
pub(super) const LASTS: Duration = Duration::from_secs(6);
/// How often it is renewed: two may fail.
pub(super) const RENEWED: Duration = Duration::from_secs(2);
/// How long a node waits for another node's lease, if that node may be dead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(8);

/// The lease that a node has on its database.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseLease {
    coordination: Arc<dyn Coordination>,
    holder: String,
    /// Whether other nodes may hold it too.
    shared: bool,
}

impl DatabaseLease {
    /// The lease for a node with this configuration. `None` if no other node can reach its data. `keys`: set
    /// for nodes that share Redis. The holder includes the database's id: nodes that still run after their
    /// database was dropped share nothing with nodes that start over the new database.
    pub(crate) fn of(config: &Config, stores: &Stores, keys: Option<&NodeKeys>) -> Option<Self> {
        if config.store.backend == Backend::Sqlite {
            return None;
        }
        let holder = match keys {
            Some(keys) => format!("redis:{}:{:016x}", config.redis.prefix, keys.database_id()),
            None => format!("alone:{}", uuid::Uuid::new_v4()),
        };
        let coordination = Arc::clone(&stores.coordination);
        Some(Self { coordination, holder, shared: keys.is_some() })
    }

    /// The lease for a program that is no node and lets no node use the database meanwhile.
    pub(crate) fn alone(stores: &Stores) -> Self {
        let coordination = Arc::clone(&stores.coordination);
        Self { coordination, holder: format!("alone:{}", uuid::Uuid::new_v4()), shared: false }
    }

    /// Takes or renews it. Returns false if the database is held by others.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) async fn acquire(&self) -> Result<bool, StoreError> {
        self.coordination.lease(LEASE, &self.holder, LASTS).await
    }

    /// Renews it until another node has it. While the store is unavailable no node can take it.
    pub(crate) async fn keep(&self) {
        loop {
            sleep(RENEWED).await;
            if let Ok(false) = self.acquire().await {
                return;
            }
        }
    }

    /// Releases it, so that the next node need not wait. A shared lease is kept.
    pub(crate) async fn release(&self) {
        if !self.shared {
            // The lease expires by itself.
            drop(self.coordination.release(LEASE, &self.holder).await);
        }
    }
}
