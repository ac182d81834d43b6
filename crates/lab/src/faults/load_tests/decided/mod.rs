//! An owner and two admins, each through another node, decide about the same applications while a node is killed every few
//! seconds: each application is decided once, and what was accepted comes about once.

mod group;
mod roll;
mod tally;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tonic::transport::Channel;

use self::{group::Bench, tally::DecisionTally};
use super::{
    Sizes,
    progress::{LONGEST, Progress, all_ended},
};
use crate::faults::{Figure, Plan, Site};

/// One for each of those who decide.
const NODES: u32 = 3;
/// Applications to one group, each of another user.
const OF_A_GROUP: i64 = 50;
/// Groups that are decided about at the same time.
const AT_ONCE: usize = 8;
/// One in so many writes of other rows is an application here.
const FEWER: u64 = 10;
/// Between two deaths.
const DEATH_EVERY: Duration = Duration::from_secs(5);
/// Before the first one, so that one falls also into a short run.
const DEATH_FIRST: Duration = Duration::from_secs(1);
/// What a dead node left is done by others after at most so long, and some more for a machine that has much to do.
const SETTLED_AFTER: Duration = Duration::from_secs(30);

/// The shared state of a run.
#[derive(Debug)]
struct DecisionDesk {
    nodes: Vec<Channel>,
    tally: Mutex<DecisionTally>,
    /// Groups whose applications are decided.
    progress: Progress,
    /// The next group that was not begun.
    next: AtomicU64,
    seed: u64,
}

/// Figures: what was decided, what was wrong about it, and how many died meanwhile.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, i64::from(NODES) + OF_A_GROUP).await?;
    let goal = sizes.writes.div_ceil(FEWER);
    let groups = goal.div_ceil(OF_A_GROUP.unsigned_abs());
    let desk = Arc::new(DecisionDesk {
        nodes: site.channels(),
        tally: Mutex::default(),
        progress: Progress::new("groups are decided", groups),
        next: AtomicU64::new(0),
        seed: plan.seed,
    });
    let began = Instant::now();
    let benches = timeout(LONGEST, decide_all(&desk, &mut site));
    let (benches, deaths) = benches.await.context("the applications are not decided in time")??;
    let took = began.elapsed();
    site.until_trusted().await?;
    judge(benches).await?;
    let mut figures = desk.tally.lock().figures(goal);
    figures.extend([Figure::at_least_count("deaths", deaths, 1), Figure::took(took)]);
    Ok(figures)
}

/// Has all groups decided, while nodes die. Returns how many died.
async fn decide_all(desk: &Arc<DecisionDesk>, site: &mut Site) -> Result<(Vec<Bench>, u64)> {
    let mut deciding = JoinSet::new();
    for _ in 0..AT_ONCE {
        let desk = Arc::clone(desk);
        deciding.spawn(async move {
            let mut benches = Vec::new();
            loop {
                let number = desk.next.fetch_add(1, Ordering::Relaxed);
                if number >= desk.progress.goal() {
                    return anyhow::Ok(benches);
                }
                benches.push(Bench::decided(&desk, i64::try_from(number)? + 1).await?);
                desk.progress.add(1);
            }
        });
    }
    let all = async {
        let benches = all_ended(deciding).await?;
        desk.progress.end();
        anyhow::Ok(benches.into_iter().flatten().collect())
    };
    // An error ends the run at once: what could still be decided would not be judged.
    tokio::try_join!(all, kill_by_turns(desk, site))
}

async fn kill_by_turns(desk: &DecisionDesk, site: &mut Site) -> Result<u64> {
    let mut deaths = 0;
    loop {
        let until = Instant::now() + if deaths == 0 { DEATH_FIRST } else { DEATH_EVERY };
        while Instant::now() < until {
            if desk.progress.is_ended() {
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

/// Compares what the store has in the end with what was answered.
async fn judge(benches: Vec<Bench>) -> Result<()> {
    let until = Instant::now() + SETTLED_AFTER;
    for bench in benches {
        bench.judge(until).await?;
        bench.judge_roll().await?;
    }
    Ok(())
}
