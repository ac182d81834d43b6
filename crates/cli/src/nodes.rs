//! `kith nodes`: lists a cluster's nodes, as one node knows them.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use kith_proto::admin::v1::{ListNodesRequest, NodeInfo, admin_service_client::AdminServiceClient};
use serde::Serialize;

use super::{
    Common, FAILED, OK,
    client::Target,
    output::{Report, note},
};

/// Which node to ask.
#[derive(Debug, clap::Args)]
#[command(after_help = "The node that was asked is the first one.\n\
                        Exit codes: 0 these are all, 1 there may be more: Redis does not answer, 2 the node does not answer.")]
pub(super) struct NodesOptions {
    #[command(flatten)]
    target: Target,
}

/// Asks a node for the nodes. Fails if it does not answer.
pub(super) async fn run(common: &Common, arguments: &NodesOptions) -> Result<u8> {
    let target = &arguments.target;
    let mut client = AdminServiceClient::new(target.connect().await?);
    let listed = target.response(client.list_nodes(target.request(ListNodesRequest {}))).await?;
    common.output.print(&listed.nodes.iter().map(row).collect::<Vec<_>>())?;
    if !listed.complete {
        note("kith: Redis does not answer: there may be more nodes");
        return Ok(FAILED);
    }
    Ok(OK)
}

#[derive(Serialize)]
struct NodeRow {
    node_id: String,
    address: String,
    version: String,
    epoch: i64,
    applied: i64,
    /// The time since it was last heard; absent for the node that was asked.
    heard_ms: Option<u128>,
    uptime_seconds: Option<u64>,
    /// Equal on nodes with the same callers; empty: none, or not known.
    callers_digest: String,
}

fn row(node: &NodeInfo) -> NodeRow {
    let last_heard = node.last_heard.and_then(|age| Duration::try_from(age).ok());
    let started = node.start_time.and_then(|time| SystemTime::try_from(time).ok());
    NodeRow {
        node_id: node.node_id.clone(),
        address: node.address.clone(),
        version: node.version.clone(),
        epoch: node.epoch,
        applied: node.applied,
        heard_ms: last_heard.map(|age| age.as_millis()),
        // The uptime is by this machine's clock.
        uptime_seconds: started.and_then(|started| started.elapsed().ok()).map(|uptime| uptime.as_secs()),
        callers_digest: node.callers_digest.clone(),
    }
}

impl Report for NodeRow {
    const COLUMNS: &'static [&'static str] =
        &["node", "address", "version", "epoch", "applied", "heard", "uptime", "callers"];

    fn row(&self) -> Vec<String> {
        let uptime = |seconds: u64| {
            humantime::format_duration(Duration::from_secs(seconds)).to_string().replace(' ', "")
        };
        vec![
            self.node_id.clone(),
            self.address.clone(),
            self.version.clone(),
            self.epoch.to_string(),
            self.applied.to_string(),
            self.heard_ms.map_or_else(String::new, |ms| format!("{ms}ms")),
            self.uptime_seconds.map_or_else(String::new, uptime),
            self.callers_digest.clone(),
        ]
    }
}
