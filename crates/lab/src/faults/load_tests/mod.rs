//! The rows that are measured with their own calls instead of judged by a history: those about load, and
//! those that repeat one case very often.

mod aged;
mod balanced;
mod blocked;
mod by_hand;
mod callers;
mod counted;
mod decided;
mod embedded_node;
mod erased;
mod fast_clock;
mod flooder;
mod followed;
mod lost_receivers;
mod marked;
mod online;
mod orphaned;
mod outcomes;
mod overload;
mod own_marks;
mod progress;
mod raw;
mod reacted;
mod recalled;
mod removed;
mod repeated;
mod reserved;
mod rolling;
mod shared_redis;
mod site_fault;
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

/// A measured row.
#[derive(Clone, Copy, Debug)]
pub struct LoadTest {
    /// The name in the table of faults, such as `F35a`.
    pub name: &'static str,
    /// Short description.
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
    /// Whether collections are dropped before.
    ByHand(bool),
    Counted,
    Marked(MarkLoss),
    Recalled,
    Removed,
    OwnMarks,
    Reserved,
    Repeated,
    FastClock,
    LostReceivers,
    FollowedInCluster,
    FollowedInFile,
    Reacted,
}

/// All measured rows, ordered by name.
pub const LOAD_TESTS: [LoadTest; 36] = [
    load_test("F35a", "ten times the reads that the store can serve", LoadTestKind::Reads),
    load_test("F35b", "ten times the writes that the store can serve", LoadTestKind::Writes),
    load_test("F36", "one user floods a node with searches", LoadTestKind::Flooder),
    load_test(
        "F40b",
        "a rolling restart under clients of the published service configuration",
        LoadTestKind::Rolling,
    ),
    load_test("F44", "logs and metrics are not read", LoadTestKind::Blocked),
    blocks("F50a", "blocks are set on one node and read on another at once", StrictFault::Nothing),
    blocks("F50b", "the same, and the writer is cut from Redis again and again", StrictFault::WriterCut),
    blocks("F50c", "the same, and the reader is cut from Redis again and again", StrictFault::ReaderCut),
    blocks("F50d", "the same, and the writer dies before its broadcasts", StrictFault::WriterDies),
    load_test("F51", "the writer of a follow or a block dies before its broadcast", LoadTestKind::Orphaned),
    members("F52a", "members are removed on one node and read on another at once", StrictFault::Nothing),
    members("F52b", "the same, and the writer is cut from Redis again and again", StrictFault::WriterCut),
    members("F52c", "the same, and the reader is cut from Redis again and again", StrictFault::ReaderCut),
    members("F52d", "the same, and the writer dies before its broadcasts", StrictFault::WriterDies),
    load_test(
        "F53",
        "three users decide the same applications, each through another node, and a node is killed every 5 s",
        LoadTestKind::Decided,
    ),
    load_test("F54a", "a gateway dies without a last call", LoadTestKind::Online(SessionLoss::Gateway)),
    load_test(
        "F54b",
        "the node of a gateway is killed, then another node together with the gateway",
        LoadTestKind::Online(SessionLoss::Node),
    ),
    load_test("F54c", "Redis is emptied while sessions continue", LoadTestKind::Online(SessionLoss::Redis)),
    load_test(
        "F55",
        "the database is dropped but not Redis; a node of another database uses the same prefix",
        LoadTestKind::Dropped,
    ),
    load_test("F56", "Redis forbids its channels and allows them again", LoadTestKind::Forbidden),
    load_test("F57", "documents and their versions are changed by hand", LoadTestKind::ByHand(false)),
    load_test("F57b", "the same, right after collections are dropped", LoadTestKind::ByHand(true)),
    load_test("F58", "relations are counted right after they change", LoadTestKind::Counted),
    load_test(
        "F59a",
        "notices and messages are marked through three nodes while Redis is emptied, killed and cut off",
        LoadTestKind::Marked(MarkLoss::Redis),
    ),
    load_test(
        "F59b",
        "the same, and nodes die between the store and Redis",
        LoadTestKind::Marked(MarkLoss::Node),
    ),
    load_test(
        "F61",
        "messages are recalled and edited on one node and read on others; nodes are cut from Redis or paused",
        LoadTestKind::Recalled,
    ),
    load_test("F62", "members are removed and added while their groups send messages", LoadTestKind::Removed),
    load_test(
        "F63",
        "the messages of a user are erased, and the erasing node is killed midway",
        LoadTestKind::Erased,
    ),
    load_test("F64", "MongoDB stands still while users answer each other", LoadTestKind::OwnMarks),
    load_test(
        "F65",
        "numbers of one sequence are reserved through three nodes, then nodes are killed",
        LoadTestKind::Reserved,
    ),
    load_test(
        "F66",
        "calls are repeated with their request_id while Cassandra stands still again and again",
        LoadTestKind::Repeated,
    ),
    load_test(
        "F67",
        "the clock of the node that removes old messages is 60 days ahead",
        LoadTestKind::FastClock,
    ),
    load_test("F68", "a node is killed whose clients have lost their network", LoadTestKind::LostReceivers),
    load_test(
        "F69a",
        "all changes are followed while nodes are killed and stores stand still",
        LoadTestKind::FollowedInCluster,
    ),
    load_test(
        "F69b",
        "all changes of a data file are followed while its node is killed and a backup is restored",
        LoadTestKind::FollowedInFile,
    ),
    load_test(
        "F70",
        "users react while messages are recalled and erased, nodes are killed and stores stand still",
        LoadTestKind::Reacted,
    ),
];

