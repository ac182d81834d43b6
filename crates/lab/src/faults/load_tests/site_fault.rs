//! Faults of a cluster that begin and end while callers call.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::proxy::Mode;
use tokio::time::sleep;

use super::progress::Progress;
use crate::faults::{Figure, Member, Site, relations};

/// How often Redis is emptied, and the pause between.
const EMPTIED: usize = 3;
const BETWEEN: Duration = Duration::from_millis(300);

/// A fault of one node, or of a server that all nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiteFault {
    /// It is started again at once.
    NodeKilled,
    NodePaused,
    /// The node's link to Redis.
    NodeCut(Mode),
    /// Emptied again and again.
    RedisEmptied,
    RedisKilled,
    RedisFrozen,
    MongodbKilled,
    MongodbPaused,
    /// Its links stand still.
    CassandraFrozen,
    /// The row has a Cassandra of its own.
    CassandraPaused,
}

impl SiteFault {
    /// Begins the fault, and ends it after this time. `at`: the node; numbers go on after the last node.
    pub(super) async fn inject(self, site: &mut Site, at: usize, lasts: Duration) -> Result<()> {
        let count = site.members.len();
        let Member { node, to_redis, .. } = site.members.get_mut(at % count).context("there is a node")?;
        match self {
            Self::NodeKilled => {
                node.kill();
                node.run()?;
            }
            Self::NodePaused => {
                node.signal("STOP")?;
                sleep(lasts).await;
                node.signal("CONT")?;
            }
            Self::NodeCut(mode) => {
                to_redis.set(mode);
                sleep(lasts).await;
                to_redis.set(Mode::Pass);
            }
            Self::RedisEmptied => {
                for _ in 0..EMPTIED {
                    site.redis.ask(&["FLUSHALL"]).await?;
                    sleep(BETWEEN).await;
                }
            }
            Self::RedisKilled => {
                site.redis.kill();
                sleep(lasts).await;
                site.redis.restart(None).await?;
            }
            Self::RedisFrozen => {
                site.redis_links(Mode::Freeze);
                sleep(lasts).await;
                site.redis_links(Mode::Pass);
            }
            Self::MongodbKilled => {
                site.mongod.kill();
                sleep(lasts).await;
                site.mongod.restart().await?;
            }
            Self::MongodbPaused => {
                let mongod = site.mongod.member(0).context("there is a MongoDB")?;
                mongod.signal("STOP")?;
                sleep(lasts).await;
                mongod.signal("CONT")?;
            }
            Self::CassandraFrozen => {
                site.cassandra_links(Mode::Freeze);
                sleep(lasts).await;
                site.cassandra_links(Mode::Pass);
            }
            Self::CassandraPaused => relations::paused(site, lasts).await?,
        }
        Ok(())
    }
}

/// Faults of nodes and stores. The node that leads a feed, or works for all, is killed, too.
const OF_STORES: FaultTurns<'_> = FaultTurns {
    faults: &[
        SiteFault::NodeKilled,
        SiteFault::MongodbPaused,
        SiteFault::NodeKilled,
        SiteFault::CassandraFrozen,
        SiteFault::RedisFrozen,
        SiteFault::MongodbKilled,
    ],
    node: None,
    lasts: &[Duration::from_secs(3)],
    healthy_for: Duration::from_secs(5),
};

/// Repeats faults of nodes and stores until there is enough progress, and each was there once.
pub(super) async fn fail_stores(site: &mut Site, progress: &Progress) -> Result<Vec<Figure>> {
    let count = OF_STORES.inject(site, progress).await?;
    Ok(vec![Figure::at_least_count("faults", count, OF_STORES.faults.len() as u64)])
}

/// Faults that are repeated in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultTurns<'a> {
    pub(super) faults: &'a [SiteFault],
    /// The node that has them; `None`: each node in turn.
    pub(super) node: Option<usize>,
    /// How long they last, in turn with each round of them.
    pub(super) lasts: &'a [Duration],
    /// The pause between two of them, once all nodes trust their memories again.
    pub(super) healthy_for: Duration,
}

impl FaultTurns<'_> {
    /// Goes on until there is enough progress, and each fault was there once. Returns how many there were.
    pub(super) async fn inject(self, site: &mut Site, progress: &Progress) -> Result<u64> {
        let mut step = 0;
        while step < self.faults.len() || !progress.has_enough() {
            let fault = self.faults[step % self.faults.len()];
            let lasts = self.lasts[step / self.faults.len() % self.lasts.len()];
            fault.inject(site, self.node.unwrap_or(step), lasts).await?;
            site.until_trusted().await?;
            sleep(self.healthy_for).await;
            step += 1;
        }
        Ok(step as u64)
    }
}
