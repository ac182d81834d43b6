//! Notices and messages are marked through three nodes while these lose Redis, or one of them dies between the store and Redis: no
//! mark that was acknowledged is missing, and counts become what the store has.

mod faults;
mod judge;
mod messages;
mod notices;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic::transport::Channel;

pub(super) use self::faults::MarkLoss;
use self::{messages::MessageReaders, notices::Marker};
use super::Sizes;
use crate::faults::{Better, Figure, Plan, Site, figure::float};

const NODES: u32 = 3;
/// Callers who mark notices, and as many who mark messages: each has readers of its own.
const CALLERS: i64 = 16;
/// One in so many writes of other rows is a mark here.
const FEWER: u64 = 10;
/// Number of lines about the progress of a run.
const PROGRESS_LINES: u64 = 10;
/// Longer than a run takes in a healthy laboratory.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// The shortest time for which bitmaps can be kept.
const BITMAPS_KEPT: Duration = Duration::from_secs(60);

/// The shared state of a run.
#[derive(Debug)]
struct MarkDesk {
    nodes: Vec<Channel>,
    /// Marks that are to be acknowledged.
    goal: u64,
    acknowledged: AtomicU64,
    /// Calls that were sent again.
    again: AtomicU64,
    over: AtomicBool,
    seed: u64,
}

impl MarkDesk {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn has_enough(&self) -> bool {
        self.acknowledged.load(Ordering::Relaxed) >= self.goal
    }

    /// Counts marks that were acknowledged by one call, which was sent so often.
    fn acknowledge(&self, marks: usize, sends: u64) {
        let marks = u64::try_from(marks).unwrap_or_default();
        let before = self.acknowledged.fetch_add(marks, Ordering::Relaxed);
        self.again.fetch_add(sends.saturating_sub(1), Ordering::Relaxed);
        let step = self.goal.div_ceil(PROGRESS_LINES);
        if before / step < (before + marks) / step && before < self.goal {
            eprintln!("{} marks are acknowledged, of {}", before + marks, self.goal);
        }
    }
}

/// What callers know in the end.
#[derive(Debug, Default)]
struct KnownMarks {
    notices: notices::NoticeModel,
    messages: messages::MessageModel,
}

/// Figures: marks that are missing, and how long counts were wrong.
pub(super) async fn run(plan: &Plan, sizes: &Sizes, loss: MarkLoss) -> Result<Vec<Figure>> {
    let kept = format!("notices.bitmaps_kept={}s", BITMAPS_KEPT.as_secs());
    let plan = Plan { nodes: NODES, settings: vec![kept], ..plan.clone() };
    let mut site = Site::with_cassandra(&plan).await?;
    let nodes = site.channels();
    notices::publish(&nodes[0]).await?;
    let last = messages::talk(&nodes[0]).await?;
    let desk = Arc::new(MarkDesk {
        nodes,
        goal: sizes.writes.div_ceil(FEWER),
        acknowledged: AtomicU64::new(0),
        again: AtomicU64::new(0),
        over: AtomicBool::new(false),
        seed: plan.seed,
    });
    let began = Instant::now();
    let calling = begin(&desk, last);
    let disturbed = timeout(LONGEST, faults::go_on(&mut site, &desk, loss)).await;
    desk.over.store(true, Ordering::Relaxed);
    let marks = ended(calling).await?;
    let times = disturbed.context("too few marks are acknowledged")??;
    site.until_trusted().await?;
    let took = began.elapsed();
    let mut figures = judge::figures(&site, &desk, &marks, loss).await?;
    let count = |name, of: &AtomicU64| (name, float(of.load(Ordering::Relaxed)));
    let (name, acknowledged) = count("marks", &desk.acknowledged);
    figures.push(Figure::at_least(name, "count", acknowledged, float(desk.goal)));
    let (name, again) = count("calls sent again", &desk.again);
    figures.push(Figure::told(name, "count", again, Better::Lower));
    figures.extend(times.figures());
    figures.push(Figure::told("took", "s", took.as_secs_f64(), Better::Lower));
    Ok(figures)
}

fn begin(desk: &Arc<MarkDesk>, last: i64) -> JoinSet<Result<KnownMarks>> {
    let mut calling = JoinSet::new();
    for caller in 0..CALLERS {
        let marker = Marker::new(desk, caller);
        calling
            .spawn(async move { Ok(KnownMarks { notices: marker.work().await?, ..KnownMarks::default() }) });
        let readers = MessageReaders::new(desk, caller, last);
        calling.spawn(
            async move { Ok(KnownMarks { messages: readers.work().await?, ..KnownMarks::default() }) },
        );
    }
    calling
}

async fn ended(mut calling: JoinSet<Result<KnownMarks>>) -> Result<KnownMarks> {
    let mut all = KnownMarks::default();
    while let Some(ended) = calling.join_next().await {
        let marks = ended??;
        all.notices.extend(marks.notices);
        all.messages.extend(marks.messages);
    }
    Ok(all)
}
