//! The section about where a cluster keeps relations, with its defaults.

use std::{path::PathBuf, time::Duration};

use kith_service::invalid_value::{InvalidValue, above_zero, refuse};
use serde::{Deserialize, Serialize};

use super::{Backend, Config, Secret};

/// Longest keyspace name.
const KEYSPACE_MAX: usize = 48;

/// Cassandra or ScyllaDB, which keep follows and blocks of a cluster.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CqlConfig {
    /// `HOST:PORT` of some of its nodes. Empty: calls of relations, members and applications fail with
    /// NOT_CONFIGURED.
    pub contact_points: Vec<String>,
    /// Name of the keyspace: 1 to 48 small letters, digits and _, a letter first.
    pub keyspace: String,
    /// Replication of the keyspace, in CQL, if `kith migrate` creates it: `{'class':
    /// 'NetworkTopologyStrategy', 'dc1': 3}`.
    pub replication: String,
    /// User name; absent: no authentication.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// A file with the password.
    pub password_file: Option<PathBuf>,
    /// How long a connection may take to open.
    #[serde(skip)]
    pub connect: Duration,
    /// How long one request may take.
    #[serde(skip)]
    pub request: Duration,
    /// Calls at one time; further ones are refused. Above 0.
    pub calls_max: u32,
    /// Number of change feeds, each read by one node at a time. The same on all nodes; must not change
    /// once data are stored.
    #[serde(skip)]
    pub feed_shards: u32,
}

impl Default for CqlConfig {
    fn default() -> Self {
        Self {
            contact_points: Vec::new(),
            keyspace: "kith".to_owned(),
            replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}".to_owned(),
            user: None,
            password: None,
            password_file: None,
            connect: Duration::from_secs(1),
            request: Duration::from_secs(2),
            calls_max: 4096,
            feed_shards: 4,
        }
    }
}

pub(super) fn check(config: &Config) -> Result<(), InvalidValue> {
    let cql = &config.store.cql;
    if cql.user.is_some() != cql.password.is_some() {
        return refuse(
            "store.cql.user",
            "and store.cql.password (or its file) go together; give both or neither",
        );
    }
    let is_address = |text: &String| {
        text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    if !cql.contact_points.iter().all(is_address) {
        return refuse("store.cql.contact_points", "must hold HOST:PORT, as cassandra-1:9042");
    }
    if !names_a_keyspace(&cql.keyspace) {
        return refuse("store.cql.keyspace", "must be 1 to 48 small letters, digits and _, a letter first");
    }
    if !(cql.replication.starts_with('{') && cql.replication.ends_with('}')) {
        return refuse("store.cql.replication", "must be a map as CQL writes it, {'class': '...', ...}");
    }
    let keeps_notes = config.store.backend == Backend::Sqlite || !cql.contact_points.is_empty();
    if config.messages.erase_on_delete && !keeps_notes {
        let text = "needs store.cql.contact_points over a cluster: deletions of users are noted there";
        return refuse("messages.erase_on_delete", text);
    }
    above_zero(&[("store.cql.calls_max", cql.calls_max == 0)])
}

fn names_a_keyspace(name: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    let first = name.bytes().next().is_some_and(|c| c.is_ascii_lowercase());
    first && name.len() <= KEYSPACE_MAX && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(change: impl FnOnce(&mut CqlConfig)) -> Result<(), &'static str> {
        let mut config = Config::default();
        change(&mut config.store.cql);
        check(&config).map_err(|wrong| wrong.key)
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_its_key() {
        assert_eq!(checked(|_| {}), Ok(()));
        assert_eq!(checked(|cql| cql.contact_points = vec!["a:9042".into(), "[::1]:9042".into()]), Ok(()));
        for point in ["", "a", ":9042", "a:b", "a:70000"] {
            let wrong = checked(|cql| cql.contact_points = vec![point.into()]);
            assert_eq!(wrong, Err("store.cql.contact_points"), "{point:?}");
        }
        for name in ["", "Kith", "1a", "a-b", "a.b", &"a".repeat(49)] {
            assert_eq!(checked(|cql| cql.keyspace = name.into()), Err("store.cql.keyspace"), "{name:?}");
        }
        assert_eq!(checked(|cql| cql.replication = "3".into()), Err("store.cql.replication"));
        assert_eq!(checked(|cql| cql.user = Some("ann".into())), Err("store.cql.user"));
        assert_eq!(checked(|cql| cql.calls_max = 0), Err("store.cql.calls_max"));
    }

    #[test]
    fn erasure_needs_notes_of_deleted_accounts() {
        let checked = |backend, points: &[&str]| {
            let mut config = Config::default();
            config.store.backend = backend;
            config.store.cql.contact_points = points.iter().map(|point| (*point).to_owned()).collect();
            config.messages.erase_on_delete = true;
            check(&config).map_err(|wrong| wrong.key)
        };
        assert_eq!(checked(Backend::Sqlite, &[]), Ok(()));
        assert_eq!(checked(Backend::Cluster, &["a:9042"]), Ok(()));
        assert_eq!(checked(Backend::Cluster, &[]), Err("messages.erase_on_delete"));
    }
}
