//! Options for the connection.

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::Semaphore;

use crate::cql::log_end::LogEnds;

/// Addresses, timeouts and limits for Cassandra or ScyllaDB.
#[derive(Clone)]
pub struct CqlOptions {
    /// `host:port` for some servers; the others are found through them.
    pub contact_points: Vec<String>,
    /// The keyspace's name.
    pub keyspace: String,
    /// The keyspace's replication if it has to be created, as a map in CQL: `{'class': ..., ...}`.
    pub replication: String,
    /// User and password. Never printed.
    pub credentials: Option<(String, String)>,
    /// The time limit for a connection attempt.
    pub connect: Duration,
    /// The time limit for one request.
    pub request: Duration,
    /// The most concurrent calls; further calls are refused.
    pub calls_max: u32,
    /// About how many entries a list bucket has before the next bucket is opened.
    pub bucket_entries: u32,
    /// How many change feeds there are. Must not change once data are stored.
    pub feed_shards: u32,
    /// The maximum difference between node clocks, plus the time that a write may take to arrive.
    pub clocks_apart: Duration,
    /// How long events between users are kept.
    pub log_kept: Duration,
    /// How many milliseconds this node's clock is ahead, for tests with clocks that differ.
    #[doc(hidden)]
    pub clock_ahead: i64,
    /// The fail point at which this node's calls end as if it had died there, for tests.
    #[doc(hidden)]
    pub fail_point: Option<&'static str>,
    /// Where the ends of the logs are read from instead of MongoDB, for tests.
    #[doc(hidden)]
    pub log_ends: Option<Arc<dyn LogEnds>>,
}

impl CqlOptions {
    /// The defaults, for these contact points and this keyspace.
    #[must_use]
    pub fn new(
        contact_points: impl IntoIterator<Item = impl Into<String>>,
        keyspace: impl Into<String>,
    ) -> Self {
        let contact_points = contact_points.into_iter().map(Into::into).collect();
        Self { contact_points, keyspace: keyspace.into(), ..Self::default() }
    }

    /// The most concurrent calls, at most what a semaphore supports.
    pub(in crate::cql) fn calls(&self) -> usize {
        usize::try_from(self.calls_max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
    }

    /// Whether the options are valid. The keyspace and the replication become part of statements, so their
    /// characters are restricted.
    pub(in crate::cql) fn are_usable(&self) -> bool {
        let in_name = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let name = self.keyspace.as_bytes();
        let is_name = (1..=48).contains(&name.len()) && name.iter().all(|c| in_name(*c));
        let in_map = |c: char| c.is_ascii_alphanumeric() || "{}':,_-. ".contains(c);
        let is_map = self.replication.starts_with('{') && self.replication.ends_with('}');
        let counts = (1..=64).contains(&self.feed_shards) && self.bucket_entries > 0 && self.calls_max > 0;
        let begins = name.first().is_some_and(u8::is_ascii_lowercase);
        !self.contact_points.is_empty()
            && is_name
            && begins
            && is_map
            && self.replication.chars().all(in_map)
            && counts
    }
}

impl Default for CqlOptions {
    fn default() -> Self {
        Self {
            contact_points: vec!["127.0.0.1:9042".to_owned()],
            keyspace: "kith".to_owned(),
            replication: "{'class': 'SimpleStrategy', 'replication_factor': 1}".to_owned(),
            credentials: None,
            connect: Duration::from_secs(1),
            request: Duration::from_secs(5),
            calls_max: 4096,
            bucket_entries: 20_000,
            feed_shards: 4,
            clocks_apart: Duration::from_secs(120),
            log_kept: Duration::from_secs(180 * 24 * 60 * 60),
            clock_ahead: 0,
            fail_point: None,
            log_ends: None,
        }
    }
}

impl fmt::Debug for CqlOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqlOptions").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_text_hides_addresses_and_passwords() {
        let credentials = Some(("ann".to_owned(), "sesame".to_owned()));
        let shown = format!("{:?}", CqlOptions { credentials, ..CqlOptions::new(["host:9042"], "kith") });
        assert!(!shown.contains("sesame") && !shown.contains("ann") && !shown.contains("host"), "{shown}");
    }

    #[test]
    fn invalid_keyspace_or_replication_is_refused() {
        assert!(CqlOptions::default().are_usable());
        let of_names = |name: &str| CqlOptions::new(["h"], name).are_usable();
        assert!(of_names("kith_2") && !of_names("") && !of_names("a.b") && !of_names("A") && !of_names("_a"));
        let of_maps =
            |map: &str| CqlOptions { replication: map.to_owned(), ..CqlOptions::default() }.are_usable();
        assert!(of_maps("{'class': 'NetworkTopologyStrategy', 'dc1': 3}"));
        assert!(!of_maps("") && !of_maps("{}; DROP KEYSPACE kith"));
    }
}
