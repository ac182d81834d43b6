//! An owner and two admins, each through another node, decide the same applications while a node is killed
//! every few seconds. Each application must be decided once, and the effect of an acceptance applied once
//! (C11).

mod group;
mod members;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use self::group::DecidedGroup;
use super::{
    Sizes,
    progress::{LONGEST, all_ended},
    workload::Workload,
};
use crate::faults::{Figure, Plan, Site};

/// One node for each user who decides.
const NODES: u32 = 3;
/// Applications to one group, each by another user.
const OF_A_GROUP: i64 = 50;
/// Groups whose applications are decided at the same time.
const AT_ONCE: usize = 8;
/// The goal is this many times fewer applications than other rows have writes.
const FEWER: u64 = 10;
/// Time between two kills.
const DEATH_EVERY: Duration = Duration::from_secs(5);
/// Time before the first kill, so that a short run has a kill, too.
const DEATH_FIRST: Duration = Duration::from_secs(1);
/// Time limit for other nodes to complete what a dead node left, including a reserve for a busy machine.
const SETTLED_AFTER: Duration = Duration::from_secs(30);

/// Applications that are decided.
const DECIDED: &str = "applications decided";
const ACCEPTED: &str = "accepted";
const LEFT: &str = "left afterwards";
/// Answers to later decisions, and to repeated calls, that agree with the first answer.
const LATER: &str = "later answers that agree";
/// Two answers report different decisions.
const DECIDED_TWICE: &str = "decided twice";
/// A decision was answered and is not stored.
const LOST: &str = "decisions lost";
/// An accepted application has no effect.
const NO_EFFECT: &str = "effects missing";
/// The effect was applied again after the user had left.
const EFFECT_AGAIN: &str = "effects applied again";
/// A user is a member without an accepted application.
const NOT_ACCEPTED: &str = "effects without an acceptance";
/// A group's count differs from its list, or two members have the same ordinal.
const MISCOUNTED: &str = "groups counted wrong";

/// Runs the row. The figures: decisions, violations, and killed nodes.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, i64::from(NODES) + OF_A_GROUP).await?;
    let goal = sizes.writes.div_ceil(FEWER);
    let group_count = goal.div_ceil(OF_A_GROUP.unsigned_abs());
    let state = Workload::new(site.channels(), plan.seed, "groups are decided", group_count);
    let began = Instant::now();
    let deciding = timeout(LONGEST, decide_all(&state, &mut site));
    let (groups, deaths) = deciding.await.context("the applications are not decided in time")??;
    let took = began.elapsed();
    site.until_trusted().await?;
    judge(groups).await?;
    let mut figures = vec![
        Figure::at_least_count(DECIDED, state.counted(DECIDED), goal),
        Figure::at_least_count("deaths", deaths, 1),
        Figure::took(took),
    ];
    let kinds = [DECIDED_TWICE, LOST, NO_EFFECT, EFFECT_AGAIN, NOT_ACCEPTED, MISCOUNTED];
    figures.extend(state.violations(kinds));
    figures.extend(state.counts([ACCEPTED, LEFT, LATER]));
    Ok(figures)
}

/// Decides all groups while nodes are killed. Returns the groups and the number of kills.
async fn decide_all(state: &Arc<Workload>, site: &mut Site) -> Result<(Vec<DecidedGroup>, u64)> {
    let mut deciding = JoinSet::new();
    for _ in 0..AT_ONCE {
        let state = Arc::clone(state);
        deciding.spawn(async move {
            let mut groups = Vec::new();
            loop {
                let number = state.value();
                if number > state.progress.goal() {
                    return anyhow::Ok(groups);
                }
                groups.push(DecidedGroup::decided(&state, i64::try_from(number)?).await?);
                state.progress.add(1);
            }
        });
    }
    let all = async {
        let groups = all_ended(deciding).await?;
        state.progress.end();
        anyhow::Ok(groups.into_iter().flatten().collect())
    };
    // An error ends the run at once, because further decisions would not be judged.
    tokio::try_join!(all, kill_by_turns(state, site))
}

async fn kill_by_turns(state: &Workload, site: &mut Site) -> Result<u64> {
    let mut deaths = 0;
    loop {
        let until = Instant::now() + if deaths == 0 { DEATH_FIRST } else { DEATH_EVERY };
        while Instant::now() < until {
            if state.progress.is_ended() {
                return Ok(deaths);
            }
            sleep(Duration::from_millis(50)).await;
        }
        let at = usize::try_from(deaths)? % site.members.len();
        let node = &mut site.members.get_mut(at).context("there are three nodes")?.node;
        node.kill();
        node.run()?;
        deaths += 1;
    }
}

/// Compares the final stored state with the answers.
async fn judge(groups: Vec<DecidedGroup>) -> Result<()> {
    let until = Instant::now() + SETTLED_AFTER;
    for group in groups {
        group.judge(until).await?;
        group.judge_members().await?;
    }
    Ok(())
}
