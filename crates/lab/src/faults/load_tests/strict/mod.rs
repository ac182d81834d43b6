//! Callers write blocks, permissions or memberships on one node, and read them from the other node as soon as
//! a write is acknowledged. No answer may use the previous value.

mod blocks;
mod caller;
mod faults;
mod members;

use anyhow::Result;
use tokio::task::JoinSet;

pub(super) use self::faults::StrictFault;
use self::{blocks::BlockSubject, caller::Caller, members::Members};
use super::{Sizes, progress::disturb, workload::Workload};
use crate::faults::{Better, Figure, Plan, Site, figure::float};

/// A node for the writes, and a node for the reads.
const NODES: u32 = 2;
/// Each has its own pairs, or its own group.
const CALLERS: i64 = 32;

const DECISIONS: &str = "decisions";
/// Decisions by a write with an unknown outcome that was applied later.
const LATER: &str = "decided by a later write";
const UNDECIDED: &str = "decisions that failed";
const UNACKNOWLEDGED: &str = "writes not acknowledged";
/// Decisions by the previous value.
const PREVIOUS: &str = "decisions by the previous value";

/// The state that is written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrictSubjects {
    /// Blocks and permissions.
    Blocks,
    /// Group membership.
    Members,
}

/// Runs the row. The figures: acknowledged writes, decisions, failed calls, and how often the fault occurred.
pub(super) async fn run(
    plan: &Plan,
    sizes: &Sizes,
    subjects: StrictSubjects,
    fault: StrictFault,
) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, CALLERS).await?;
    let goal = fault.writes(sizes.writes);
    let state = Workload::new(site.channels(), plan.seed, "writes are acknowledged", goal);
    let (mut calling, id_every) = (JoinSet::new(), fault.id_every());
    for number in 1..=CALLERS {
        match subjects {
            StrictSubjects::Blocks => {
                calling.spawn(Caller::new(&state, number, id_every, BlockSubject::of(number)).work())
            }
            StrictSubjects::Members => {
                let members = Members::of(number, &state.nodes).await?;
                calling.spawn(Caller::new(&state, number, id_every, members).work())
            }
        };
    }
    let (times, _, took) =
        disturb(&state.progress, calling, fault.inject(&mut site, &state.progress)).await?;
    let mut figures = vec![
        state.done("writes acknowledged"),
        Figure::without_target(LATER, "count", float(state.counted(LATER)), Better::Lower),
        share(&state, UNDECIDED, state.counted(DECISIONS)),
        share(&state, UNACKNOWLEDGED, state.progress.done()),
        Figure::took(took),
    ];
    figures.extend(state.counts([DECISIONS]));
    figures.extend(state.violations([PREVIOUS]));
    figures.extend(state.failures());
    figures.extend(fault.figure(times));
    Ok(figures)
}

/// The calls with this count, in percent among them and the others.
fn share(state: &Workload, name: &'static str, others: u64) -> Figure {
    let count = state.counted(name);
    let percent = 100.0 * float(count) / float((count + others).max(1));
    Figure::without_target(name, "percent", percent, Better::Lower)
}
