//! Nodes over a separate MongoDB, Cassandra and Redis, and bare inserts into the same MongoDB.

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_lab_servers::{
    imported::fill_up_to,
    listener::{listener, port_of},
    redis_server::RedisServer,
    resp::Value,
};
use tonic::transport::Channel;

use super::{inserts::Inserts, load::Times, processes::Processes};
use crate::{
    claims::Plan,
    ratio::count,
    rows::{
        groups::make_group,
        relations::{Keyspace, NodeProcess},
    },
};

/// Groups that are made at the same time.
const AT_ONCE: usize = 32;
/// Connections that callers have to a node, each with fewer calls than a node allows.
const CONNECTIONS: usize = 8;

/// The nodes, and the bare store that they are compared with.
pub(in crate::rows) struct ClusterStage {
    pub(in crate::rows) nodes: Vec<NodeProcess>,
    pub(in crate::rows) inserts: Inserts,
    pub(in crate::rows) keyspace: Keyspace,
    pub(in crate::rows) redis: RedisServer,
    pub(in crate::rows) times: Times,
    /// MongoDB's process id.
    pub(in crate::rows) mongod: u32,
    /// Cassandra's process id.
    pub(in crate::rows) cassandra: u32,
}

impl ClusterStage {
    /// Starts `nodes` nodes, with the users up to an id. `None` if the plan names no servers.
    pub(in crate::rows) async fn start(
        plan: &Plan,
        name: &str,
        nodes: usize,
        users: i64,
    ) -> Result<Option<Self>> {
        let Some(keyspace) = Keyspace::open(plan, name).await? else { return Ok(None) };
        let (mongodb, cql) = (plan.mongodb.as_deref(), plan.cql.as_deref());
        let mongodb = mongodb.context("there was a MongoDB")?;
        let mut stage = Self {
            nodes: Vec::new(),
            inserts: Inserts::open(mongodb, keyspace.name()).await?,
            keyspace,
            // A separate Redis: calls by others would be counted.
            redis: RedisServer::start(&[]).await?,
            times: Times::of(plan),
            mongod: listener(port_of(mongodb)?)?,
            cassandra: listener(port_of(cql.context("there was a Cassandra")?)?)?,
        };
        for _ in 0..nodes {
            stage.add_node(plan).await?;
        }
        if users > 0 {
            fill_up_to(stage.channel(), users).await?;
        }
        Ok(Some(stage))
    }

    pub(in crate::rows) async fn add_node(&mut self, plan: &Plan) -> Result<()> {
        self.nodes.push(self.keyspace.served(plan, Some(&self.redis.uri())).await?);
        Ok(())
    }

    /// All servers that a Kith cluster consists of.
    pub(in crate::rows) fn all(&self) -> Result<Processes> {
        let nodes = self.nodes.iter().map(|node| node.served.id());
        let redis = listener(self.redis.address().port())?;
        Ok(Processes(nodes.chain([self.mongod, self.cassandra, redis]).collect()))
    }

    /// The servers that the bare side runs.
    pub(in crate::rows) fn bare(&self) -> Processes {
        Processes(vec![self.mongod])
    }

    pub(in crate::rows) fn channel(&self) -> Channel {
        self.nodes[0].channel.clone()
    }

    /// Clients for the first node over some connections.
    pub(in crate::rows) async fn channels(&self) -> Result<Vec<Channel>> {
        let mut channels = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            channels.push(self.nodes[0].served.connect().await?);
        }
        Ok(channels)
    }

    /// Makes groups from numbers and users. The first user in each is the owner.
    pub(in crate::rows) async fn make_groups(&self, groups: &[(i64, Vec<i64>)]) -> Result<()> {
        let channel = self.channel();
        let making = stream::iter(groups).map(async |(id, users)| make_group(&channel, *id, users).await);
        making.buffer_unordered(AT_ONCE).try_collect().await
    }

    /// Script calls that Redis has counted.
    pub(in crate::rows) async fn scripts(&self) -> Result<f64> {
        let stats = self.redis.ask(&["INFO", "commandstats"]).await?;
        Ok(script_calls(&stats.text().context("INFO is no text")?))
    }

    /// Entries that the change logs for all epochs have got: a change script adds an entry.
    pub(in crate::rows) async fn changes(&self) -> Result<f64> {
        let keys = self.redis.ask(&["KEYS", "*}:log:*"]).await?.texts();
        ensure!(!keys.is_empty(), "there is no log of changes");
        let mut entries = 0.0;
        for key in &keys {
            entries += entries_added(&self.redis.ask(&["XINFO", "STREAM", key]).await?)?;
        }
        Ok(entries)
    }

    pub(in crate::rows) async fn remove(self, plan: &Plan) -> Result<()> {
        drop(self.nodes);
        self.inserts.remove().await?;
        self.keyspace.remove(plan).await
    }
}

/// Entries that a stream has ever got, in the answer to `XINFO STREAM`.
fn entries_added(stream: &Value) -> Result<f64> {
    let Value::List(parts) = stream else { bail!("a log is not described") };
    let is_name = |part: &Value| part.text().as_deref() == Some("entries-added");
    match parts.iter().position(is_name).and_then(|at| parts.get(at + 1)) {
        Some(Value::Number(added)) => Ok(count(usize::try_from(*added)?)),
        added => bail!("a log has not counted its entries: {added:?}"),
    }
}

/// Script calls in `INFO commandstats`.
fn script_calls(stats: &str) -> f64 {
    let calls = |name: &str| -> f64 {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or_default()
    };
    ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"].into_iter().map(calls).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_call_scripts_are_counted() {
        let stats = "# Commandstats\r\ncmdstat_get:calls=7,usec=9\r\ncmdstat_evalsha:calls=12,usec=9,usec_per_call=1\r\n\
            cmdstat_eval:calls=1,usec=3\r\ncmdstat_evalsha_ro:calls=30,usec=3\r\n";
        assert_eq!(script_calls(stats), 43.0);
        assert_eq!(script_calls(""), 0.0);
    }

    #[test]
    fn entries_of_a_log_are_read_from_its_answer() {
        let text = |text: &str| Value::Text(text.into());
        let parts = [text("length"), Value::Number(2), text("entries-added"), Value::Number(7)];
        assert_eq!(entries_added(&Value::List(parts.to_vec())).unwrap(), 7.0);
        assert!(entries_added(&Value::List(parts[..2].to_vec())).is_err());
    }
}
