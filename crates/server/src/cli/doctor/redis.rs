//! Whether what nodes share can be relied on: away, too old, of a policy that drops the log, silent.

use std::time::Duration;

use tokio::time::timeout;

use super::Finding;
use crate::{cluster::Server, config::Config};

const GROUP: &str = "redis";
/// The address is not repeated: it may hold a password.
const LOOK: &str = "redis-cli -u \"$KITH_REDIS__URL\" info server";

/// Asks the Redis of the configuration, where there is one.
pub(super) async fn findings(config: &Config, limit: Duration) -> Vec<Finding> {
    if config.redis.url.is_none() {
        return Vec::new();
    }
    let server = match Server::look(config).await {
        Ok(server) => server,
        Err(line) => return vec![Finding::new(GROUP, line.to_string(), "kith config | grep redis")],
    };
    // Its own bounds are shorter, but for a large time to connect.
    let found = timeout(limit.max(config.redis.connect_timeout) + limit, server.findings()).await;
    match found {
        Ok(Ok(lines)) => lines.into_iter().map(|line| Finding::new(GROUP, line, LOOK)).collect(),
        Ok(Err(_)) | Err(_) => {
            let line =
                "Redis does not answer (redis.url): nodes serve from the store, and others are told later";
            vec![Finding::new(GROUP, line, LOOK)]
        }
    }
}
