//! The admin service's view of its node. In single-node mode there is no cluster and no canary, and the same
//! calls answer about this node alone.

use std::{sync::Arc, time::Duration};

use kith_cache::{Node, remote::Epochs as _};
use kith_proto::admin::v1 as wire;
use kith_service::{
    error::{Error, Reason},
    rpc::versions::wire_time,
};
use kith_store::Timestamp;

use super::{ConversationLogs, NodeFacts, convert::signed};
use crate::{
    build_info,
    cluster::{
        Cluster, NodeInfo, StoreEpochs,
        observer::{CanaryRecord, ObserverCounts},
    },
};

/// How long a new epoch is waited for on the node that began it.
const FOLLOWED: Duration = Duration::from_secs(2);

/// A node's tiers, its epoch, and the other nodes if there are some. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AdminContext {
    /// This node's tiers.
    pub(crate) node: Node,
    pub(crate) epochs: StoreEpochs,
    /// The stored conversation logs.
    pub(crate) logs: ConversationLogs,
    /// The other nodes, in a cluster.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// The canary, in a cluster.
    pub(crate) canary: Option<CanaryRecord>,
    /// This node's findings about them, in a cluster.
    pub(crate) observed: Option<Arc<ObserverCounts>>,
}

impl AdminContext {
    /// Returns the nodes that the registry lists. While the registry does not answer, returns this node
    /// alone, as incomplete.
    pub(super) async fn nodes(&self, facts: &NodeFacts, callers_digest: String) -> wire::ListNodesResponse {
        let mut nodes = vec![wire::NodeInfo { callers_digest, ..self.own_info(facts) }];
        let Some(cluster) = &self.cluster else { return wire::ListNodesResponse { nodes, complete: true } };
        let Ok(peers) = cluster.peers().await else {
            return wire::ListNodesResponse { nodes, complete: false };
        };
        let epoch = signed(self.node.epoch());
        let others = peers.iter().filter(|peer| peer.node != cluster.number());
        let mut others: Vec<_> = others
            .map(|peer| wire::NodeInfo {
                epoch,
                applied: signed(peer.applied),
                last_heard: Some(kith_service::rpc::versions::wire_duration(peer.silent)),
                ..wire_node_info(&NodeInfo::decode(&peer.about))
            })
            .collect();
        others.sort_by(|one, other| one.node_id.cmp(&other.node_id));
        nodes.append(&mut others);
        wire::ListNodesResponse { nodes, complete: true }
    }

    fn own_info(&self, facts: &NodeFacts) -> wire::NodeInfo {
        let (epoch, applied) = (signed(self.node.epoch()), signed(self.node.applied()));
        let info = match &self.cluster {
            Some(cluster) => wire_node_info(cluster.node_info()),
            None => wire::NodeInfo {
                node_id: facts.node_id.clone(),
                version: build_info::FULL.to_owned(),
                start_time: Some(wire_time(facts.started)),
                ..Default::default()
            },
        };
        wire::NodeInfo { epoch, applied, ..info }
    }

    /// The canary as a caller on this node would see it.
    ///
    /// # Errors
    /// If neither the tiers nor the store have an answer.
    pub(super) async fn canary(&self) -> Result<wire::ReadCanaryResponse, Error> {
        let read = async {
            match &self.canary {
                Some(canary) => canary.read().await,
                None => Ok(0),
            }
        };
        let (version, trusted) = trusted_throughout(&self.node, read).await;
        Ok(wire::ReadCanaryResponse { version: signed(version?), trusted })
    }

    /// Raises the epoch, and waits for a limited time until this node is in it.
    ///
    /// # Errors
    /// STORE_UNAVAILABLE if the store does not answer.
    pub(super) async fn start_epoch(&self) -> Result<wire::StartEpochResponse, Error> {
        let away = |_| Error::new(Reason::StoreUnavailable, "the store is not available");
        let epoch = self.epochs.raise_present().await.map_err(away)?;
        let followed = match &self.cluster {
            Some(cluster) => cluster.moves_to(epoch, FOLLOWED).await,
            None => {
                self.node.adopt(epoch, self.node.applied());
                true
            }
        };
        Ok(wire::StartEpochResponse { epoch: signed(epoch), followed })
    }
}

/// The output of this read, and whether the node trusted its memory before and after it. A node that was
/// paused may return an old copy, and trust its memory a moment later.
pub(super) async fn trusted_throughout<T>(node: &Node, read: impl Future<Output = T>) -> (T, bool) {
    let before = node.trusted();
    let output = read.await;
    (output, before && node.trusted())
}

fn wire_node_info(node_info: &NodeInfo) -> wire::NodeInfo {
    wire::NodeInfo {
        node_id: node_info.id.clone(),
        address: node_info.address.clone(),
        version: node_info.version.clone(),
        callers_digest: node_info.callers.clone(),
        start_time: (node_info.started != Timestamp::default()).then(|| wire_time(node_info.started)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use kith_cache::{Moment, NodeConfig};

    use super::*;

    #[tokio::test]
    async fn trust_that_begins_in_a_read_is_none() {
        let node = Node::new(NodeConfig { trusted_until: Moment::default(), ..NodeConfig::local(1) });
        let trust = async { node.trust_until(Moment::NEVER) };
        assert!(!trusted_throughout(&node, trust).await.1);
        assert!(trusted_throughout(&node, async {}).await.1);
        let distrust = async { node.trust_until(Moment::default()) };
        assert!(!trusted_throughout(&node, distrust).await.1);
    }
}
