//! Faults in Redis and the nodes, in sequence.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::{proxy::Mode, resp::Value};
use tokio::time::sleep;

use super::MarkState;
use crate::faults::{Figure, Site};

/// The kinds of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::faults::load_tests) enum MarkLoss {
    /// Redis loses its data, dies, or loses its links to nodes.
    Redis,
    /// The node that has a mark in the store and not in Redis.
    Node,
}

/// A fault in Redis.
#[derive(Clone, Copy, Debug)]
enum RedisFault {
    Emptied,
    Killed,
    Cut(Mode),
}

const FAULTS: [RedisFault; 5] = [
    RedisFault::Emptied,
    RedisFault::Killed,
    RedisFault::Cut(Mode::Refuse),
    RedisFault::Cut(Mode::Freeze),
    RedisFault::Cut(Mode::HoldAnswers),
];
/// How long a node is cut, or Redis is away.
const LASTS: Duration = Duration::from_secs(2);
/// How often Redis is emptied, and the pause between.
const EMPTIED: usize = 3;
const BETWEEN: Duration = Duration::from_millis(300);
/// The pause between two faults, once all nodes trust their memories again.
const HEALTHY_FOR: Duration = Duration::from_millis(500);
/// The node dies at one in this many writes.
const DIES: &str = "after_commit=die@25";
/// The minimum number of deaths, and how long a death may take.
const DEATHS_MIN: u64 = 3;
const DIES_WITHIN: Duration = Duration::from_secs(60);

/// How often each was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MarkFaultCounts {
    emptied: u64,
    killed: u64,
    cut: u64,
    deaths: u64,
}

impl MarkFaultCounts {
    pub(super) fn figures(self) -> Vec<Figure> {
        let of = [
            ("Redis emptied", self.emptied),
            ("Redis killed", self.killed),
            ("nodes cut", self.cut),
            ("nodes dead", self.deaths),
        ];
        let done = of.into_iter().filter(|(_, times)| *times > 0);
        done.map(|(name, times)| Figure::count(name, times)).collect()
    }
}

/// Goes on until enough marks are acknowledged, and each fault was there once.
pub(super) async fn inject(site: &mut Site, state: &MarkState, loss: MarkLoss) -> Result<MarkFaultCounts> {
    match loss {
        MarkLoss::Redis => lose_redis(site, state).await,
        MarkLoss::Node => lose_node(site, state).await,
    }
}

async fn lose_redis(site: &mut Site, state: &MarkState) -> Result<MarkFaultCounts> {
    let mut times = MarkFaultCounts::default();
    for step in 0_usize.. {
        if step >= FAULTS.len() && state.progress.has_enough() {
            break;
        }
        match FAULTS[step % FAULTS.len()] {
            RedisFault::Emptied => {
                for _ in 0..EMPTIED {
                    drop::<Value>(site.redis.ask(&["FLUSHALL"]).await?);
                    times.emptied += 1;
                    sleep(BETWEEN).await;
                }
            }
            RedisFault::Killed => {
                site.redis.kill();
                times.killed += 1;
                sleep(LASTS).await;
                site.redis.restart(None).await?;
            }
            RedisFault::Cut(mode) => {
                let at = step % site.members.len();
                let link = &site.members.get(at).context("there are three nodes")?.to_redis;
                link.set(mode);
                times.cut += 1;
                sleep(LASTS).await;
                link.set(Mode::Pass);
            }
        }
        site.until_trusted().await?;
        sleep(HEALTHY_FOR).await;
    }
    Ok(times)
}

/// The nodes die in sequence, each after it has written to the store and to nothing else.
async fn lose_node(site: &mut Site, state: &MarkState) -> Result<MarkFaultCounts> {
    let mut times = MarkFaultCounts::default();
    for at in (0..site.members.len()).cycle() {
        if times.deaths >= DEATHS_MIN && state.progress.has_enough() {
            break;
        }
        let node = &mut site.members.get_mut(at).context("there are three nodes")?.node;
        node.kill();
        node.run_with_variables(&[("KITH_FAILPOINT", DIES)])?;
        node.until_died(DIES_WITHIN).await.context("is the program a build with fail points?")?;
        times.deaths += 1;
        node.run()?;
        site.until_trusted().await?;
    }
    Ok(times)
}
