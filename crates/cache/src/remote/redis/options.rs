//! The settings of Redis connections, and the clients built from them. A client sends each command at most
//! once, because a command without an answer may have been executed.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use fred::{
    clients::Client,
    types::{
        Builder, RespVersion,
        config::{Config, CredentialProvider, ReconnectPolicy, TcpConfig, TlsConnector, UnresponsiveConfig},
    },
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::names;
use crate::{
    Random, ThreadRandom,
    remote::shared::{MessageMac, Retention},
};

/// Schemes of addresses: one server, a cluster, or a server behind sentinels; with `s` over TLS.
const SCHEMES: [&str; 6] =
    ["redis", "rediss", "redis-cluster", "rediss-cluster", "redis-sentinel", "rediss-sentinel"];
/// Pauses between two attempts to connect, in milliseconds, and their random spread.
const RECONNECT: (u32, u32, u32) = (50, 1_000, 25);
/// Messages that a slow subscriber may be behind before it has to subscribe again.
const BEHIND_MAX: usize = 8_192;

/// How the server is reached, and how long data are kept there.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[user:password@]host[:port][/database]`; `rediss` for TLS, `redis-cluster` and
    /// `redis-sentinel` for a cluster and for sentinels.
    pub url: String,
    /// Before every key and channel: 1 to 40 letters, digits, `_`, `.` and `-`. Two clusters of nodes with
    /// one server need two.
    pub prefix: String,
    /// The id of the database that is cached, in every key and channel; see [`Self::tag`].
    pub database_id: u64,
    /// PEM: the certificates to trust with TLS. Absent: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// Replicas that must have a probe before it counts as answered; 0: none.
    pub replicas_min: u32,
    /// Maximum wait for the answer to a command.
    pub command_timeout: Duration,
    /// Maximum wait for a connection, and then for each step of its setup.
    pub connect_timeout: Duration,
    /// A connection on which an answer is overdue for this long is closed.
    pub unresponsive: Duration,
    /// Connections for cells and changes; at least one. With more, a large answer does not delay all others.
    pub pool: usize,
    /// Connections that a [`ScriptRunner`](super::ScriptRunner) opens; at least one. With several, a caller's
    /// concurrent calls may run in any order.
    pub script_pool: usize,
    /// Commands of one connection that may wait to be sent; further ones fail at once.
    pub waiting_max: usize,
    /// How long each kind of cell is kept, and how much log.
    pub retention: Retention,
    /// Authenticates confirmations, so that an outsider cannot confirm in a node's name. All nodes must have
    /// the same key.
    pub mac: Option<MessageMac>,
    /// Spreads the expiry of copies.
    pub random: Arc<dyn Random>,
}

/// Why there can never be a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisError {
    /// The address is not valid.
    #[error("url: not an address of Redis (redis, rediss, redis-cluster or redis-sentinel)")]
    Url,
    /// The prefix is not valid.
    #[error("prefix: not 1 to 40 letters, digits, '_', '.' or '-'")]
    Prefix,
    /// The file of certificates.
    #[error("ca_file: no file of certificates in PEM that this user may read")]
    CaFile,
}

impl Default for RedisOptions {
    /// A server on this machine, prefix `kith`, database 0, no replicas; 100 ms, 500 ms, 500 ms; two
    /// connections for cells and one for scripts, 10,000 commands.
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".to_owned(),
            prefix: "kith".to_owned(),
            database_id: 0,
            ca_file: None,
            replicas_min: 0,
            command_timeout: Duration::from_millis(100),
            connect_timeout: Duration::from_millis(500),
            unresponsive: Duration::from_millis(500),
            pool: 2,
            script_pool: 1,
            waiting_max: 10_000,
            retention: Retention::default(),
            mac: None,
            random: Arc::new(ThreadRandom),
        }
    }
}

impl RedisOptions {
    /// For commands that nothing replaces: an answer is awaited as long as a connection may be silent.
    pub(super) fn patient(self) -> Self {
        Self { command_timeout: self.command_timeout.max(self.unresponsive), ..self }
    }

    /// The configuration in the address, including user and password.
    pub(super) fn config(&self) -> Result<Config, RedisError> {
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        if !SCHEMES.contains(&scheme) {
            return Err(RedisError::Url);
        }
        let mut config = Config::from_url(&self.url).map_err(|_| RedisError::Url)?;
        if config.tls.is_some() && self.ca_file.is_some() {
            config.tls = Some(self.connector()?.into());
        }
        Ok(Config { version: RespVersion::RESP3, ..config })
    }

    /// `PREFIX:ID`, the database id in 16 hexadecimal digits: the text between the first braces in keys and
    /// channels, or its beginning.
    #[must_use]
    pub fn tag(&self) -> String {
        names::tag(&self.prefix, self.database_id)
    }

    /// A TLS connector that only trusts the certificates of `ca_file`.
    fn connector(&self) -> Result<TlsConnector, RedisError> {
        let mut roots = RootCertStore::empty();
        let file = self.ca_file.clone().unwrap_or_default();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|_| RedisError::CaFile)? {
            let certificate = certificate.map_err(|_| RedisError::CaFile)?;
            roots.add(certificate).map_err(|_| RedisError::CaFile)?;
        }
        if roots.is_empty() {
            return Err(RedisError::CaFile);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(|_| RedisError::CaFile)?;
        Ok(config.with_root_certificates(roots).with_no_client_auth().into())
    }

    /// A client that reconnects without limit, after its first connect. `credentials` is asked at the
    /// beginning of every connection.
    pub(super) fn client(&self, config: Config, credentials: Arc<dyn CredentialProvider>) -> Client {
        let config = Config { fail_fast: false, credential_provider: Some(credentials), ..config };
        let (min, max, jitter) = RECONNECT;
        let mut policy = ReconnectPolicy::new_exponential(0, min, max, 2);
        policy.set_jitter(jitter);
        let mut builder = self.builder(config, self.command_timeout);
        builder.set_policy(policy);
        built(&builder)
    }

    /// A client that connects once, and ends with that connection.
    pub(super) fn one_connection(&self, config: Config) -> Client {
        built(&self.builder(Config { fail_fast: true, ..config }, self.unresponsive))
    }

    /// Builds a client with a buffer for received messages.
    pub(super) fn subscriber(&self, config: Config) -> Client {
        let mut builder = self.builder(Config { fail_fast: true, ..config }, self.unresponsive);
        // No other client needs this buffer of megabytes, which is allocated at once.
        builder.with_performance_config(|performance| performance.broadcast_channel_capacity = BEHIND_MAX);
        built(&builder)
    }

    fn builder(&self, config: Config, command_timeout: Duration) -> Builder {
        let mut builder = Builder::from_config(config);
        builder
            .with_performance_config(|performance| performance.default_command_timeout = command_timeout)
            .with_connection_config(|connection| {
                connection.connection_timeout = self.connect_timeout;
                connection.internal_command_timeout = self.connect_timeout;
                // The caller decides whether to retry: what was sent before a disconnection may have been
                // executed.
                connection.max_command_attempts = 1;
                connection.max_command_buffer_len = self.waiting_max;
                connection.tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
                // Each connection of an idle node wakes this often.
                connection.unresponsive = UnresponsiveConfig {
                    max_timeout: Some(self.unresponsive),
                    interval: self.unresponsive / 2,
                };
            });
        builder
    }
}

/// It fails only without a configuration.
fn built(builder: &Builder) -> Client {
    builder.build().unwrap_or_else(|_| unreachable!("there is a configuration"))
}

impl fmt::Debug for RedisOptions {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
