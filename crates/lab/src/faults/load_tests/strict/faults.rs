//! The two nodes' faults, which are repeated while callers call.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::proxy::Mode;
use tokio::time::sleep;

use crate::faults::{
    Figure, Site,
    load_tests::{
        progress::Progress,
        site_fault::{FaultTurns, SiteFault},
    },
};

/// A node's link to Redis is cut: long enough that the node first trusts its memory and then does not.
const CUTS: FaultTurns<'_> = FaultTurns {
    faults: &[
        SiteFault::NodeCut(Mode::Refuse),
        SiteFault::NodeCut(Mode::Freeze),
        SiteFault::NodeCut(Mode::HoldAnswers),
    ],
    node: None,
    lasts: &[Duration::from_secs(2)],
    healthy_for: Duration::from_millis(500),
};
/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(20);
/// With a fault, the goal has this many times fewer writes, because most of them wait.
const FEWER: u64 = 10;
/// The writer dies at every 300th commit, before its broadcast.
const DIES: &str = "after_commit=die@300";

/// The fault in a row of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::faults::load_tests) enum StrictFault {
    /// There is no fault.
    Nothing,
    /// The writer's link to Redis is cut.
    WriterCut,
    /// The reader's link to Redis is cut.
    ReaderCut,
    /// The writer dies between commit and broadcast, and is restarted.
    WriterDies,
}

impl StrictFault {
    /// The goal for acknowledged writes. `whole`: the goal without a fault.
    pub(super) const fn writes(self, whole: u64) -> u64 {
        match self {
            Self::Nothing => whole,
            Self::WriterCut | Self::ReaderCut | Self::WriterDies => whole.div_ceil(FEWER),
        }
    }

    /// One write in this many has a `request_id`, so that it can be sent again: every second write if many
    /// writes fail. Not all, because storing a request costs as much as a block.
    pub(super) const fn id_every(self) -> u32 {
        if matches!(self, Self::Nothing) { 8 } else { 2 }
    }

    /// Repeats the fault until enough writes are acknowledged. Returns how often it occurred.
    pub(super) async fn inject(self, site: &mut Site, progress: &Progress) -> Result<u64> {
        match self {
            Self::WriterCut => FaultTurns { node: Some(0), ..CUTS }.inject(site, progress).await,
            Self::ReaderCut => FaultTurns { node: Some(1), ..CUTS }.inject(site, progress).await,
            Self::WriterDies => {
                let mut deaths = 0;
                while !progress.has_enough() {
                    die(site, progress).await?;
                    deaths += 1;
                }
                Ok(deaths)
            }
            Self::Nothing => {
                while !progress.has_enough() {
                    sleep(LOOK).await;
                }
                Ok(0)
            }
        }
    }

    /// How often the fault occurred. `None` without a fault.
    pub(super) fn figure(self, times: u64) -> Option<Figure> {
        let name = match self {
            Self::Nothing => return None,
            Self::WriterCut | Self::ReaderCut => "cuts",
            Self::WriterDies => "deaths",
        };
        Some(Figure::at_least_count(name, times, 1))
    }
}

async fn die(site: &mut Site, progress: &Progress) -> Result<()> {
    let node = &mut site.members.first_mut().context("there are two nodes")?.node;
    node.kill();
    node.run_with_variables(&[("KITH_FAILPOINT", DIES)])?;
    while !node.ended()? && !progress.has_enough() {
        sleep(LOOK).await;
    }
    ensure!(progress.has_enough() || node.died()?, "the program is not a build with fail points");
    Ok(())
}
