//! Detects nodes with an older schema during a rolling upgrade.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use kith_cache::{Node, remote::SharedBackend};
use kith_service::schema_agreement::SchemaAgreement;
use kith_store::{Coordination, StoreError};
use tokio::time::sleep;

use super::{NodeInfo, watch::ReadyzRemark};
use crate::health::Reporter;

/// Names the lease and the mark.
const AGREED: &str = "schema_agreed";
/// Time limit for setting the mark, which takes one command.
const LEASE_LASTS: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(2);
/// How often to check whether the node follows.
const UNTRUSTED: Duration = Duration::from_millis(50);
const OLDER: &str =
    "a node of an older version is registered: messages are not available until all nodes are upgraded";

/// Determines whether all nodes know this node's schema. Cheap to clone.
///
/// It checks until this is true once, and then records it in the store for all nodes: a program that does not
/// know the store's schema does not start, so only nodes that started before the migration can be older.
#[derive(Clone, Debug)]
pub(super) struct SchemaWatch {
    pub(super) coordination: Arc<dyn Coordination>,
    pub(super) shared: Arc<dyn SharedBackend>,
    pub(super) node: Node,
    /// This node's info with its schema.
    pub(super) node_info: NodeInfo,
    pub(super) agreement: SchemaAgreement,
}

impl SchemaWatch {
    /// Checks until all nodes know the schema, and reports while a node does not.
    pub(super) async fn watch(self, health: Reporter) {
        let mut remark = ReadyzRemark::new(health, "older_nodes");
        while !self.is_recorded().await.unwrap_or(false) {
            // Before the node follows, its epoch's registry need not have the other nodes.
            while !self.node.trusted() {
                sleep(UNTRUSTED).await;
            }
            if let Some(is_reached) = self.all_nodes_know_it().await {
                self.agreement.set(is_reached);
                remark.set((!is_reached).then(|| OLDER.to_owned()), SystemTime::now());
                if is_reached && self.record().await.unwrap_or(false) {
                    return;
                }
            }
            sleep(EVERY).await;
        }
        self.agreement.set(true);
        remark.set(None, SystemTime::now());
    }

    /// Whether all registered nodes know the schema. `None`: the registry does not answer.
    async fn all_nodes_know_it(&self) -> Option<bool> {
        let peers = self.shared.peers(self.node.epoch()).await.ok()?;
        Some(!peers.iter().any(|peer| NodeInfo::decode(&peer.about).is_older_than(&self.node_info)))
    }

    async fn is_recorded(&self) -> Result<bool, StoreError> {
        let mark = self.coordination.mark(AGREED).await?;
        Ok(mark.is_some_and(|mark| mark >= self.schema_mark()))
    }

    async fn record(&self) -> Result<bool, StoreError> {
        let holder = &self.node_info.id;
        if !self.coordination.lease(AGREED, holder, LEASE_LASTS).await? {
            return Ok(false);
        }
        let recorded = self.coordination.set_mark(AGREED, holder, &self.schema_mark()).await?;
        self.coordination.release(AGREED, holder).await?;
        Ok(recorded)
    }

    /// The schema as a mark. Later schemas are greater as bytes, too.
    fn schema_mark(&self) -> Vec<u8> {
        self.node_info.schema.to_be_bytes().to_vec()
    }
}
