use anyhow::Result;

use super::{RedisServer, line};
use crate::child::free_port;

/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// Nodes of it; fewer have no majority without one of them.
const NODES: usize = 3;

/// A Redis Cluster of three, each with a third of the slots and without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one and waits until each node finds it in order.
    ///
    /// # Errors
    /// As [`RedisServer::start`], or when the nodes do not find each other.
    pub async fn start() -> Result<Self> {
        let mut nodes = Vec::with_capacity(NODES);
        for _ in 0..NODES {
            nodes.push(node().await?);
        }
        for (at, node) in nodes.iter().enumerate() {
            let (first, last) = (SLOTS * at / NODES, SLOTS * (at + 1) / NODES - 1);
            node.ask(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await?;
            node.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]).await?;
        }
        for other in &nodes[1..] {
            let bus = other.ask(&["CONFIG", "GET", "cluster-port"]).await?;
            let super::Value::List(bus) = bus else { anyhow::bail!("the node does not tell its port") };
            let bus = bus.get(1).and_then(super::Value::text).unwrap_or_default();
            nodes[0].ask(&["CLUSTER", "MEET", "127.0.0.1", &other.port.to_string(), &bus]).await?;
        }
        for node in &mut nodes {
            node.until("find its cluster in order", in_order).await?;
        }
        Ok(Self { nodes })
    }

    /// Its nodes; the first has the lowest slots.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The address of one of the nodes for a client; it learns of the others there.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("redis-cluster://{}", self.nodes[0].address())
    }
}

async fn node() -> Result<RedisServer> {
    let bus = free_port()?.to_string();
    let options = [("cluster-enabled", "yes"), ("cluster-node-timeout", "2000"), ("cluster-port", &bus)];
    RedisServer::start(&options).await
}

async fn in_order(node: &RedisServer) -> Result<bool> {
    let info = node.ask(&["CLUSTER", "INFO"]).await?;
    let says = |name, value: &str| line(&info, name).is_some_and(|said| said == value);
    Ok(says("cluster_state", "ok") && says("cluster_known_nodes", &NODES.to_string()))
}
