//! Notices and messages are marked through three nodes while these lose Redis, or a node dies between the
//! store and Redis: no acknowledged mark is missing, and counts become what the store has.

mod faults;
mod judge;
mod messages;
mod notices;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use tokio::task::JoinSet;
use tonic::transport::Channel;

pub(super) use self::faults::MarkLoss;
use self::{messages::MessageReaders, notices::Marker};
use super::{
    Sizes,
    progress::{Progress, disturb},
};
use crate::faults::{Better, Figure, Plan, Site, figure::float};

const NODES: u32 = 3;
/// Callers who mark notices, and as many who mark messages: each has its own readers.
const CALLERS: i64 = 16;
/// There is one mark for this many writes in other rows.
const FEWER: u64 = 10;
/// The shortest time for which bitmaps can be kept.
const BITMAPS_KEPT: Duration = Duration::from_secs(60);

/// The state that a run's tasks share.
#[derive(Debug)]
struct MarkState {
    nodes: Vec<Channel>,
    /// Marks that are acknowledged.
    progress: Progress,
    /// Calls that were sent again.
    again: AtomicU64,
    seed: u64,
}

impl MarkState {
    /// Counts marks that one call acknowledged after `sends` attempts.
    fn acknowledge(&self, marks: usize, sends: u64) {
        self.progress.add(u64::try_from(marks).unwrap_or_default());
        self.again.fetch_add(sends.saturating_sub(1), Ordering::Relaxed);
    }
}

/// The marks that callers know at the end.
#[derive(Debug, Default)]
struct KnownMarks {
    notices: notices::NoticeModel,
    messages: messages::MessageModel,
}

/// Figures: marks that are missing, and how long counts were wrong.
pub(super) async fn run(plan: &Plan, sizes: &Sizes, loss: MarkLoss) -> Result<Vec<Figure>> {
    let kept = format!("notices.bitmaps_kept={}s", BITMAPS_KEPT.as_secs());
    let plan = Plan { nodes: NODES, settings: vec![kept], ..plan.clone() };
    let mut site = Site::with_cassandra(&plan).await?;
    let nodes = site.channels();
    notices::publish(&nodes[0]).await?;
    let last = messages::send_all(&nodes[0]).await?;
    let progress = Progress::new("marks are acknowledged", sizes.writes.div_ceil(FEWER));
    let state = Arc::new(MarkState { nodes, progress, again: AtomicU64::new(0), seed: plan.seed });
    let disturbance = faults::inject(&mut site, &state, loss);
    let (faults, known, took) = disturb(&state.progress, begin(&state, last), disturbance).await?;
    site.until_trusted().await?;
    let marks = known.into_iter().fold(KnownMarks::default(), KnownMarks::and);
    let mut figures = judge::figures(&site, &state, &marks, loss).await?;
    let again = float(state.again.load(Ordering::Relaxed));
    figures.extend([
        Figure::at_least_count("marks", state.progress.done(), state.progress.goal()),
        Figure::without_target("calls sent again", "count", again, Better::Lower),
        faults,
        Figure::took(took),
    ]);
    Ok(figures)
}

fn begin(state: &Arc<MarkState>, last: i64) -> JoinSet<Result<KnownMarks>> {
    let mut calling = JoinSet::new();
    for caller in 0..CALLERS {
        let marker = Marker::new(state, caller);
        calling
            .spawn(async move { Ok(KnownMarks { notices: marker.work().await?, ..KnownMarks::default() }) });
        let readers = MessageReaders::new(state, caller, last);
        calling.spawn(
            async move { Ok(KnownMarks { messages: readers.work().await?, ..KnownMarks::default() }) },
        );
    }
    calling
}

impl KnownMarks {
    /// Combines both sets of marks.
    fn and(mut self, other: Self) -> Self {
        self.notices.extend(other.notices);
        self.messages.extend(other.messages);
        self
    }
}
