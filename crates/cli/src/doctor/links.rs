//! Reports unencrypted links to a cluster's stores.

use kith_server::config::{Config, plain_links};

use super::Finding;

/// Finds nothing for a node on SQLite, and for links within this machine.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let run = "kith config | grep -E 'redis.url|mongodb.uri|contact_points'";
    plain_links(config).into_iter().map(|link| Finding::new(link, run)).collect()
}
