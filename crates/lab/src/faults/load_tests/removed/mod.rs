//! Members are removed from groups while they send, and are added again: nothing whose send began after the
//! removal was acknowledged is stored, and who was removed reads nothing that came after (C14).

mod group;
mod remover;
mod tally;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic::transport::Channel;

use self::{group::RemovalGroup, remover::Remover, tally::RemovalTally};
use super::{
    Sizes,
    progress::{LONGEST, Progress, all_ended},
};
use crate::faults::{
    Figure, Plan, Site,
    messages::{self, PreparedCall},
    site::NAME,
};

/// One node takes the removals, the others get the removed users' calls.
const NODES: u32 = 3;
/// Groups from which members are removed at the same time.
const GROUPS: i64 = 16;
/// Users in each group who are removed by turns, besides its owner.
const MEMBERS: i64 = 2;
/// There is one removal for this many writes in other rows.
const FEWER: u64 = 10;

/// The state that a run's tasks share.
#[derive(Debug)]
struct RemovalState {
    nodes: Vec<Channel>,
    /// Members that are removed.
    progress: Progress,
    values: AtomicU64,
    tally: Mutex<RemovalTally>,
}

impl RemovalState {
    /// A value that no message has yet.
    fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }
}

/// Figures: removals, and messages that were wrongly stored or read.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let site = Site::with_users(&plan, GROUPS * (MEMBERS + 1)).await?;
    let state = Arc::new(RemovalState {
        nodes: site.channels(),
        progress: Progress::new("members are removed", sizes.writes.div_ceil(FEWER)),
        values: AtomicU64::new(1),
        tally: Mutex::default(),
    });
    let began = Instant::now();
    let groups = timeout(LONGEST, send_and_remove(&state)).await;
    let groups = groups.context("too few members are removed in time")??;
    let took = began.elapsed();
    let logs = messages::stored(&site.mongod.database(NAME).await?).await?;
    groups.iter().for_each(|group| group.judge(&logs));
    let mut figures = state.tally.lock().figures(&state.progress);
    figures.push(Figure::took(took));
    Ok(figures)
}

/// Ends with the first error, or when enough members were removed and all have ended.
async fn send_and_remove(state: &Arc<RemovalState>) -> Result<Vec<Arc<RemovalGroup>>> {
    let (mut tasks, mut groups) = (JoinSet::new(), Vec::new());
    for number in 1..=GROUPS {
        let group = Arc::new(RemovalGroup::create(state, number).await?);
        for member in 0..group.members.len() {
            tasks.spawn(Arc::clone(&group).send_repeatedly(member));
        }
        tasks.spawn(Remover::new(&group).work());
        groups.push(group);
    }
    all_ended(tasks).await?;
    Ok(groups)
}
