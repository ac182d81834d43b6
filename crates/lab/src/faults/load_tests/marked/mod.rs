//! Notices and messages are marked through three nodes while these lose Redis, or a node dies between the
//! store and Redis: no acknowledged mark is missing, and counts become what the store has.

mod faults;
mod judge;
mod messages;
mod notices;

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::task::JoinSet;

pub(super) use self::faults::MarkLoss;
use self::{messages::MessageReaders, notices::Marker};
use super::{Sizes, progress::disturb, workload::Workload};
use crate::faults::{Better, Figure, Plan, Site, figure::float};

const NODES: u32 = 3;
/// Callers who mark notices, and as many who mark messages: each has its own readers.
const CALLERS: i64 = 16;
/// There is one mark for this many writes in other rows.
const FEWER: u64 = 10;
/// The shortest time for which bitmaps can be kept.
const BITMAPS_KEPT: Duration = Duration::from_secs(60);

/// Attempts beyond each call's first.
const AGAIN: &str = "calls sent again";

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
    let goal = sizes.writes.div_ceil(FEWER);
    let state = Workload::new(nodes, plan.seed, "marks are acknowledged", goal);
    let disturbance = faults::inject(&mut site, &state, loss);
    let (faults, known, took) = disturb(&state.progress, begin(&state, last), disturbance).await?;
    site.until_trusted().await?;
    let marks = known.into_iter().fold(KnownMarks::default(), KnownMarks::and);
    let mut figures = judge::figures(&site, &state, &marks, loss).await?;
    figures.extend([
        state.done("marks"),
        Figure::without_target(AGAIN, "count", float(state.counted(AGAIN)), Better::Lower),
        faults,
        Figure::took(took),
    ]);
    Ok(figures)
}

fn begin(state: &Arc<Workload>, last: i64) -> JoinSet<Result<KnownMarks>> {
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

/// Counts marks that one call acknowledged after `sends` attempts.
fn acknowledge(state: &Workload, marks: usize, sends: u64) {
    state.progress.add(u64::try_from(marks).unwrap_or_default());
    state.count(AGAIN, sends.saturating_sub(1));
}

impl KnownMarks {
    /// Combines both sets of marks.
    fn and(mut self, other: Self) -> Self {
        self.notices.extend(other.notices);
        self.messages.extend(other.messages);
        self
    }
}
