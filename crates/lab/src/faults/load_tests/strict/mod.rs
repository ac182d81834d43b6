//! What users set about others, and who is in a group, is set on one node, and asked of another one as soon as it is
//! acknowledged: no decision may be that of before.

mod caller;
mod faults;
mod kicker;
mod pair;
mod tally;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic::transport::Channel;

pub(super) use self::faults::StrictFault;
use self::{caller::Caller, kicker::Kicker, tally::StrictTally};
use super::Sizes;
use crate::faults::{Better, Figure, Plan, Site};

/// One writes, the other one is asked.
const NODES: u32 = 2;
/// Each has pairs of its own.
const CALLERS: i64 = 32;
/// Longer than any of these rows takes in a healthy laboratory.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// The shared state of callers.
#[derive(Debug)]
struct StrictDesk {
    /// The channels of the writer and of the reader.
    nodes: Vec<Channel>,
    /// Writes that are to be acknowledged, in all.
    goal: u64,
    /// One in so many has a `request_id`.
    named_every: u32,
    acknowledged: AtomicU64,
    over: AtomicBool,
    tally: Mutex<StrictTally>,
}

impl StrictDesk {
    fn has_enough(&self) -> bool {
        self.acknowledged.load(Ordering::Relaxed) >= self.goal
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.has_enough()
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
    let (acknowledged, over, tally) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::default());
    let (goal, named_every) = (fault.writes(sizes.writes), fault.named_every());
    let desk = Arc::new(StrictDesk { nodes: site.channels(), goal, named_every, acknowledged, over, tally });
    let (began, mut calling) = (Instant::now(), JoinSet::new());
    for number in 1..=CALLERS {
        match about {
            StrictSubject::Blocks => calling.spawn(Caller::new(&desk, number, plan.seed).work()),
            StrictSubject::Members => calling.spawn(Kicker::new(&desk, number, plan.seed).work()),
        };
    }
    let disturbed = timeout(LONGEST, fault.go_on(&mut site, &desk)).await;
    let took = began.elapsed();
    desk.over.store(true, Ordering::Relaxed);
    while let Some(caller) = calling.join_next().await {
        caller??;
    }
    let times = disturbed.context("too few writes are acknowledged")??;
    let mut figures = desk.tally.lock().figures(desk.goal);
    figures.extend(fault.figure(times));
    figures.push(Figure::told("took", "s", took.as_secs_f64(), Better::Lower));
    Ok(figures)
}
