//! Finds problems with the store: a newer version, unavailable, without transactions, not migrated.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use kith_server::{
    config::{Backend, Config},
    node::store::{OpenStore, data_file},
};
use tokio::time::timeout;

use super::Finding;

/// How often a store is pinged while it is being connected.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(50);

/// Opens the store, unless that would create or lock anything: a data file that does not exist, belongs to
/// another user, or is in use by a node.
pub(super) async fn findings(config: &Config, node_runs: bool, limit: Duration) -> Vec<Finding> {
    let cluster = config.store.backend == Backend::Cluster;
    if !cluster && (node_runs || !is_ours(&data_file(config))) {
        return Vec::new();
    }
    let store = match OpenStore::open(config).await {
        Ok(store) => store,
        Err(error) => return vec![Finding::new(error.to_string(), to_open(cluster, config))],
    };
    let mut found: Vec<_> =
        if cluster { mongodb_problem(config, &store, limit).await } else { None }.into_iter().collect();
    if found.is_empty() {
        found.extend(relations_problem(config, &store, limit).await);
        // Migrations cannot be read while the relation store is unavailable.
        if found.is_empty() || config.store.cql.contact_points.is_empty() {
            found.extend(pending(config, &store, limit).await);
        }
    }
    store.close().await;
    found
}

fn to_open(cluster: bool, config: &Config) -> String {
    if cluster {
        "kith config | grep mongodb".to_owned()
    } else {
        format!("ls -l {}; kith --version", config.data_dir.display())
    }
}

fn is_ours(file: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).map(|data| data.uid()).ok();
    owner(file).is_some_and(|owned| owner(Path::new("/proc/self")) == Some(owned))
}

/// Finds problems with MongoDB. The connection string is not repeated, because it may contain a password.
async fn mongodb_problem(config: &Config, store: &OpenStore, limit: Duration) -> Option<Finding> {
    let limit = limit.max(config.store.mongodb.server_selection);
    let look = "mongosh \"$KITH_STORE__MONGODB__URI\" --eval 'db.hello()'";
    let info = store.info(config);
    if let Ok(Some(line)) = timeout(limit, info.unfit()).await {
        return Some(Finding::new(line.to_string(), look));
    }
    let error = store.stores().node.ping(limit).await.err()?;
    Some(Finding::new(info.failure(&error).await.line().to_string(), look))
}

/// Finds problems with the relation store.
async fn relations_problem(config: &Config, store: &OpenStore, limit: Duration) -> Option<Finding> {
    let cql = &config.store.cql;
    let first = cql.contact_points.first().and_then(|first| first.rsplit_once(':'));
    let (host, port) = first.unwrap_or_default();
    let info = store.info(config);
    let until = tokio::time::Instant::now() + limit.max(cql.connect);
    loop {
        let unfit = info.relations_unfit(limit).await?;
        if unfit.configured {
            return Some(Finding::new(unfit.message, "kith config | grep store.cql"));
        }
        // The connection was just begun.
        if tokio::time::Instant::now() >= until {
            let run = format!("cqlsh {host} {port} -e 'DESCRIBE CLUSTER'");
            return Some(Finding::new(unfit.message, run));
        }
        tokio::time::sleep(LOOKED_AT_EVERY).await;
    }
}

async fn pending(config: &Config, store: &OpenStore, limit: Duration) -> Vec<Finding> {
    let info = store.info(config);
    match timeout(limit, store.stores().migrations.status()).await {
        Ok(Ok(all)) => {
            let pending = all.iter().filter(|migration| migration.applied.is_none()).count();
            let finding = format!("{pending} of {} migrations are pending", all.len());
            (pending > 0).then(|| Finding::new(finding, "kith migrate")).into_iter().collect()
        }
        Ok(Err(error)) => {
            let finding = info.failure(&error).await.line().to_string();
            vec![Finding::new(finding, "kith --version; kith migrate --status")]
        }
        Err(_) => {
            let finding = format!("{}: no answer within the time", info.data().place);
            vec![Finding::new(finding, "kith doctor --timeout 10s")]
        }
    }
}
