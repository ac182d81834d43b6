//! Several nodes over one store: the server that they share, how they follow each other, and their defaults.

use std::{path::PathBuf, time::Duration};

use kith_service::invalid_value::{InvalidValue, above_zero, must, refuse};
use serde::{Deserialize, Serialize};

use super::{Backend, Config, Secret};

/// The beginnings that a Redis address may have. An `s` means TLS.
const SCHEMES: [&str; 6] =
    ["redis", "rediss", "redis-cluster", "rediss-cluster", "redis-sentinel", "rediss-sentinel"];
/// Longest node address. With what else the node says about itself, the registry takes 1 KiB.
const ADDRESS_MAX: usize = 300;
/// Longest prefix. It is part of every key.
const PREFIX_MAX: usize = 32;
/// Longest time for which memory may be trusted without proof: strict writes wait so long for a dead node.
const TRUST_MAX: Duration = Duration::from_secs(30);
/// Fewest log entries: changes that a node may have missed within a moment must still be there.
const LOG_MIN: u32 = 1_000;

/// Redis, through which nodes share copies of records and publish changes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://...`, `rediss://...` with TLS, `redis-cluster://...` or
    /// `redis-sentinel://HOST:26379/0?sentinelServiceName=NAME`. Absent: the node is the only one of its
    /// store.
    pub url: Option<Secret>,
    /// A file with the URL.
    pub url_file: Option<PathBuf>,
    /// PEM: the certificates to trust with TLS. Absent: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// Prefix of every key and channel: 1 to 32 letters, digits, _ or -. Each cluster has its own prefix and
    /// its own database.
    pub prefix: String,
    /// Connections for reads and writes; one more for messages.
    #[serde(skip)]
    pub pool: usize,
    /// How long a command may take before the store is asked instead. Above 0.
    #[serde(with = "humantime_serde")]
    pub command_timeout: Duration,
    /// How long a connection may take to open.
    #[serde(skip)]
    pub connect_timeout: Duration,
    /// Replicas that must have a write before a node trusts its memory by it. If any may be promoted: a
    /// majority of them.
    pub replicas_min: u32,
    /// How long the copy of a record is kept. Above 0.
    #[serde(with = "humantime_serde")]
    pub copy_ttl: Duration,
    /// How long it is cached that a record does not exist.
    #[serde(skip)]
    pub absence_ttl: Duration,
    /// How long a load may make loads of other nodes wait.
    #[serde(skip)]
    pub lease: Duration,
    /// After how long another load may take its place.
    #[serde(skip)]
    pub takeover: Duration,
    /// How long an invalidated key is remembered: loads that began before it may take ten seconds.
    #[serde(skip)]
    pub tombs: Duration,
    /// About how many changes a node that was cut off can replay. Above 0: at least 1000.
    pub log_entries: u32,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            ca_file: None,
            prefix: "kith".to_owned(),
            pool: 2,
            command_timeout: Duration::from_millis(100),
            connect_timeout: Duration::from_secs(1),
            replicas_min: 0,
            copy_ttl: Duration::from_secs(10 * 60),
            absence_ttl: Duration::from_secs(30),
            lease: Duration::from_secs(3),
            takeover: Duration::from_millis(150),
            tombs: Duration::from_secs(30),
            log_entries: 100_000,
        }
    }
}

/// How nodes follow the change log and reach each other. Times must be the same on all nodes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// Address at which other nodes reach this one: `http://10.0.0.7:7600`, `https://...` with TLS. Absent:
    /// where it listens, or this machine's address towards others.
    pub advertise: Option<String>,
    /// PEM: the certificates to trust in calls to other nodes with TLS. Absent: those of `tls.cert_file`.
    pub ca_file: Option<PathBuf>,
    /// How often a node proves that it has missed no change.
    #[serde(skip)]
    pub probe_every: Duration,
    /// How long it trusts its memory after one proof. Above 0: from 1s to 30s.
    #[serde(with = "humantime_serde")]
    pub trust: Duration,
    /// How long it serves its memory after that; records that changed since may be stale.
    #[serde(skip)]
    pub trust_grace: Duration,
    /// Maximum changes that are replayed; if more are missing, memory is emptied.
    #[serde(skip)]
    pub replay_max: u64,
    /// How long a node that was silent is still listed.
    #[serde(skip)]
    pub silent: Duration,
    /// Changes that may wait for Redis; with one more, all copies are discarded.
    #[serde(skip)]
    pub queue_max: usize,
    /// How long a load waits for another node's before it asks the store.
    #[serde(skip)]
    pub patience: Duration,
    /// How long a read with the token of a write waits for it before it asks the store.
    #[serde(skip)]
    pub token_wait: Duration,
    /// How long a call to another node may take.
    #[serde(skip)]
    pub call_timeout: Duration,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            advertise: None,
            ca_file: None,
            probe_every: Duration::from_millis(250),
            trust: Duration::from_millis(1_500),
            trust_grace: Duration::from_millis(1_500),
            replay_max: 50_000,
            silent: Duration::from_secs(60),
            queue_max: 100_000,
            patience: Duration::from_millis(1_500),
            token_wait: Duration::from_millis(20),
            call_timeout: Duration::from_secs(2),
        }
    }
}

/// Looks at what belongs together.
pub(super) fn check(config: &Config) -> Result<(), InvalidValue> {
    none_is_zero(config)?;
    shared(config)?;
    redis(&config.redis)?;
    following(config)?;
    advertised(config)
}

