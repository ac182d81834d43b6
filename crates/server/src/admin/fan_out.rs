//! Requests to the other nodes: all at one time, each for a bounded time. Nodes that do not answer are named.

use futures::future::join_all;
use kith_proto::admin::v1 as wire;
use tonic::{Response, Status};

use crate::cluster::{Admin, Cluster, ListedNode, NodeInfo};

/// The error for a node that is not called.
const UNPROVEN: &str = "not called: its record in Redis does not prove that it is a node of this version";

/// Another node's answer.
pub(super) struct Answer<T> {
    pub(super) node_info: NodeInfo,
    /// The error, if there is no answer.
    pub(super) result: Result<T, String>,
}

/// Asks the other nodes. Returns their answers by node id, and whether they are complete: the registry may
/// not answer. `only` restricts the question to the node with this id.
pub(super) async fn ask<T, F>(
    cluster: &Cluster,
    only: Option<&str>,
    call: &impl Fn(Admin) -> F,
) -> (Vec<Answer<T>>, bool)
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let Ok(mut others) = cluster.others().await else { return (Vec::new(), false) };
    others.retain(|other| only.is_none_or(|id| other.node_info.id == id));
    others.sort_by(|one, other| one.node_info.id.cmp(&other.node_info.id));
    let asked = others.into_iter().map(|ListedNode { node_info, is_proven }| async move {
        let result = if is_proven { one(cluster, &node_info, call).await } else { Err(UNPROVEN.to_owned()) };
        Answer { node_info, result }
    });
    (join_all(asked).await, true)
}

async fn one<T, F>(cluster: &Cluster, node_info: &NodeInfo, call: &impl Fn(Admin) -> F) -> Result<T, String>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let limit = cluster.calls().timeout();
    let asked = async {
        let admin = cluster
            .calls()
            .admin(node_info)
            .await
            .map_err(|_| format!("not reached at {}", node_info.address))?;
        let answer = call(admin).await;
        answer.map(Response::into_inner).map_err(|status| format!("refused: {:?}", status.code()))
    };
    let late = |_| Err(format!("no answer within {}", humantime::format_duration(limit)));
    tokio::time::timeout(limit, asked).await.unwrap_or_else(late)
}

impl Answer<wire::InspectKeyResponse> {
    pub(super) fn into_copies(self) -> wire::NodeCopies {
        let NodeInfo { id, address, .. } = self.node_info;
        match self.result {
            Ok(answer) => {
                wire::NodeCopies { node_id: id, address, copies: answer.copies, ..Default::default() }
            }
            Err(unanswered) => wire::NodeCopies { node_id: id, address, unanswered, ..Default::default() },
        }
    }
}

impl<T> Answer<T> {
    /// Whether it succeeded.
    pub(super) fn into_outcome(self) -> wire::NodeAnswer {
        let NodeInfo { id, address, .. } = self.node_info;
        wire::NodeAnswer { node_id: id, address, unanswered: self.result.err().unwrap_or_default() }
    }
}
