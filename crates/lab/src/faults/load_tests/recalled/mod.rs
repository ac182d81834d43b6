//! Messages are recalled and edited on one node and read on the others at once, while the nodes are cut from
//! Redis or paused in sequence: no read that began after the acknowledgement shows the previous content.

mod reader;
mod removed_contents;
mod tally;
mod writer;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use kith_lab_servers::proxy::Mode;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use self::{reader::Reader, removed_contents::RemovedContents, tally::RecallTally, writer::Writer};
use super::{
    Sizes,
    progress::{Progress, disturb},
    site_fault::{FaultTurns, SiteFault},
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

/// The state that a run's tasks share.
#[derive(Debug)]
struct RecallState {
    nodes: Vec<Channel>,
    /// Messages that are changed.
    progress: Progress,
    values: AtomicU64,
    removed: RemovedContents,
    tally: Mutex<RecallTally>,
}

impl MessagePair {
    const fn of(number: i64) -> Self {
        Self { one: 2 * number - 1, other: 2 * number }
    }

    fn conversation(self) -> String {
        format!("d{}-{}", self.one, self.other)
    }
}

impl RecallState {
    /// A value that no message has yet.
    fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }
}

/// Figures: changes, and reads that show the previous content.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, 2 * PAIRS).await?;
    let state = Arc::new(RecallState {
        nodes: site.channels(),
        progress: Progress::new("messages are changed", sizes.writes.div_ceil(FEWER)),
        // 0 belongs to messages without content.
        values: AtomicU64::new(1),
        removed: RemovedContents::default(),
        tally: Mutex::default(),
    });
    let disturbance = FAULTS.inject(&mut site, &state.progress);
    let (times, _, took) = disturb(&state.progress, begin(&state, plan.seed), disturbance).await?;
    for number in 1..=PAIRS {
        Reader::new(&state, MessagePair::of(number)).read_all().await;
    }
    let mut figures = state.tally.lock().figures(&state.progress);
    figures.extend([Figure::at_least_count("cuts and pauses", times, 1), Figure::took(took)]);
    Ok(figures)
}

fn begin(state: &Arc<RecallState>, seed: u64) -> JoinSet<Result<()>> {
    let mut calling = JoinSet::new();
    for pair in (1..=PAIRS).map(MessagePair::of) {
        calling.spawn(Writer::new(state, pair, seed).work());
        calling.spawn(Reader::new(state, pair).work());
    }
    calling
}
