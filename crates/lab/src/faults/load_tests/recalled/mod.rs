//! Messages are recalled and edited on one node and read on the others at once, while one node after the other is cut from Redis or
//! paused: no read that began after the acknowledgement shows what was there before.

mod faults;
mod gone;
mod reader;
mod tally;
mod writer;

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

use self::{gone::Gone, reader::Reader, tally::RecallTally, writer::Writer};
use super::Sizes;
use crate::faults::{Better, Figure, Plan, Site};

/// One changes, the others are read from.
const NODES: u32 = 3;
/// Direct conversations, each with a writer and a reader.
const PAIRS: i64 = 16;
/// One in so many writes of other rows is a change here.
const FEWER: u64 = 10;
/// Number of lines about the progress of a run.
const PROGRESS_LINES: u64 = 10;
/// Longer than a run takes in a healthy laboratory.
const LONGEST: Duration = Duration::from_secs(45 * 60);

/// Two users who talk.
#[derive(Clone, Copy, Debug)]
struct TalkingPair {
    one: i64,
    other: i64,
}

/// The shared state of a run.
#[derive(Debug)]
struct RecallDesk {
    nodes: Vec<Channel>,
    /// Changes that are to be acknowledged.
    goal: u64,
    changed: AtomicU64,
    over: AtomicBool,
    values: AtomicU64,
    gone: Gone,
    tally: Mutex<RecallTally>,
}

impl TalkingPair {
    const fn of(number: i64) -> Self {
        Self { one: 2 * number - 1, other: 2 * number }
    }

    fn conversation(self) -> String {
        format!("d{}-{}", self.one, self.other)
    }
}

impl RecallDesk {
    fn has_enough(&self) -> bool {
        self.changed.load(Ordering::Relaxed) >= self.goal
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.has_enough()
    }

    /// One that no message has yet.
    fn value(&self) -> u64 {
        self.values.fetch_add(1, Ordering::Relaxed)
    }

    fn add_change(&self) {
        let changed = self.changed.fetch_add(1, Ordering::Relaxed) + 1;
        if changed.is_multiple_of(self.goal.div_ceil(PROGRESS_LINES)) {
            eprintln!("{changed} messages are changed, of {}", self.goal);
        }
    }
}

/// Figures: changes, and reads that show what was before them.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let plan = Plan { nodes: NODES, ..plan.clone() };
    let mut site = Site::with_users(&plan, 2 * PAIRS).await?;
    let desk = Arc::new(RecallDesk {
        nodes: site.channels(),
        goal: sizes.writes.div_ceil(FEWER),
        changed: AtomicU64::new(0),
        over: AtomicBool::new(false),
        // 0 is that of a message without content.
        values: AtomicU64::new(1),
        gone: Gone::default(),
        tally: Mutex::default(),
    });
    let began = Instant::now();
    let mut calling = begin(&desk, plan.seed);
    let disturbed = timeout(LONGEST, faults::go_on(&mut site, &desk)).await;
    let took = began.elapsed();
    desk.over.store(true, Ordering::Relaxed);
    while let Some(ended) = calling.join_next().await {
        ended??;
    }
    let times = disturbed.context("too few messages are changed")??;
    for number in 1..=PAIRS {
        Reader::new(&desk, TalkingPair::of(number)).read_all().await;
    }
    let mut figures = desk.tally.lock().figures(desk.goal, desk.changed.load(Ordering::Relaxed));
    figures.extend(times.figures());
    figures.push(Figure::told("took", "s", took.as_secs_f64(), Better::Lower));
    Ok(figures)
}

fn begin(desk: &Arc<RecallDesk>, seed: u64) -> JoinSet<Result<()>> {
    let mut calling = JoinSet::new();
    for pair in (1..=PAIRS).map(TalkingPair::of) {
        calling.spawn(Writer::new(desk, pair, seed).work());
        calling.spawn(Reader::new(desk, pair).work());
    }
    calling
}
