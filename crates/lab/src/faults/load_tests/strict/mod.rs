//! Callers write blocks, permissions or memberships on one node, and read them from the other node as soon as
//! a write is acknowledged. No answer may use the previous value.

mod caller;
mod faults;
mod group_caller;
mod pair;
mod tally;

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tonic::transport::Channel;

pub(super) use self::faults::StrictFault;
use self::{caller::Caller, group_caller::GroupCaller, tally::StrictTally};
use super::{
    Sizes,
    progress::{Progress, disturb},
};
use crate::faults::{Figure, Plan, Site};

/// A node for the writes, and a node for the reads.
const NODES: u32 = 2;
/// Each has its own pairs, or its own group.
const CALLERS: i64 = 32;

/// The state that callers share.
#[derive(Debug)]
struct StrictState {
    /// The writer's and the reader's channels.
    nodes: Vec<Channel>,
    /// Writes that are acknowledged.
    progress: Progress,
    /// One write in this many has a `request_id`.
    id_every: u32,
    tally: Mutex<StrictTally>,
}

/// The state that is written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrictSubject {
    /// Blocks and permissions.
    Blocks,
    /// Group membership.
    Members,
}

/// Runs the row. The figures: acknowledged writes, decisions, failed calls, and how often the fault occurred.
pub(super) async fn run(
    plan: &Plan,
    sizes: &Sizes,
    subject: StrictSubject,
    fault: StrictFault,
) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, CALLERS).await?;
    let progress = Progress::new("writes are acknowledged", fault.writes(sizes.writes));
    let (nodes, id_every, tally) = (site.channels(), fault.id_every(), Mutex::default());
    let state = Arc::new(StrictState { nodes, progress, id_every, tally });
    let mut calling = JoinSet::new();
    for number in 1..=CALLERS {
        match subject {
            StrictSubject::Blocks => calling.spawn(Caller::new(&state, number, plan.seed).work()),
            StrictSubject::Members => calling.spawn(GroupCaller::new(&state, number, plan.seed).work()),
        };
    }
    let (times, _, took) = disturb(&state.progress, calling, fault.inject(&mut site, &state)).await?;
    let mut figures = state.tally.lock().figures(&state.progress);
    figures.extend(fault.figure(times));
    figures.push(Figure::took(took));
    Ok(figures)
}
