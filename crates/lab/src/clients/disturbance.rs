//! What is done to the cluster while a program runs.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_lab_servers::{
    proxy::{Mode, Proxy},
    resp::Value,
};
use tokio::time::sleep;

use crate::faults::{Member, Site};

/// A fault of one node, of the link by which programs reach it, or of a server.
#[derive(Clone, Copy, Debug)]
enum ClientFault {
    /// All connections of programs are cut.
    Cut,
    Killed,
    /// Requests reach the node, and their answers are lost.
    AnswersLost,
    Paused,
    /// Connections are refused.
    Refused,
    /// The node has no Redis.
    CutFromRedis,
    /// Connections stay open and carry nothing.
    Frozen,
    /// The node does not hear what the other node has changed.
    Behind,
    Slow,
    /// The node ends in order and starts again: its connections are asked to go away.
    Ended,
    /// The store does not answer.
    StorePaused,
    /// Redis has lost everything.
    RedisEmptied,
    /// Everything that the nodes ask of MongoDB takes longer.
    StoreSlow,
}

/// All faults, in turn. Their number is odd, so that the next round has the other node.
const FAULTS: [ClientFault; 13] = [
    ClientFault::Cut,
    ClientFault::Killed,
    ClientFault::AnswersLost,
    ClientFault::Paused,
    ClientFault::Refused,
    ClientFault::CutFromRedis,
    ClientFault::Frozen,
    ClientFault::Behind,
    ClientFault::Slow,
    ClientFault::Ended,
    ClientFault::StorePaused,
    ClientFault::RedisEmptied,
    ClientFault::StoreSlow,
];
/// The number of faults after which each has been there.
pub(super) const ROUND: u64 = FAULTS.len() as u64;
/// How long a link or a node is disturbed. A node that is cut from Redis trusts its memory at first.
const LASTS: Duration = Duration::from_millis(1_500);
/// How long answers are held before they are lost.
const HELD: Duration = Duration::from_millis(200);
/// How late the answers of a slow node are.
const LATE: Mode = Mode::Late(Duration::from_millis(20), Duration::from_millis(200));
/// The pause between two faults, once all nodes trust their memories again.
const HEALTHY_FOR: Duration = Duration::from_millis(300);

/// Goes on until the program has ended. Returns the number of faults.
pub(super) async fn disturb(site: &mut Site, links: &[Proxy], is_over: &AtomicBool) -> Result<u64> {
    let nodes = links.len();
    for (step, fault) in FAULTS.into_iter().cycle().enumerate() {
        if is_over.load(Ordering::Relaxed) {
            return Ok(step as u64);
        }
        let at = step % nodes;
        fault.inject(site, at, &links[at]).await?;
        site.until_trusted().await?;
        sleep(HEALTHY_FOR).await;
    }
    Ok(0)
}

impl ClientFault {
    /// Runs the fault of this node, and ends it.
    async fn inject(self, site: &mut Site, at: usize, link: &Proxy) -> Result<()> {
        let Member { node, to_redis, .. } = &mut site.members[at];
        match self {
            Self::Cut => link.cut(),
            Self::Refused => lasting(link, Mode::Refuse).await,
            Self::Frozen => lasting(link, Mode::Freeze).await,
            Self::Slow => lasting(link, LATE).await,
            Self::CutFromRedis => lasting(to_redis, Mode::Refuse).await,
            Self::AnswersLost => {
                link.set(Mode::HoldAnswers);
                sleep(HELD).await;
                link.set(Mode::Refuse);
                link.set(Mode::Pass);
            }
            Self::Behind => {
                to_redis.set_subscriptions(Mode::Freeze);
                sleep(LASTS).await;
                to_redis.set_subscriptions(Mode::Pass);
            }
            Self::Paused => {
                node.signal("STOP")?;
                sleep(LASTS).await;
                node.signal("CONT")?;
            }
            Self::Killed => {
                node.kill();
                sleep(HELD).await;
                node.run()?;
            }
            Self::Ended => {
                node.end().await?;
                node.run()?;
            }
            Self::StorePaused => {
                let store = site.mongod.member(0).context("there is a MongoDB")?;
                store.signal("STOP")?;
                sleep(LASTS).await;
                store.signal("CONT")?;
            }
            Self::RedisEmptied => drop::<Value>(site.redis.ask(&["FLUSHALL"]).await?),
            Self::StoreSlow => {
                site.mongodb_links(LATE);
                sleep(LASTS).await;
                site.mongodb_links(Mode::Pass);
            }
        }
        Ok(())
    }
}

async fn lasting(link: &Proxy, mode: Mode) {
    link.set(mode);
    sleep(LASTS).await;
    link.set(Mode::Pass);
}
