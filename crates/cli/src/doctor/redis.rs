//! Finds problems with Redis: unavailable, refused, too old, silent, with an eviction policy that drops the
//! log, or used by nodes with another database.

use std::time::Duration;

use kith_server::{
    cluster::{NodeKeys, SharedServer},
    config::Config,
    node::store::OpenStore,
};
use tokio::time::timeout;

use super::Finding;

/// The command does not repeat the address: it may contain a password.
const LOOK: &str = "redis-cli -u \"$KITH_REDIS__URL\" info server";

/// Queries the configured Redis, if there is one.
pub(super) async fn findings(config: &Config, limit: Duration) -> Vec<Finding> {
    if config.redis.url.is_none() {
        return Vec::new();
    }
    let keys = keys(config, limit).await;
    let server = match SharedServer::connect_to_examine(config, keys.as_ref()).await {
        Ok(server) => server,
        Err(line) => return vec![Finding::new(line.to_string(), "kith config | grep redis")],
    };
    // The check has its own time limits.
    if let Some(refused) = server.refusal().await {
        return vec![Finding::new(refused.line, LOOK)];
    }
    // Its own time limits are shorter, unless the time to connect is large.
    let found = timeout(limit.max(config.redis.connect_timeout) + limit, server.findings()).await;
    match found {
        Ok(Ok(lines)) => {
            let mut found: Vec<_> = lines.into_iter().map(|line| Finding::new(line, LOOK)).collect();
            found.extend(of_others(config, &server, keys.as_ref()).await);
            found
        }
        Ok(Err(_)) | Err(_) => {
            let line = "Redis does not answer (redis.url): nodes serve from the store, and publish changes to others later";
            vec![Finding::new(line, LOOK)]
        }
    }
}

/// Reports a prefix that is used by nodes with another database.
async fn of_others(config: &Config, server: &SharedServer, keys: Option<&NodeKeys>) -> Option<Finding> {
    let Ok(true) = server.prefix_of_others(keys?).await else { return None };
    let prefix = &config.redis.prefix;
    let line =
        format!("nodes of another database use the prefix {prefix} in Redis: give each database its own");
    let run = format!("redis-cli -u \"$KITH_REDIS__URL\" get '{{{prefix}:database}}'");
    Some(Finding::new(line, run))
}

/// Returns the database's keys; `None`: it does not answer, or is not migrated.
async fn keys(config: &Config, limit: Duration) -> Option<NodeKeys> {
    let store = OpenStore::open(config).await.ok()?;
    let stores = store.stores();
    let migrated = timeout(limit, stores.migrations.status()).await.ok().and_then(Result::ok);
    let is_migrated = migrated.is_some_and(|all| all.iter().all(|migration| migration.applied.is_some()));
    let keys = if is_migrated {
        timeout(limit, NodeKeys::of(&stores, config)).await.ok().and_then(Result::ok)
    } else {
        None
    };
    store.close().await;
    keys
}
