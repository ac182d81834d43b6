//! Faults of nodes and stores, one after the other.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::proxy::Mode;
use tokio::time::sleep;

use super::progress::Progress;
use crate::faults::{Figure, Site};

/// How long a store stands still, or is away.
const LASTS: Duration = Duration::from_secs(3);
/// The pause between two faults, once all nodes trust their memories again.
const HEALTHY_FOR: Duration = Duration::from_secs(5);

/// A fault in the cluster.
#[derive(Clone, Copy, Debug)]
enum StoreFault {
    /// The node that leads a feed, or works for all, is one of them.
    NodeKilled,
    MongodbStopped,
    MongodbKilled,
    CassandraStopped,
    RedisCut,
}

const FAULTS: [StoreFault; 6] = [
    StoreFault::NodeKilled,
    StoreFault::MongodbStopped,
    StoreFault::NodeKilled,
    StoreFault::CassandraStopped,
    StoreFault::RedisCut,
    StoreFault::MongodbKilled,
];

/// Goes on until there is enough progress, and each fault was there once.
pub(super) async fn inject(site: &mut Site, progress: &Progress) -> Result<Vec<Figure>> {
    let mut count = 0;
    while count < FAULTS.len() || !progress.has_enough() {
        sleep(HEALTHY_FOR).await;
        fail(site, count).await?;
        site.until_trusted().await?;
        count += 1;
    }
    Ok(vec![Figure::at_least_count("faults", count as u64, FAULTS.len() as u64)])
}

async fn fail(site: &mut Site, count: usize) -> Result<()> {
    let at = count % site.members.len();
    match FAULTS[count % FAULTS.len()] {
        StoreFault::NodeKilled => {
            let node = &mut site.members.get_mut(at).context("there are three nodes")?.node;
            node.kill();
            node.run()?;
        }
        StoreFault::MongodbStopped => {
            let mongod = site.mongod.member(0).context("there is a MongoDB")?;
            mongod.signal("STOP")?;
            sleep(LASTS).await;
            mongod.signal("CONT")?;
        }
        StoreFault::MongodbKilled => {
            site.mongod.kill();
            sleep(LASTS).await;
            site.mongod.restart().await?;
        }
        StoreFault::CassandraStopped => {
            site.cassandra_links(Mode::Freeze);
            sleep(LASTS).await;
            site.cassandra_links(Mode::Pass);
        }
        StoreFault::RedisCut => {
            site.redis_links(Mode::Freeze);
            sleep(LASTS).await;
            site.redis_links(Mode::Pass);
        }
    }
    Ok(())
}
