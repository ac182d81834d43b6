//! Messages are recalled and edited on one node and read on the others at once, while the nodes are cut from
//! Redis or paused in sequence: no read that began after the acknowledgement shows the previous content.

mod reader;
mod removed_contents;
mod writer;

use std::time::Duration;

use anyhow::Result;
use kith_lab_servers::proxy::Mode;
use tokio::task::JoinSet;

use self::{reader::Reader, removed_contents::RemovedContents, writer::Writer};
use super::{
    Sizes,
    progress::disturb,
    site_fault::{FaultTurns, SiteFault},
    workload::Workload,
};
use crate::faults::{Figure, Plan, Site};

/// One node takes the changes, the others serve the reads.
const NODES: u32 = 3;
/// Direct conversations, each with a writer and a reader.
const PAIRS: i64 = 16;
/// There is one change for this many writes in other rows.
const FEWER: u64 = 10;
/// Each node has each fault, for each time: it trusts its memory at first, and after the longer time it does
/// not any more.
const FAULTS: FaultTurns<'_> = FaultTurns {
    faults: &[
        SiteFault::NodeCut(Mode::Refuse),
        SiteFault::NodePaused,
        SiteFault::NodeCut(Mode::Freeze),
        SiteFault::NodeCut(Mode::HoldAnswers),
    ],
    node: None,
    lasts: &[Duration::from_secs(2), Duration::from_millis(700)],
    healthy_for: Duration::from_millis(500),
};

/// Two users who send each other messages.
#[derive(Clone, Copy, Debug)]
struct MessagePair {
    one: i64,
    other: i64,
}

/// Reads that were answered.
const READS: &str = "reads";
/// Reads that were made at once, and had the changed message.
const AT_ONCE: &str = "reads of changed messages at once";
/// A read showed a message's previous content.
const SHOWN: &str = "reads of previous content";

impl MessagePair {
    const fn of(number: i64) -> Self {
        Self { one: 2 * number - 1, other: 2 * number }
    }

    fn conversation(self) -> String {
        format!("d{}-{}", self.one, self.other)
    }
}

/// Figures: changes, and reads that show the previous content.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, 2 * PAIRS).await?;
    let goal = sizes.writes.div_ceil(FEWER);
    let state = Workload::new(site.channels(), plan.seed, "messages are changed", goal);
    let readers: Vec<Reader> =
        (1..=PAIRS).map(|number| Reader::new(&state, MessagePair::of(number))).collect();
    let mut calling = JoinSet::new();
    for reader in &readers {
        calling.spawn(Writer::new(&state, reader.clone()).work());
        calling.spawn(reader.clone().work());
    }
    let disturbance = FAULTS.inject(&mut site, &state.progress);
    let (times, _, took) = disturb(&state.progress, calling, disturbance).await?;
    for reader in &readers {
        reader.read_all().await;
    }
    let mut figures = vec![
        state.done("changes"),
        Figure::at_least_count(AT_ONCE, state.counted(AT_ONCE), goal),
        Figure::at_least_count("cuts and pauses", times, 1),
        Figure::took(took),
    ];
    figures.extend(state.counts([READS]));
    figures.extend(state.violations([SHOWN]));
    figures.extend(state.failures());
    Ok(figures)
}
