//! Members are removed from groups while these talk, and come back: nothing whose send began after the removal was acknowledged is
//! stored, and who was removed reads nothing that came after (C14).

mod group;
mod remover;
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

use self::{
    group::Talking,
    remover::Remover,
    tally::{RemovalTally, RemovalViolation},
};
use super::Sizes;
use crate::faults::{
    Better, Figure, Plan, Site,
    site::NAME,
    talk::{self, PreparedCall},
};

/// One removes, the others are called by who was removed.
const NODES: u32 = 3;
/// Groups from which members are removed at the same time.
const GROUPS: i64 = 16;
/// Users of each group who are removed by turns, besides its owner.
const SEATS: i64 = 2;
/// One in so many writes of other rows is a removal here.
const FEWER: u64 = 10;
/// Number of lines about the progress of a run.
const PROGRESS_LINES: u64 = 10;
/// Longer than a run takes in a healthy laboratory.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// The shared state of a run.
#[derive(Debug)]
struct RemovalDesk {
    nodes: Vec<Channel>,
    /// Removals that are to be acknowledged.
    goal: u64,
    removed: AtomicU64,
    over: AtomicBool,
    values: AtomicU64,
    tally: Mutex<RemovalTally>,
}

impl RemovalDesk {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// One that no message has yet.
    fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether there are enough.
    fn add_removal(&self) -> bool {
        let removed = self.removed.fetch_add(1, Ordering::Relaxed) + 1;
        if removed.is_multiple_of(self.goal.div_ceil(PROGRESS_LINES)) {
            eprintln!("{removed} members are removed, of {}", self.goal);
        }
        removed >= self.goal
    }
}

/// Figures: removals, and what was stored or read that should not have been.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let site = Site::with_users(&plan, GROUPS * (SEATS + 1)).await?;
    let desk = Arc::new(RemovalDesk {
        nodes: site.channels(),
        goal: sizes.writes.div_ceil(FEWER),
        removed: AtomicU64::new(0),
        over: AtomicBool::new(false),
        values: AtomicU64::new(1),
        tally: Mutex::default(),
    });
    let began = Instant::now();
    let groups = timeout(LONGEST, talk_and_remove(&desk)).await;
    let groups = groups.context("too few members are removed in time")??;
    let took = began.elapsed();
    let logs = talk::stored(&site.mongod.database(NAME).await?).await?;
    groups.iter().for_each(|group| group.judge(&logs));
    let mut figures = desk.tally.lock().figures(desk.goal, desk.removed.load(Ordering::Relaxed));
    figures.push(Figure::told("took", "s", took.as_secs_f64(), Better::Lower));
    Ok(figures)
}

/// Ends with the first error, or when enough members were removed and all have ended.
async fn talk_and_remove(desk: &Arc<RemovalDesk>) -> Result<Vec<Arc<Talking>>> {
    let (mut tasks, mut groups) = (JoinSet::new(), Vec::new());
    for number in 1..=GROUPS {
        let group = Arc::new(Talking::found(desk, number).await?);
        for seat in 0..group.seats.len() {
            tasks.spawn(Arc::clone(&group).talk(seat));
        }
        tasks.spawn(Remover::new(&group).work());
        groups.push(group);
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(groups)
}
