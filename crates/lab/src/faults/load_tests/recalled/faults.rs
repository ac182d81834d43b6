//! Faults in the nodes, in sequence.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_lab_servers::proxy::Mode;
use tokio::time::sleep;

use super::RecallState;
use crate::faults::{Figure, Member, Site};

/// How a node's link to Redis is closed, in turn; `None`: the node is paused.
const FAULTS: [Option<Mode>; 4] = [Some(Mode::Refuse), None, Some(Mode::Freeze), Some(Mode::HoldAnswers)];
/// How long a node is cut or paused. It trusts its memory at first; after the longer time it does not any
/// more.
const LASTS: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(700)];
/// The pause between two faults, once all nodes trust their memories again.
const HEALTHY_FOR: Duration = Duration::from_millis(500);

/// How often each was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecallFaultCounts {
    cuts: u64,
    pauses: u64,
}

impl RecallFaultCounts {
    pub(super) fn figures(self) -> [Figure; 2] {
        let all = Figure::at_least_count("cuts and pauses", self.cuts + self.pauses, 1);
        [all, Figure::count("pauses", self.pauses)]
    }
}

/// Goes on until enough is changed. Each node has each fault, for each time.
pub(super) async fn inject(site: &mut Site, state: &RecallState) -> Result<RecallFaultCounts> {
    let (mut times, nodes) = (RecallFaultCounts::default(), site.members.len());
    for step in 0_usize.. {
        if state.progress.has_enough() {
            break;
        }
        let (fault, lasts) = (FAULTS[step / nodes % FAULTS.len()], LASTS[step / nodes / FAULTS.len() % 2]);
        let member = site.members.get(step % nodes).context("there are three nodes")?;
        disturb(member, fault, lasts).await?;
        site.until_trusted().await?;
        sleep(HEALTHY_FOR).await;
        match fault {
            Some(_) => times.cuts += 1,
            None => times.pauses += 1,
        }
    }
    Ok(times)
}

async fn disturb(Member { node, to_redis, .. }: &Member, fault: Option<Mode>, lasts: Duration) -> Result<()> {
    match fault {
        Some(mode) => to_redis.set(mode),
        None => node.signal("STOP")?,
    }
    sleep(lasts).await;
    match fault {
        Some(_) => to_redis.set(Mode::Pass),
        None => node.signal("CONT")?,
    }
    Ok(())
}
