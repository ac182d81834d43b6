//! What users set about others, and who is in a group, is set on one node, and asked of another one as soon as it is
//! acknowledged: no decision may be that of before.

mod caller;
mod faults;
mod kicker;
mod pair;
mod tally;

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tonic::transport::Channel;

pub(super) use self::faults::StrictFault;
use self::{caller::Caller, kicker::Kicker, tally::StrictTally};
use super::{
    Sizes,
    progress::{Progress, disturb},
};
use crate::faults::{Figure, Plan, Site};

/// One writes, the other one is asked.
const NODES: u32 = 2;
/// Each has pairs of its own.
const CALLERS: i64 = 32;

/// The shared state of callers.
#[derive(Debug)]
struct StrictDesk {
    /// The channels of the writer and of the reader.
    nodes: Vec<Channel>,
    /// Writes that are acknowledged.
    progress: Progress,
    /// One in so many has a `request_id`.
    named_every: u32,
    tally: Mutex<StrictTally>,
}

impl StrictDesk {
    fn is_over(&self) -> bool {
        self.progress.is_ended() || self.progress.has_enough()
    }
}

/// What is set, and asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrictSubject {
    /// Blocks and permissions.
    Blocks,
    /// Who is in a group.
    Members,
}

/// Figures: what was acknowledged, what was decided, what failed.
pub(super) async fn run(
    plan: &Plan,
    sizes: &Sizes,
    about: StrictSubject,
    fault: StrictFault,
) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, CALLERS).await?;
    let progress = Progress::new("writes are acknowledged", fault.writes(sizes.writes));
    let (nodes, named_every, tally) = (site.channels(), fault.named_every(), Mutex::default());
    let desk = Arc::new(StrictDesk { nodes, progress, named_every, tally });
    let mut calling = JoinSet::new();
    for number in 1..=CALLERS {
        match about {
            StrictSubject::Blocks => calling.spawn(Caller::new(&desk, number, plan.seed).work()),
            StrictSubject::Members => calling.spawn(Kicker::new(&desk, number, plan.seed).work()),
        };
    }
    let (times, _, took) = disturb(&desk.progress, calling, fault.go_on(&mut site, &desk)).await?;
    let mut figures = desk.tally.lock().figures(&desk.progress);
    figures.extend(fault.figure(times));
    figures.push(Figure::took(took));
    Ok(figures)
}
