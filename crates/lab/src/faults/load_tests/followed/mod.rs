//! Every change is followed by cursor while nodes and stores fail: none is missed.

mod file_faults;
mod reader;
mod tally;
mod writer;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use parking_lot::Mutex;
use rand::{SeedableRng as _, rngs::SmallRng};
use tokio::{task::JoinSet, time::Instant};
use tonic::transport::Channel;

use self::{reader::ChangesReader, tally::ChangesTally, writer::ChangesWriter};
use super::{
    Sizes,
    embedded_node::EmbeddedNode,
    progress::{Progress, disturb},
    site_fault::fail_stores,
};
use crate::faults::{Figure, Plan, Site};

const NODES: u32 = 3;
const WRITERS: i64 = 32;
/// Changes of a write, on average: a join also changes the roster, a message the dialog of its sender.
const CHANGES_OF_A_WRITE: u64 = 2;
const SETTINGS: [&str; 2] = ["changes.kept=1h", "changes.dialogs=true"];
/// How long after the last answer everything is read.
const READ_WITHIN: Duration = Duration::from_secs(60);

/// The state that writers and the reader share.
#[derive(Debug)]
struct FollowedState {
    nodes: Vec<Channel>,
    progress: Progress,
    tally: Mutex<ChangesTally>,
    /// When all writers had ended.
    written: Mutex<Option<Instant>>,
    /// How often data were restored.
    restores: AtomicU64,
}

/// Figures of a cluster: changes that were missed while nodes are killed and stores stand still.
pub(super) async fn in_cluster(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let settings = SETTINGS.map(str::to_owned).to_vec();
    let plan = Plan { nodes: NODES, settings, ..plan.clone() };
    let mut site = Site::with_users(&plan, writer::users(WRITERS)).await?;
    let state = FollowedState::new(site.channels(), sizes);
    let faults = fail_stores(&mut site, &state.progress);
    follow(&state, plan.seed, faults).await
}

/// Figures of one data file: the same while its node is killed and the file is replaced by a backup.
pub(super) async fn in_file(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut node = EmbeddedNode::start(&plan.kith, &SETTINGS, writer::users(WRITERS), false).await?;
    let state = FollowedState::new(vec![node.channel()?], sizes);
    let faults = file_faults::inject(&mut node, &state);
    follow(&state, plan.seed, faults).await
}

/// Writes and reads during faults, until there are enough writes and all are read. The faults end with
/// their figures.
async fn follow(
    state: &Arc<FollowedState>,
    seed: u64,
    faults: impl Future<Output = Result<Vec<Figure>>>,
) -> Result<Vec<Figure>> {
    let random = |number: i64| SmallRng::seed_from_u64(seed.wrapping_add(number.unsigned_abs()));
    // It begins before all writes.
    let reader = ChangesReader::begin(state, random(WRITERS)).await?;
    let mut writing = JoinSet::new();
    for number in 0..WRITERS {
        writing.spawn(ChangesWriter::begin(state, number, random(number)).await?.run());
    }
    let reading = tokio::spawn(reader.run());
    let (mut figures, _, took) = disturb(&state.progress, writing, faults).await?;
    let written = Instant::now();
    *state.written.lock() = Some(written);
    let stops = reading.await??;
    figures.push(Figure::at_least_count("writes", state.progress.done(), state.progress.goal()));
    figures.push(Figure::at_least_count("reader stopped", stops, 1));
    figures.extend(state.tally.lock().figures());
    figures.push(Figure::within("read to the end after", written.elapsed(), READ_WITHIN));
    figures.push(Figure::took(took));
    Ok(figures)
}

impl FollowedState {
    fn new(nodes: Vec<Channel>, sizes: &Sizes) -> Arc<Self> {
        Arc::new(Self {
            nodes,
            progress: Progress::new("writes are acknowledged", sizes.writes.div_ceil(CHANGES_OF_A_WRITE)),
            tally: Mutex::default(),
            written: Mutex::default(),
            restores: AtomicU64::new(0),
        })
    }

    /// Whether the reader has read everything, or had time enough to.
    fn is_read(&self) -> bool {
        let written = *self.written.lock();
        written.is_some_and(|written| written.elapsed() > READ_WITHIN || self.tally.lock().is_complete())
    }

    /// To be called before the restored data can be read.
    fn note_restored(&self) {
        self.restores.fetch_add(1, Ordering::SeqCst);
    }

    fn restores(&self) -> u64 {
        self.restores.load(Ordering::SeqCst)
    }
}
