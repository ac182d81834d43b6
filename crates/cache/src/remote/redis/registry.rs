//! The registry in Redis that lists live nodes. A probe updates this node's entry and returns the log's end;
//! it fails unless the required replicas have received it.

use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Key, Value},
};
use futures::future::try_join;

use super::{RedisShared, failures::meaning, link::server_name, scripts::run, values};
use crate::{
    api::clock::milliseconds,
    remote::shared::{Heartbeat, Peer, ProbeAnswer, Registry, SharedError},
};

/// One probe in this many removes silent nodes, which costs a read of each node.
const FORGET_EVERY: u64 = 16;

#[async_trait::async_trait]
impl Registry for RedisShared {
    async fn enter(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.probe_for(epoch, heartbeat, "enters").await
    }

    async fn probe(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError> {
        self.probe_for(epoch, heartbeat, "").await
    }

    async fn peers(&self, epoch: u64) -> Result<Vec<Peer>, SharedError> {
        let arguments = vec![self.wakes(), values::duration(self.options.retention.silent)];
        let peers = run(&self.control.client, &self.scripts.peers, self.node_keys(epoch), arguments).await;
        let mut peers = values::peers(peers.map_err(|error| meaning(&error))?)?;
        peers.sort_unstable_by_key(|peer| peer.node);
        Ok(peers)
    }

    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError> {
        let arguments = vec![self.wakes(), values::number(node)];
        let left = run(&self.control.client, &self.scripts.leave, self.node_keys(epoch), arguments).await;
        left.map(drop).map_err(|error| meaning(&error))
    }

    fn accept(&self, server: &str) {
        self.accept_server(server);
    }
}

impl RedisShared {
    pub(super) fn epoch_keys(&self, epoch: u64) -> [Key; 3] {
        [self.names.log(epoch), self.names.nodes(epoch), self.names.highest_epoch()]
    }

    fn node_keys(&self, epoch: u64) -> Vec<Key> {
        vec![self.names.nodes(epoch), self.names.abouts(epoch)]
    }

    async fn probe_for(
        &self,
        epoch: u64,
        heartbeat: &Heartbeat,
        enters: &str,
    ) -> Result<ProbeAnswer, SharedError> {
        let proof = self.proof_link().await;
        let client = proof.client();
        let mut arguments = self.probe_arguments(epoch, heartbeat);
        arguments.push(Value::from(enters));
        let keys = self.epoch_keys(epoch).into_iter().chain([self.names.abouts(epoch)]).collect();
        let probe = run(client, &self.scripts.probe, keys, arguments);
        let (answer, name) = if client.is_clustered() {
            let both = try_join(probe, server_name(client)).await;
            both.map(|(answer, name)| (answer, Some(name)))
        } else {
            probe.await.map(|answer| (answer, None))
        }
        .map_err(|error| self.failure(&error))?;
        self.await_replicas(client, epoch).await?;
        let mut probed = read_probe_answer(answer)?;
        if let Some(name) = name {
            probed.server = name;
        }
        if probed.server.is_empty() { Err(SharedError::Unexpected) } else { Ok(probed) }
    }

    fn probe_arguments(&self, epoch: u64, heartbeat: &Heartbeat) -> Vec<Value> {
        let forgets = self.probes.get().is_multiple_of(FORGET_EVERY);
        self.probes.add(1);
        let silent = if forgets { values::duration(self.options.retention.silent) } else { Value::from("") };
        vec![
            self.wakes(),
            values::number(heartbeat.node),
            values::number(heartbeat.applied),
            Value::from(heartbeat.about.as_str()),
            values::number(epoch),
            Value::from(epoch.to_string()),
            silent,
        ]
    }

    /// Returns when enough replicas have what was written before on this connection.
    async fn await_replicas(&self, client: &Client, epoch: u64) -> Result<(), SharedError> {
        let least = self.options.replicas_min;
        if least == 0 {
            return Ok(());
        }
        // The server times out before the client does, so that the connection is kept.
        let patience = milliseconds(self.options.unresponsive / 2).max(1);
        let slot = ClusterHash::Custom(self.names.log(epoch).cluster_hash());
        let wait = CustomCommand::new_static("WAIT", slot, false);
        let arguments = vec![least.to_string(), patience.to_string()];
        let replicas: Result<i64, Error> = client.custom(wait, arguments).await;
        match replicas.map_err(|error| meaning(&error))? {
            replicas if replicas >= i64::from(least) => Ok(()),
            _ => Err(SharedError::Refused),
        }
    }
}

fn read_probe_answer(value: Value) -> Result<ProbeAnswer, SharedError> {
    let values = values::array(value)?;
    let [number, nonce, epoch, server] = values.as_slice() else { return Err(SharedError::Unexpected) };
    let probed = || {
        Some(ProbeAnswer {
            number: values::unsigned(number)?,
            nonce: values::read_number(nonce)?,
            epoch: values::read_number(epoch)?,
            server: server.as_string()?,
        })
    };
    probed().ok_or(SharedError::Unexpected)
}
