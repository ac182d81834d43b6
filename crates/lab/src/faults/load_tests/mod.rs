//! Rows of the table of faults that are measured, each by calls of its own, and not judged by a history: those about load,
//! and those that ask for one thing very often.

mod aged;
mod alone;
mod answered;
mod balanced;
mod blocked;
mod by_hand;
mod callers;
mod counted;
mod decided;
mod erased;
mod flooder;
mod marked;
mod online;
mod orphaned;
mod overload;
mod raw;
mod recalled;
mod removed;
mod rolling;
mod shared_redis;
mod strict;
mod tally;

use std::time::Duration;

use anyhow::{Context as _, Result};

use self::{
    marked::MarkLoss,
    online::SessionLoss,
    strict::{StrictFault, StrictSubject},
};
use super::{Figure, Plan};

/// A row that is measured.
#[derive(Clone, Copy, Debug)]
pub struct LoadTest {
    /// `F35a`.
    pub name: &'static str,
    /// In a few words.
    pub what: &'static str,
    kind: LoadTestKind,
}

#[derive(Clone, Copy, Debug)]
enum LoadTestKind {
    Reads,
    Writes,
    Flooder,
    Blocked,
    Rolling,
    Strict(StrictSubject, StrictFault),
    Orphaned,
    Decided,
    Erased,
    Online(SessionLoss),
    Dropped,
    Forbidden,
    ByHand,
    Counted,
    Marked(MarkLoss),
    Recalled,
    Removed,
}

/// All rows of this kind, in the order of their names.
pub const LOAD_TESTS: [LoadTest; 27] = [
    LoadTest { name: "F35a", what: "ten times the reads that the store bears", kind: LoadTestKind::Reads },
    LoadTest { name: "F35b", what: "ten times the writes that the store bears", kind: LoadTestKind::Writes },
    LoadTest { name: "F36", what: "one caller floods", kind: LoadTestKind::Flooder },
    LoadTest {
        name: "F40b",
        what: "a rolling restart of what compose starts, under clients of the published service configuration",
        kind: LoadTestKind::Rolling,
    },
    LoadTest { name: "F44", what: "nobody takes logs and metrics", kind: LoadTestKind::Blocked },
    LoadTest {
        name: "F50a",
        what: "blocks are set on one node and asked of another one at once",
        kind: LoadTestKind::Strict(StrictSubject::Blocks, StrictFault::Nothing),
    },
    LoadTest {
        name: "F50b",
        what: "the same, and the writer is cut from Redis again and again",
        kind: LoadTestKind::Strict(StrictSubject::Blocks, StrictFault::WriterCut),
    },
    LoadTest {
        name: "F50c",
        what: "the same, and who is asked is cut from Redis again and again",
        kind: LoadTestKind::Strict(StrictSubject::Blocks, StrictFault::ReaderCut),
    },
    LoadTest {
        name: "F50d",
        what: "the same, and the writer dies between commit and telling again and again",
        kind: LoadTestKind::Strict(StrictSubject::Blocks, StrictFault::WriterDies),
    },
    LoadTest {
        name: "F51",
        what: "the writer of a follow or a block dies between commit and telling",
        kind: LoadTestKind::Orphaned,
    },
    LoadTest {
        name: "F52a",
        what: "users are put out of groups on one node and asked for on another one at once",
        kind: LoadTestKind::Strict(StrictSubject::Members, StrictFault::Nothing),
    },
    LoadTest {
        name: "F52b",
        what: "the same, and the writer is cut from Redis again and again",
        kind: LoadTestKind::Strict(StrictSubject::Members, StrictFault::WriterCut),
    },
    LoadTest {
        name: "F52c",
        what: "the same, and who is asked is cut from Redis again and again",
        kind: LoadTestKind::Strict(StrictSubject::Members, StrictFault::ReaderCut),
    },
    LoadTest {
        name: "F52d",
        what: "the same, and the writer dies between commit and telling again and again",
        kind: LoadTestKind::Strict(StrictSubject::Members, StrictFault::WriterDies),
    },
    LoadTest {
        name: "F53",
        what: "three decide about the same applications through a node each, and a node is killed every 5 s",
        kind: LoadTestKind::Decided,
    },
    LoadTest {
        name: "F54a",
        what: "a gateway dies without a word",
        kind: LoadTestKind::Online(SessionLoss::Gateway),
    },
    LoadTest {
        name: "F54b",
        what: "the node of a gateway is killed, once with the gateway",
        kind: LoadTestKind::Online(SessionLoss::Node),
    },
    LoadTest {
        name: "F54c",
        what: "Redis is emptied under sessions that go on",
        kind: LoadTestKind::Online(SessionLoss::Redis),
    },
    LoadTest {
        name: "F55",
        what: "the database is dropped and Redis is not; nodes of another database use the prefix",
        kind: LoadTestKind::Dropped,
    },
    LoadTest {
        name: "F56",
        what: "Redis forbids its channels and allows them again",
        kind: LoadTestKind::Forbidden,
    },
    LoadTest {
        name: "F57",
        what: "documents are changed by hand, and their versions with them",
        kind: LoadTestKind::ByHand,
    },
    LoadTest {
        name: "F58",
        what: "relations are counted right after they change",
        kind: LoadTestKind::Counted,
    },
    LoadTest {
        name: "F59a",
        what: "notices and messages are marked through three nodes while Redis is emptied, killed and cut off",
        kind: LoadTestKind::Marked(MarkLoss::Redis),
    },
    LoadTest {
        name: "F59b",
        what: "the same, and nodes die between the store and Redis",
        kind: LoadTestKind::Marked(MarkLoss::Node),
    },
    LoadTest {
        name: "F61",
        what: "messages are recalled and edited on one node and read on the others at once, while nodes are cut from Redis or paused",
        kind: LoadTestKind::Recalled,
    },
    LoadTest {
        name: "F62",
        what: "members are removed while their groups talk, and come back",
        kind: LoadTestKind::Removed,
    },
    LoadTest {
        name: "F63",
        what: "the messages of a user are erased, and the node that does it is killed midway",
        kind: LoadTestKind::Erased,
    },
];

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Reads, or writes, that may be with the store at once: what it bears follows from it.
    pub turns: u32,
    /// How long what it bears is measured.
    pub measured: Duration,
    /// How long the fault is on.
    pub lasts: Duration,
    /// Searches that each caller may make in a minute.
    pub searches: u32,
    /// Turns of each side of what is compared.
    pub rounds: u32,
    /// How long a turn takes.
    pub turn: Duration,
    /// Writes that are to be acknowledged where each is asked for on another node; a tenth of it under a fault.
    pub writes: u64,
}

