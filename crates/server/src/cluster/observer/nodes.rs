//! The other nodes as the observer reads them, through their admin services. Only nodes with a verified
//! record are called.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::join_all;
use kith_proto::admin::v1 as wire;
use parking_lot::Mutex;
use tokio::time::timeout;
use tonic::{Response, Status};

use super::ask::{Nodes, Peer, PeerCopy};
use crate::cluster::{Admin, Cluster, NodeInfo};

/// Replaces the id of the node that is called.
const SELF: &str = "self";
const MEMORY: &str = "memory";

/// The nodes in the cluster, each with a persistent connection.
#[derive(Debug)]
pub(super) struct ClusterNodes {
    cluster: Arc<Cluster>,
    /// Connections by node id, only for nodes in the registry.
    connections: Mutex<HashMap<String, Admin>>,
}

impl ClusterNodes {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, connections: Mutex::default() }
    }

    /// `None` if it cannot be reached at its address.
    async fn peer(&self, node_info: &NodeInfo) -> Option<Arc<dyn Peer>> {
        let limit = self.cluster.calls().timeout();
        let known = self.connections.lock().get(&node_info.id).cloned();
        let admin = match known {
            Some(admin) => admin,
            None => {
                let admin = timeout(limit, self.cluster.calls().admin(node_info)).await.ok()?.ok()?;
                self.connections.lock().insert(node_info.id.clone(), admin.clone());
                admin
            }
        };
        Some(Arc::new(ClusterPeer { admin, limit }))
    }
}

#[async_trait]
impl Nodes for ClusterNodes {
    fn can_judge(&self) -> bool {
        self.cluster.node().trusted() && self.cluster.waiting() == 0
    }

    async fn others(&self) -> Vec<Arc<dyn Peer>> {
        let listed = self.cluster.others().await.unwrap_or_default();
        let infos: Vec<NodeInfo> =
            listed.into_iter().filter(|listed| listed.is_proven).map(|listed| listed.node_info).collect();
        self.connections.lock().retain(|id, _| infos.iter().any(|node_info| node_info.id == *id));
        join_all(infos.iter().map(|node_info| self.peer(node_info))).await.into_iter().flatten().collect()
    }
}

struct ClusterPeer {
    admin: Admin,
    /// How long a call may take.
    limit: Duration,
}

impl ClusterPeer {
    async fn answer<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Option<T> {
        timeout(self.limit, call).await.ok()?.ok().map(Response::into_inner)
    }
}

#[async_trait]
impl Peer for ClusterPeer {
    async fn canary(&self) -> Option<PeerCopy> {
        let mut admin = self.admin.clone();
        let answer = self.answer(admin.read_canary(wire::ReadCanaryRequest {})).await?;
        Some(PeerCopy { version: Some(answer.version.unsigned_abs()), trusted: answer.trusted })
    }

    async fn held(&self, namespace: &str, key: &str) -> Option<PeerCopy> {
        let mut admin = self.admin.clone();
        let key = format!("{namespace}/{key}");
        let request = wire::InspectKeyRequest { key, node_id: SELF.to_owned(), memory_only: true };
        let answer = self.answer(admin.inspect_key(request)).await?;
        let copy = answer.copies.iter().find(|copy| copy.tier == MEMORY)?;
        Some(PeerCopy {
            version: is_served(copy).then_some(copy.version.unsigned_abs()),
            trusted: answer.trusted,
        })
    }
}

/// Whether there is a copy that has not expired.
fn is_served(copy: &wire::TierCopy) -> bool {
    let expired = copy.ttl.is_none_or(|ttl| ttl.seconds <= 0 && ttl.nanos <= 0);
    copy.presence() != wire::Presence::None && !expired
}
