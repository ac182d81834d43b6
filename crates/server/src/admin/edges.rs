//! Follow upkeep as streams: a message after each step, until the last step. A step begins when the previous
//! message was taken; nothing is done for a caller that has gone.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use kith_proto::admin::v1 as wire;
use kith_service::{
    error::{Error, Reason},
    relation::RelationUpkeep,
};
use kith_store::{CountsRebuilt, EdgeDifference, EdgeDifferenceKind, EdgesVerified, Invalid};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use super::convert::{count, signed};

const EXAMPLES: usize = 10;
const EXAMPLES_MOST: usize = 1000;

/// A run's messages: its progress after each step.
pub(super) type ProgressStream<M> = BoxStream<'static, Result<M, Status>>;

/// Edge upkeep on this node. Each kind has at most one run at a time.
#[derive(Clone, Debug)]
pub(super) struct EdgeRuns {
    upkeep: RelationUpkeep,
    verify: SingleRun,
    repair: SingleRun,
    recount: SingleRun,
}

impl EdgeRuns {
    pub(super) fn new(upkeep: RelationUpkeep) -> Self {
        let [verify, repair, recount] = ["VerifyEdges", "RepairEdges", "RebuildCounts"].map(SingleRun::new);
        Self { upkeep, verify, repair, recount }
    }

    /// Compares all follows with their places.
    ///
    /// # Errors
    /// INVALID_FIELD if `examples` is out of bounds, STATE_FORBIDS if it is running already.
    pub(super) fn verify(&self, examples: i32) -> Result<ProgressStream<wire::VerifyEdgesResponse>, Error> {
        let run = self.comparison(&self.verify, examples, false)?;
        Ok(run.map(|step| Ok(wire::VerifyEdgesResponse { comparison: Some(step?) })).boxed())
    }

    /// Like [`Self::verify`], and repairs differences.
    ///
    /// # Errors
    /// Returns the errors of [`Self::verify`].
    pub(super) fn repair(&self, examples: i32) -> Result<ProgressStream<wire::RepairEdgesResponse>, Error> {
        let run = self.comparison(&self.repair, examples, true)?;
        Ok(run.map(|step| Ok(wire::RepairEdgesResponse { comparison: Some(step?) })).boxed())
    }

    /// Counts all lists.
    ///
    /// # Errors
    /// STATE_FORBIDS if it is running already.
    pub(super) fn recount(&self) -> Result<ProgressStream<wire::RebuildCountsResponse>, Error> {
        let permit = self.recount.acquire()?;
        let run = Recount { upkeep: self.upkeep.clone(), sums: CountsRebuilt::default(), _permit: permit };
        Ok(steps(run))
    }

    fn comparison(
        &self,
        single: &SingleRun,
        examples: i32,
        repair: bool,
    ) -> Result<ProgressStream<wire::EdgeComparison>, Error> {
        let left = bounded(examples)?;
        let (upkeep, permit) = (self.upkeep.clone(), single.acquire()?);
        let sums = wire::EdgeComparison::default();
        let run = Comparison { upkeep, repair, next: None, sums, left, _permit: permit };
        Ok(steps(run))
    }
}

/// Permits one run per kind at a time.
#[derive(Clone, Debug)]
struct SingleRun {
    name: &'static str,
    free: Arc<Semaphore>,
}

impl SingleRun {
    fn new(name: &'static str) -> Self {
        Self { name, free: Arc::new(Semaphore::new(1)) }
    }

    fn acquire(&self) -> Result<OwnedSemaphorePermit, Error> {
        let running =
            |_| Error::new(Reason::StateForbids, format!("{} is running already on this node", self.name));
        Arc::clone(&self.free).try_acquire_owned().map_err(running)
    }
}

/// A run, one step at a time.
trait SteppedRun: Send + 'static {
    /// The message with its progress.
    type Message: Send + 'static;

    /// Takes a step. Returns the totals after all steps so far, and whether it was the last step.
    fn step(&mut self) -> impl Future<Output = Result<(Self::Message, bool), Status>> + Send;
}

/// Sends a message after each step, until the last step. The run is dropped with the stream.
fn steps<R: SteppedRun>(run: R) -> ProgressStream<R::Message> {
    let steps = stream::try_unfold(Some(run), |run| async move {
        let Some(mut run) = run else { return Ok(None) };
        // Messages that are taken from a stream without a pause are sent together. A fast store would send
        // all its steps as one.
        tokio::task::yield_now().await;
        let (message, ended) = run.step().await?;
        Ok(Some((message, (!ended).then_some(run))))
    });
    steps.boxed()
}

/// A running comparison.
struct Comparison {
    upkeep: RelationUpkeep,
    repair: bool,
    next: Option<Vec<u8>>,
    /// Totals after all steps so far.
    sums: wire::EdgeComparison,
    /// How many further differences may be shown.
    left: usize,
    /// Released when the stream is dropped.
    _permit: OwnedSemaphorePermit,
}

impl SteppedRun for Comparison {
    type Message = wire::EdgeComparison;

    async fn step(&mut self) -> Result<(wire::EdgeComparison, bool), Status> {
        let EdgesVerified { checked, differences, done, next } =
            self.upkeep.verify(self.next.take(), self.repair).await?;
        let examples: Vec<_> = differences.iter().take(self.left).map(shown).collect();
        self.left -= examples.len();
        self.sums.done = done;
        self.sums.checked += signed(checked);
        self.sums.differences += count(differences.len());
        self.sums.repaired += count(differences.iter().filter(|one| one.repaired).count());
        self.sums.ended = next.is_none();
        self.next = next;
        Ok((wire::EdgeComparison { examples, ..self.sums.clone() }, self.sums.ended))
    }
}

/// A running recount. Its sums are its progress.
struct Recount {
    upkeep: RelationUpkeep,
    sums: CountsRebuilt,
    _permit: OwnedSemaphorePermit,
}

impl SteppedRun for Recount {
    type Message = wire::RebuildCountsResponse;

    async fn step(&mut self) -> Result<(wire::RebuildCountsResponse, bool), Status> {
        let step = self.upkeep.recount(self.sums.next.take()).await?;
        self.sums.counted += step.counted;
        self.sums.corrected += step.corrected;
        self.sums.next = step.next;
        let ended = self.sums.next.is_none();
        let (counted, corrected) = (signed(self.sums.counted), signed(self.sums.corrected));
        Ok((wire::RebuildCountsResponse { done: step.done, counted, corrected, ended }, ended))
    }
}

fn bounded(examples: i32) -> Result<usize, Error> {
    match usize::try_from(examples) {
        Ok(0) => Ok(EXAMPLES),
        Ok(examples) if examples <= EXAMPLES_MOST => Ok(examples),
        _ => Err(Error::invalid("examples", &Invalid::new(format!("must be 0 to {EXAMPLES_MOST}")))),
    }
}

fn shown(difference: &EdgeDifference) -> wire::EdgeDifference {
    let kind = match difference.kind {
        EdgeDifferenceKind::NotInFollowing => wire::EdgeDifferenceKind::NotInFollowing,
        EdgeDifferenceKind::NotAmongFans => wire::EdgeDifferenceKind::NotAmongFans,
        EdgeDifferenceKind::StrayInFollowing => wire::EdgeDifferenceKind::StrayInFollowing,
        EdgeDifferenceKind::StrayAmongFans => wire::EdgeDifferenceKind::StrayAmongFans,
    };
    wire::EdgeDifference {
        user_id: difference.edge.from.get(),
        target_id: difference.edge.to.get(),
        kind: kind.into(),
        repaired: difference.repaired,
    }
}
