use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use kith_cache::{Node, remote::Queue};
use tokio::time::{Instant, sleep};

use super::Server;
use crate::health::{Cause, Reporter};

/// In `/readyz`.
const REASON: &str = "redis_away";
const UNFIT: &str = "redis_unfit";
/// How often it is looked.
const EVERY: Duration = Duration::from_millis(250);
/// How long a node may not be able to prove what it has, beyond its trust, before it says so.
const PATIENCE: Duration = Duration::from_secs(1);

/// Looks whether what was given as Redis can be relied on, once it is there, and says what is wrong.
pub(super) async fn findings(server: Server, node: Node, health: Reporter) {
    let found = loop {
        if node.trusted()
            && let Ok(found) = server.findings().await
        {
            break found;
        }
        sleep(EVERY).await;
    };
    if !found.is_empty() {
        found.iter().for_each(|line| tracing::error!("{line}"));
        let message = found.join("; ");
        health.remark(Cause { reason: UNFIT, message, since: SystemTime::now() });
    }
}

/// Says when Redis is away and when it is back, until it is dropped. The node serves all the while.
pub(super) async fn watch(node: Node, queue: Arc<Queue>, health: Reporter) {
    let (mut since, mut said) = ((Instant::now(), SystemTime::now()), false);
    loop {
        sleep(EVERY).await;
        if node.trusted() {
            since = (Instant::now(), SystemTime::now());
            if std::mem::take(&mut said) {
                health.remark_off(REASON);
                tracing::info!(epoch = node.epoch(), "Redis answers again; the node follows");
            }
        } else if !said && since.0.elapsed() >= PATIENCE {
            said = true;
            health.remark(Cause { reason: REASON, message: MESSAGE.to_owned(), since: since.1 });
            tracing::error!(waiting = queue.len(), "{MESSAGE}");
        }
    }
}

const MESSAGE: &str =
    "Redis does not answer (redis.url): reads come from the store, and other nodes are told of changes later";