impl Sizes {
    /// What the table of faults asks for.
    pub const FULL: Self = Self {
        turns: 64,
        measured: Duration::from_secs(5),
        lasts: Duration::from_secs(60),
        searches: 6_000,
        rounds: 10,
        turn: Duration::from_secs(3),
        writes: 100_000,
    };
    /// For builds that are not optimised.
    pub const QUICK: Self = Self {
        turns: 8,
        measured: Duration::from_secs(2),
        lasts: Duration::from_secs(10),
        searches: 1_200,
        rounds: 3,
        turn: Duration::from_secs(1),
        writes: 2_000,
    };
}

impl LoadTest {
    /// Whether it needs a build of the program with fail points.
    #[must_use]
    pub const fn needs_failpoints(&self) -> bool {
        matches!(
            self.kind,
            LoadTestKind::Strict(_, StrictFault::WriterDies)
                | LoadTestKind::Orphaned
                | LoadTestKind::Marked(MarkLoss::Node)
        )
    }

    /// Whether it has a Cassandra that others may have, too.
    #[must_use]
    pub const fn shares_cassandra(&self) -> bool {
        matches!(
            self.kind,
            LoadTestKind::Strict(..)
                | LoadTestKind::Orphaned
                | LoadTestKind::Decided
                | LoadTestKind::Erased
                | LoadTestKind::Online(_)
                | LoadTestKind::Counted
                | LoadTestKind::Marked(_)
                | LoadTestKind::Recalled
                | LoadTestKind::Removed
        )
    }

    /// Starts what the row needs, measures, and ends it. Figures in a fixed order, each named after the row.
    ///
    /// # Errors
    /// When a server does not start, or what has to be so before anything can be measured is not.
    pub async fn run(&self, plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
        let figures = match self.kind {
            LoadTestKind::Reads => overload::reads(plan, sizes).await,
            LoadTestKind::Writes => overload::writes(plan, sizes).await,
            LoadTestKind::Flooder => flooder::run(&plan.kith, sizes).await,
            LoadTestKind::Blocked => blocked::run(&plan.kith, sizes).await,
            LoadTestKind::Rolling => rolling::run(plan).await,
            LoadTestKind::Strict(about, fault) => Box::pin(strict::run(plan, sizes, about, fault)).await,
            LoadTestKind::Orphaned => Box::pin(orphaned::run(plan, sizes)).await,
            LoadTestKind::Decided => Box::pin(decided::run(plan, sizes)).await,
            LoadTestKind::Erased => Box::pin(erased::run(plan, sizes)).await,
            LoadTestKind::Online(loss) => Box::pin(online::run(plan, sizes, loss)).await,
            LoadTestKind::Dropped => Box::pin(shared_redis::dropped(plan, sizes)).await,
            LoadTestKind::Forbidden => Box::pin(shared_redis::forbidden(plan, sizes)).await,
            LoadTestKind::ByHand => Box::pin(by_hand::run(plan, sizes)).await,
            LoadTestKind::Counted => Box::pin(counted::run(plan, sizes)).await,
            LoadTestKind::Marked(loss) => Box::pin(marked::run(plan, sizes, loss)).await,
            LoadTestKind::Recalled => Box::pin(recalled::run(plan, sizes)).await,
            LoadTestKind::Removed => Box::pin(removed::run(plan, sizes)).await,
        };
        let figures = figures.with_context(|| format!("{}: {}", self.name, self.what))?;
        Ok(figures.into_iter().map(|figure| figure.of(self.name)).collect())
    }
}