const fn load_test(name: &'static str, what: &'static str, kind: LoadTestKind) -> LoadTest {
    LoadTest { name, what, kind }
}

const fn blocks(name: &'static str, what: &'static str, fault: StrictFault) -> LoadTest {
    load_test(name, what, LoadTestKind::Strict(StrictSubject::Blocks, fault))
}

const fn members(name: &'static str, what: &'static str, fault: StrictFault) -> LoadTest {
    load_test(name, what, LoadTestKind::Strict(StrictSubject::Members, fault))
}

/// Durations and amounts in the rows.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Concurrent reads, or writes, that the store permits. Its capacity follows from this.
    pub permits: u32,
    /// How long the capacity is measured.
    pub measured: Duration,
    /// How long the fault lasts.
    pub lasts: Duration,
    /// Searches that each user may make in a minute.
    pub searches: u32,
    /// Number of rounds on each side in a comparison.
    pub rounds: u32,
    /// How long a round lasts.
    pub round_lasts: Duration,
    /// The number of acknowledged writes in rows that read each write on another node; a tenth under a fault.
    pub writes: u64,
}

impl Sizes {
    /// The sizes in the table of faults.
    pub const FULL: Self = Self {
        permits: 64,
        measured: Duration::from_secs(5),
        lasts: Duration::from_secs(60),
        searches: 6_000,
        rounds: 10,
        round_lasts: Duration::from_secs(3),
        writes: 100_000,
    };
    /// The sizes for builds that are not optimised.
    pub const QUICK: Self = Self {
        permits: 8,
        measured: Duration::from_secs(2),
        lasts: Duration::from_secs(10),
        searches: 1_200,
        rounds: 3,
        round_lasts: Duration::from_secs(1),
        writes: 2_000,
    };
}

impl LoadTest {
    /// Whether the row needs a build with fail points, or with mutants.
    #[must_use]
    pub const fn needs_failpoints(&self) -> bool {
        matches!(
            self.kind,
            LoadTestKind::Strict(_, StrictFault::WriterDies)
                | LoadTestKind::Orphaned
                | LoadTestKind::Marked(MarkLoss::Node)
                | LoadTestKind::FastClock
        )
    }

    /// Whether the row needs a Cassandra, which it shares with other rows.
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
                | LoadTestKind::OwnMarks
                | LoadTestKind::FastClock
                | LoadTestKind::LostReceivers
                | LoadTestKind::FollowedInCluster
                | LoadTestKind::Reacted
        )
    }

    /// Starts the row's servers, measures, and stops them. Returns the figures in a fixed order, each with
    /// the row's name.
    ///
    /// # Errors
    /// If a server does not start, or a precondition for the measurement is not met.
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
            LoadTestKind::ByHand(drops) => Box::pin(by_hand::run(plan, sizes, drops)).await,
            LoadTestKind::Counted => Box::pin(counted::run(plan, sizes)).await,
            LoadTestKind::Marked(loss) => Box::pin(marked::run(plan, sizes, loss)).await,
            LoadTestKind::Recalled => Box::pin(recalled::run(plan, sizes)).await,
            LoadTestKind::Removed => Box::pin(removed::run(plan, sizes)).await,
            LoadTestKind::OwnMarks => Box::pin(own_marks::run(plan, sizes)).await,
            LoadTestKind::Reserved => Box::pin(reserved::run(plan, sizes)).await,
            LoadTestKind::Repeated => Box::pin(repeated::run(plan, sizes)).await,
            LoadTestKind::FastClock => Box::pin(fast_clock::run(plan)).await,
            LoadTestKind::LostReceivers => Box::pin(lost_receivers::run(plan, sizes)).await,
            LoadTestKind::FollowedInCluster => Box::pin(followed::in_cluster(plan, sizes)).await,
            LoadTestKind::FollowedInFile => Box::pin(followed::in_file(plan, sizes)).await,
            LoadTestKind::Reacted => Box::pin(reacted::run(plan, sizes)).await,
        };
        let figures = figures.with_context(|| format!("{}: {}", self.name, self.what))?;
        Ok(figures.into_iter().map(|figure| figure.of(self.name)).collect())
    }
}