fn none_is_zero(config: &Config) -> Result<(), InvalidValue> {
    let redis = &config.redis;
    above_zero(&[
        ("redis.command_timeout", redis.command_timeout.is_zero()),
        ("redis.copy_ttl", redis.copy_ttl.is_zero()),
    ])
}

fn shared(config: &Config) -> Result<(), InvalidValue> {
    let scheme = config.redis.url.as_ref().map(|url| url.expose().split("://").next().unwrap_or_default());
    if scheme.is_some_and(|scheme| !SCHEMES.contains(&scheme)) {
        return refuse(
            "redis.url",
            "must be redis://HOST:6379 (rediss with TLS, redis-cluster for a cluster), with USER:PASSWORD@ before \
             HOST where Redis asks for them",
        );
    }
    if config.redis.ca_file.is_some() && !scheme.is_some_and(|scheme| scheme.starts_with("rediss")) {
        return refuse("redis.ca_file", "needs a redis.url with TLS: rediss://HOST:6379");
    }
    if config.redis.url.is_some() && config.store.backend == Backend::Sqlite {
        return refuse(
            "redis.url",
            "is for nodes that share a store; one on SQLite has its data for itself: leave it out, or say \
             store.backend = \"cluster\"",
        );
    }
    if config.redis.url.is_none()
        && config.store.backend == Backend::Cluster
        && !config.changes.kept.is_zero()
    {
        return refuse(
            "changes.kept",
            "needs redis.url with store.backend = \"cluster\": only nodes with Redis read the store's change feeds",
        );
    }
    Ok(())
}

fn redis(redis: &RedisConfig) -> Result<(), InvalidValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if redis.prefix.is_empty() || redis.prefix.len() > PREFIX_MAX || !redis.prefix.chars().all(allowed) {
        return refuse("redis.prefix", "must be 1 to 32 letters, digits, _ or -");
    }
    let (key, entries) = ("redis.log_entries", redis.log_entries);
    must(entries >= LOG_MIN, key, entries, &format!("be at least {LOG_MIN}"))
}

fn following(config: &Config) -> Result<(), InvalidValue> {
    let ClusterConfig { trust, probe_every, .. } = config.cluster;
    let least = probe_every * 4;
    let rule = format!("be at least {least:?}, so that one lost answer costs nothing");
    must(trust >= least, "cluster.trust", trust, &rule)?;
    must(trust <= TRUST_MAX, "cluster.trust", trust, &format!("be at most {TRUST_MAX:?}"))
}

fn advertised(config: &Config) -> Result<(), InvalidValue> {
    let Some(address) = &config.cluster.advertise else { return Ok(()) };
    let scheme = if config.tls.cert_file.is_some() { "https" } else { "http" };
    let fine = address.parse::<http::Uri>().is_ok_and(|uri| {
        address.len() <= ADDRESS_MAX
            && uri.scheme_str() == Some(scheme)
            && uri.port().is_some()
            && matches!(uri.path(), "" | "/")
    });
    if fine {
        return Ok(());
    }
    refuse("cluster.advertise", &format!("must be an address with its port, as {scheme}://10.0.0.7:7600"))
}

#[cfg(test)]
mod tests {
    use crate::config::load::refused;

    #[test]
    fn impossible_value_names_its_key_and_rule() {
        for (key, value, words) in [
            ("redis.url", "redis://:hunter2@h:6379", "is for nodes that share a store"),
            ("redis.url", "hunter2.example:6379", "must be redis://HOST:6379"),
            ("redis.ca_file", "ca.pem", "needs a redis.url with TLS"),
            ("redis.prefix", "a:b", "1 to 32 letters"),
            ("redis.prefix", "", "redis.prefix is empty"),
            ("redis.log_entries", "999", "must be at least 1000"),
            ("cluster.trust", "999ms", "must be at least 1s"),
            ("cluster.trust", "31s", "must be at most 30s"),
            ("cluster.advertise", "10.0.0.7", "as http://10.0.0.7:7600"),
            ("cluster.advertise", "https://10.0.0.7:7600", "as http://10.0.0.7:7600"),
        ] {
            let line = refused(&[(key, value)]).unwrap_or_else(|| panic!("{key} = {value} is taken"));
            assert!(line.contains(words), "{line}");
            assert!(!line.contains("hunter2"), "{line}");
        }
    }

    #[test]
    fn what_a_cluster_needs_is_taken() {
        let fine = [
            ("store.backend", "cluster"),
            ("store.mongodb.uri", "mongodb://h/"),
            ("redis.url", "redis://h:6379"),
            ("redis.prefix", "kith-2"),
            ("cluster.advertise", "http://node-1:7600"),
        ];
        assert_eq!(refused(&fine), None);
    }

    #[test]
    fn changes_are_kept_where_feeds_are_read() {
        let kept = ("changes.kept", "1h");
        let alone = [("store.backend", "cluster"), ("store.mongodb.uri", "mongodb://h/"), kept];
        let line = refused(&alone).unwrap();
        assert!(line.contains("changes.kept") && line.contains("needs redis.url"), "{line}");
        let shared = [alone.as_slice(), &[("redis.url", "redis://h:6379")]].concat();
        assert_eq!((refused(&shared), refused(&[kept])), (None, None));
    }
}
