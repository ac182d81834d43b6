//! An owner and two admins, each through another node, decide about the same applications while a node is killed every few
//! seconds: each application is decided once, and what was accepted comes about once.

mod group;
mod roll;
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
    time::{Instant, sleep, timeout},
};
use tonic::transport::Channel;

use self::{group::Bench, tally::DecisionTally};
use super::Sizes;
use crate::faults::{Better, Figure, Plan, Site, figure::float};

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
/// Number of lines about the progress of a run.
const PROGRESS_LINES: u64 = 10;
/// Longer than a run takes in a healthy laboratory.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The shared state of a run.
#[derive(Debug)]
struct DecisionDesk {
    nodes: Vec<Channel>,
    tally: Mutex<DecisionTally>,
    over: AtomicBool,
    /// The next group that was not begun.
    next: AtomicU64,
    groups: u64,
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
        over: AtomicBool::new(false),
        next: AtomicU64::new(0),
        groups,
        seed: plan.seed,
    });
    let began = Instant::now();
    let benches = timeout(LONGEST, decide_all(&desk, &mut site));
    let (benches, deaths) = benches.await.context("the applications are not decided in time")??;
    let took = began.elapsed();
    site.until_trusted().await?;
    judge(benches).await?;
    let mut figures = desk.tally.lock().figures(goal);
    figures.push(Figure::at_least("deaths", "count", float(deaths), 1.0));
    figures.push(Figure::told("took", "s", took.as_secs_f64(), Better::Lower));
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
                if number >= desk.groups {
                    return anyhow::Ok(benches);
                }
                benches.push(Bench::decided(&desk, i64::try_from(number)? + 1).await?);
                report_progress(number, desk.groups);
            }
        });
    }
    let all = async {
        let mut benches = Vec::new();
        while let Some(done) = deciding.join_next().await {
            benches.extend(done??);
        }
        desk.over.store(true, Ordering::Relaxed);
        anyhow::Ok(benches)
    };
    // An error ends the run at once: what could still be decided would not be judged.
    tokio::try_join!(all, kill_by_turns(desk, site))
}

/// Says ten times in a run how far it is: it may take half an hour.
fn report_progress(number: u64, groups: u64) {
    let step = groups.div_ceil(PROGRESS_LINES);
    if (number + 1).is_multiple_of(step) {
        eprintln!("group {} of {groups} is decided", number + 1);
    }
}

async fn kill_by_turns(desk: &DecisionDesk, site: &mut Site) -> Result<u64> {
    let mut deaths = 0;
    loop {
        let until = Instant::now() + if deaths == 0 { DEATH_FIRST } else { DEATH_EVERY };
        while Instant::now() < until {
            if desk.over.load(Ordering::Relaxed) {
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
