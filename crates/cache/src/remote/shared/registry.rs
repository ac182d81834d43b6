use std::time::Duration;

use super::SharedError;

/// The registered nodes, and the server that they share.
#[async_trait::async_trait]
pub trait Registry: std::fmt::Debug + Send + Sync + 'static {
    /// Sends the epoch that the node begins to follow to the server, and does what [`Self::probe`] does.
    ///
    /// # Errors
    /// If the server does not answer or does not accept writes.
    async fn enter(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError>;

    /// Writes that the node is alive, its epoch and its position, so that it fails when changes would;
    /// returns the end of the log. With replicas it fails unless a majority of them has the write. Also
    /// answers on a server that is not accepted, and returns its name. It does not send the server a new
    /// epoch: the answer shows whether the server knows it.
    ///
    /// # Errors
    /// If the server does not answer or does not accept writes.
    async fn probe(&self, epoch: u64, heartbeat: &Heartbeat) -> Result<ProbeAnswer, SharedError>;

    /// The nodes registered in the epoch, without those that were silent for long, ordered by number.
    ///
    /// # Errors
    /// When the server does not answer.
    async fn peers(&self, epoch: u64) -> Result<Vec<Peer>, SharedError>;

    /// Removes the node; writers no longer wait for it.
    ///
    /// # Errors
    /// If the server does not answer; the node is removed a while after its last probe.
    async fn leave(&self, epoch: u64, node: u64) -> Result<(), SharedError>;

    /// From now on only the server of this name is read and changed, whatever connection leads to it. Before
    /// the first call no server is.
    fn accept(&self, server: &str);
}

/// The state that a node publishes about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// The node's number.
    pub node: u64,
    /// The last entry that it has applied.
    pub applied: u64,
    /// The node's address and version, for people and for other nodes. At most 1 KiB.
    pub about: String,
}

/// How far a node in the registry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerPosition {
    /// The node's number.
    pub node: u64,
    /// The last entry that it reported as applied.
    pub applied: u64,
    /// Time since its last probe ran, by the clock of the server.
    pub silent: Duration,
}

/// A node in the registry, with what it publishes about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The node's number.
    pub node: u64,
    /// The last entry that it reported as applied.
    pub applied: u64,
    /// Time since its last probe ran, by the clock of the server.
    pub silent: Duration,
    /// The node's description of itself.
    pub about: String,
}

/// The answer to a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The number of the log's last entry; 0 when it is empty.
    pub number: u64,
    /// Its nonce; 0 when it is empty.
    pub nonce: u64,
    /// The highest epoch known to the server. Lower than that of the probe: the server knew it, and has lost
    /// it.
    pub epoch: u64,
    /// The name of the server that answered: another server, or the same one restarted, has another name.
    pub server: String,
}
