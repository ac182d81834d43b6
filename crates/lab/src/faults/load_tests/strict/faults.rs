//! What is done to the two nodes meanwhile, again and again.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kith_lab_servers::proxy::Mode;
use tokio::time::sleep;

use super::StrictDesk;
use crate::faults::{Figure, Member, Node, Site};

/// How a way to Redis is closed, by turns.
const CUTS: [Mode; 3] = [Mode::Refuse, Mode::Freeze, Mode::Deaf];
/// For so long: memory is trusted at first, and then not any more.
const CUT_FOR: Duration = Duration::from_secs(2);
/// Between two faults, once both nodes trust their memories again.
const WHOLE_FOR: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(20);
/// Where something is wrong there are so many times fewer writes: most wait.
const FEWER: u64 = 10;
/// The writer dies every this many times between a commit and its broadcast.
const DIES: &str = "after_commit=die@300";

/// Of one of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::faults::load_tests) enum StrictFault {
    /// Nothing is wrong.
    Nothing,
    WriterCut,
    ReaderCut,
    /// Between commit and broadcast; and it is started again.
    WriterDies,
}

impl StrictFault {
    /// How many are to be acknowledged, where it would be so many without a fault.
    pub(super) const fn writes(self, whole: u64) -> u64 {
        match self {
            Self::Nothing => whole,
            Self::WriterCut | Self::ReaderCut | Self::WriterDies => whole.div_ceil(FEWER),
        }
    }

    /// One write in so many can be sent again: where much fails, every second one. To keep a request costs the store as
    /// much as a block itself.
    pub(super) const fn named_every(self) -> u32 {
        if matches!(self, Self::Nothing) { 8 } else { 2 }
    }

    /// Goes on until enough is acknowledged. Returns how often it was.
    pub(super) async fn go_on(self, site: &mut Site, desk: &StrictDesk) -> Result<u64> {
        let mut times = 0;
        while !desk.progress.has_enough() {
            match self {
                Self::Nothing => sleep(LOOK).await,
                Self::WriterCut => cut(site, 0, times).await?,
                Self::ReaderCut => cut(site, 1, times).await?,
                Self::WriterDies => die(site, desk).await?,
            }
            times += 1;
        }
        Ok(times)
    }

    /// How often it was; none where nothing is done.
    pub(super) fn figure(self, times: u64) -> Option<Figure> {
        let what = match self {
            Self::Nothing => return None,
            Self::WriterCut | Self::ReaderCut => "cuts",
            Self::WriterDies => "deaths",
        };
        Some(Figure::at_least_count(what, times, 1))
    }
}

async fn cut(site: &mut Site, at: usize, times: u64) -> Result<()> {
    let Member { to_redis, .. } = site.members.get(at).context("there are two nodes")?;
    to_redis.set(CUTS[usize::try_from(times)? % CUTS.len()]);
    sleep(CUT_FOR).await;
    to_redis.set(Mode::Pass);
    site.until_trusted().await?;
    sleep(WHOLE_FOR).await;
    Ok(())
}

async fn die(site: &mut Site, desk: &StrictDesk) -> Result<()> {
    let node: &mut Node = &mut site.members.first_mut().context("there are two nodes")?.node;
    node.kill();
    node.run_with_variables(&[("KITH_FAILPOINT", DIES)])?;
    while !node.ended()? && !desk.progress.has_enough() {
        sleep(LOOK).await;
    }
    ensure!(desk.progress.has_enough() || node.died()?, "the program is no build with fail points");
    Ok(())
}
