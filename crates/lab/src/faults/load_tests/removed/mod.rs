//! Members are removed from groups while they send, and are added again: nothing whose send began after the
//! removal was acknowledged is stored, and who was removed reads nothing that came after (C14).

mod group;
mod remover;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use self::{group::RemovalGroup, remover::Remover};
use super::{
    Sizes,
    progress::{LONGEST, all_ended},
    workload::Workload,
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

/// Sends by users who were not members.
const FORBIDDEN: &str = "sends of removed users";
/// Reads by users who were not members.
const READS: &str = "reads of removed users";
/// A send that began after the removal was answered with a number.
const ACKNOWLEDGED: &str = "sends of removed users acknowledged";
/// A message whose send began after the removal is in the log.
const STORED: &str = "messages of removed users stored";
/// A removed user reads a message from after its removal.
const READ_BEYOND: &str = "reads beyond a removal";
/// A user who came back reads a message that was sent while it was not a member.
const READ_OF_ABSENCE: &str = "reads of an absence";
/// A member may not send.
const REFUSED: &str = "members refused";

/// Figures: removals, and messages that were wrongly stored or read.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let site = Site::with_users(&plan, GROUPS * (MEMBERS + 1)).await?;
    let goal = sizes.writes.div_ceil(FEWER);
    let state = Workload::new(site.channels(), plan.seed, "members are removed", goal);
    let began = Instant::now();
    let groups = timeout(LONGEST, send_and_remove(&state)).await;
    let groups = groups.context("too few members are removed in time")??;
    let took = began.elapsed();
    let logs = messages::stored(&site.mongod.database(NAME).await?).await?;
    groups.iter().for_each(|group| group.judge(&logs));
    // Each removal is followed by two sends.
    let forbidden = Figure::at_least_count(FORBIDDEN, state.counted(FORBIDDEN), state.progress.done());
    let mut figures = vec![state.done("removals"), forbidden, Figure::took(took)];
    figures.extend(state.counts([READS]));
    figures.extend(state.violations([ACKNOWLEDGED, STORED, READ_BEYOND, READ_OF_ABSENCE, REFUSED]));
    figures.extend(state.failures());
    Ok(figures)
}

/// Ends with the first error, or when enough members were removed and all have ended.
async fn send_and_remove(state: &Arc<Workload>) -> Result<Vec<Arc<RemovalGroup>>> {
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
