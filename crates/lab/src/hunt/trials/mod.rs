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
    marked::Loss as MarkLoss,
    online::Loss,
    strict::{About, Fault},
};
use super::{Figure, Plan};

/// A row that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// `F35a`.
    pub name: &'static str,
    /// In a few words.
    pub what: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Reads,
    Writes,
    Flooder,
    Blocked,
    Rolling,
    Strict(About, Fault),
    Orphaned,
    Decided,
    Erased,
    Online(Loss),
    Dropped,
    Forbidden,
    ByHand,
    Counted,
    Marked(MarkLoss),
    Recalled,
    Removed,
}

/// All rows of this kind, in the order of their names.
pub const TRIALS: [Trial; 27] = [
    Trial { name: "F35a", what: "ten times the reads that the store bears", kind: Kind::Reads },
    Trial { name: "F35b", what: "ten times the writes that the store bears", kind: Kind::Writes },
    Trial { name: "F36", what: "one caller floods", kind: Kind::Flooder },
    Trial {
        name: "F40b",
        what: "a rolling restart of what compose starts, under clients of the published service configuration",
        kind: Kind::Rolling,
    },
    Trial { name: "F44", what: "nobody takes logs and metrics", kind: Kind::Blocked },
    Trial {
        name: "F50a",
        what: "blocks are set on one node and asked of another one at once",
        kind: Kind::Strict(About::Blocks, Fault::Nothing),
    },
    Trial {
        name: "F50b",
        what: "the same, and the writer is cut from Redis again and again",
        kind: Kind::Strict(About::Blocks, Fault::WriterCut),
    },
    Trial {
        name: "F50c",
        what: "the same, and who is asked is cut from Redis again and again",
        kind: Kind::Strict(About::Blocks, Fault::ReaderCut),
    },
    Trial {
        name: "F50d",
        what: "the same, and the writer dies between commit and telling again and again",
        kind: Kind::Strict(About::Blocks, Fault::WriterDies),
    },
    Trial {
        name: "F51",
        what: "the writer of a follow or a block dies between commit and telling",
        kind: Kind::Orphaned,
    },
    Trial {
        name: "F52a",
        what: "users are put out of groups on one node and asked for on another one at once",
        kind: Kind::Strict(About::Members, Fault::Nothing),
    },
    Trial {
        name: "F52b",
        what: "the same, and the writer is cut from Redis again and again",
        kind: Kind::Strict(About::Members, Fault::WriterCut),
    },
    Trial {
        name: "F52c",
        what: "the same, and who is asked is cut from Redis again and again",
        kind: Kind::Strict(About::Members, Fault::ReaderCut),
    },
    Trial {
        name: "F52d",
        what: "the same, and the writer dies between commit and telling again and again",
        kind: Kind::Strict(About::Members, Fault::WriterDies),
    },
    Trial {
        name: "F53",
        what: "three decide about the same applications through a node each, and a node is killed every 5 s",
        kind: Kind::Decided,
    },
    Trial { name: "F54a", what: "a gateway dies without a word", kind: Kind::Online(Loss::Gateway) },
    Trial {
        name: "F54b",
        what: "the node of a gateway is killed, once with the gateway",
        kind: Kind::Online(Loss::Node),
    },
    Trial {
        name: "F54c",
        what: "Redis is emptied under sessions that go on",
        kind: Kind::Online(Loss::Redis),
    },
    Trial {
        name: "F55",
        what: "the database is dropped and Redis is not; nodes of another database use the prefix",
        kind: Kind::Dropped,
    },
    Trial { name: "F56", what: "Redis forbids its channels and allows them again", kind: Kind::Forbidden },
    Trial {
        name: "F57",
        what: "documents are changed by hand, and their versions with them",
        kind: Kind::ByHand,
    },
    Trial { name: "F58", what: "relations are counted right after they change", kind: Kind::Counted },
    Trial {
        name: "F59a",
        what: "notices and messages are marked through three nodes while Redis is emptied, killed and cut off",
        kind: Kind::Marked(MarkLoss::Redis),
    },
    Trial {
        name: "F59b",
        what: "the same, and nodes die between the store and Redis",
        kind: Kind::Marked(MarkLoss::Node),
    },
    Trial {
        name: "F61",
        what: "messages are recalled and edited on one node and read on the others at once, while nodes are cut from Redis or paused",
        kind: Kind::Recalled,
    },
    Trial {
        name: "F62",
        what: "members are removed while their groups talk, and come back",
        kind: Kind::Removed,
    },
    Trial {
        name: "F63",
        what: "the messages of a user are erased, and the node that does it is killed midway",
        kind: Kind::Erased,
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

impl Trial {
    /// Whether it needs a build of the program with fail points.
    #[must_use]
    pub const fn needs_failpoints(&self) -> bool {
        matches!(
            self.kind,
            Kind::Strict(_, Fault::WriterDies) | Kind::Orphaned | Kind::Marked(MarkLoss::Node)
        )
    }

    /// Whether it has a Cassandra that others may have, too.
    #[must_use]
    pub const fn shares_cassandra(&self) -> bool {
        matches!(
            self.kind,
            Kind::Strict(..)
                | Kind::Orphaned
                | Kind::Decided
                | Kind::Erased
                | Kind::Online(_)
                | Kind::Counted
                | Kind::Marked(_)
                | Kind::Recalled
                | Kind::Removed
        )
    }

    /// Starts what the row needs, measures, and ends it. Figures in a fixed order, each named after the row.
    ///
    /// # Errors
    /// When a server does not start, or what has to be so before anything can be measured is not.
    pub async fn run(&self, plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
        let figures = match self.kind {
            Kind::Reads => overload::reads(plan, sizes).await,
            Kind::Writes => overload::writes(plan, sizes).await,
            Kind::Flooder => flooder::run(&plan.kith, sizes).await,
            Kind::Blocked => blocked::run(&plan.kith, sizes).await,
            Kind::Rolling => rolling::run(plan).await,
            Kind::Strict(about, fault) => Box::pin(strict::run(plan, sizes, about, fault)).await,
            Kind::Orphaned => Box::pin(orphaned::run(plan, sizes)).await,
            Kind::Decided => Box::pin(decided::run(plan, sizes)).await,
            Kind::Erased => Box::pin(erased::run(plan, sizes)).await,
            Kind::Online(loss) => Box::pin(online::run(plan, sizes, loss)).await,
            Kind::Dropped => Box::pin(shared_redis::dropped(plan, sizes)).await,
            Kind::Forbidden => Box::pin(shared_redis::forbidden(plan, sizes)).await,
            Kind::ByHand => Box::pin(by_hand::run(plan, sizes)).await,
            Kind::Counted => Box::pin(counted::run(plan, sizes)).await,
            Kind::Marked(loss) => Box::pin(marked::run(plan, sizes, loss)).await,
            Kind::Recalled => Box::pin(recalled::run(plan, sizes)).await,
            Kind::Removed => Box::pin(removed::run(plan, sizes)).await,
        };
        let figures = figures.with_context(|| format!("{}: {}", self.name, self.what))?;
        Ok(figures.into_iter().map(|figure| figure.of(self.name)).collect())
    }
}
