//! The rows that are measured with their own calls instead of judged by a history: those about load, and
//! those that repeat one case very often.

mod aged;
mod balanced;
mod blocked;
mod by_hand;
mod callers;
mod counted;
mod crowded_feed;
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
mod workload;

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{FutureExt as _, future::LocalBoxFuture};

use self::{
    Needs::{Cassandra, Servers, TestBuild},
    marked::MarkLoss,
    online::SessionLoss,
    strict::{
        StrictFault::{Nothing, ReaderCut, WriterCut, WriterDies},
        StrictSubjects::{Blocks, Members},
    },
};
use super::{Figure, Plan};

/// A measured row.
#[derive(Clone, Copy, Debug)]
pub struct LoadTest {
    /// The name in the table of faults, such as `F35a`.
    pub name: &'static str,
    /// Short description.
    pub what: &'static str,
    needs: Needs,
    /// Starts the row's servers, measures, and stops them.
    run: for<'a> fn(&'a Plan, &'a Sizes) -> LocalBoxFuture<'a, Result<Vec<Figure>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Only servers that the row starts for itself.
    Servers,
    /// A Cassandra, which the row shares with other rows.
    Cassandra,
    /// Also a build with fail points, or with mutants.
    TestBuild,
}

/// Lists rows: the name, the needs, the description, and the function with its further arguments.
macro_rules! rows {
    ($($name:literal, $needs:ident, $what:literal, $run:path $(, $argument:expr)*;)*) => {
        &[$(LoadTest {
            name: $name,
            what: $what,
            needs: $needs,
            run: |plan, sizes| $run(plan, sizes $(, $argument)*).boxed_local(),
        }),*]
    };
}

/// All measured rows, ordered by name.
pub const LOAD_TESTS: &[LoadTest] = rows! {
    "F35a", Servers, "ten times the reads that the store can serve", overload::reads;
    "F35b", Servers, "ten times the writes that the store can serve", overload::writes;
    "F36", Servers, "one user floods a node with searches", flooder::run;
    "F40b", Servers, "a rolling restart under clients of the published service configuration", rolling::run;
    "F44", Servers, "logs and metrics are not read", blocked::run;
    "F50a", Cassandra, "blocks are set on one node and read on another at once", strict::run, Blocks, Nothing;
    "F50b", Cassandra, "the same, and the writer is cut from Redis again and again",
        strict::run, Blocks, WriterCut;
    "F50c", Cassandra, "the same, and the reader is cut from Redis again and again",
        strict::run, Blocks, ReaderCut;
    "F50d", TestBuild, "the same, and the writer dies before its broadcasts", strict::run, Blocks, WriterDies;
    "F51", TestBuild, "the writer of a follow or a block dies before its broadcast", orphaned::run;
    "F51b", TestBuild, "the writer of a user dies before its broadcast, while very many dialogs change each second",
        crowded_feed::run;
    "F52a", Cassandra, "members are removed on one node and read on another at once",
        strict::run, Members, Nothing;
    "F52b", Cassandra, "the same, and the writer is cut from Redis again and again",
        strict::run, Members, WriterCut;
    "F52c", Cassandra, "the same, and the reader is cut from Redis again and again",
        strict::run, Members, ReaderCut;
    "F52d", TestBuild, "the same, and the writer dies before its broadcasts",
        strict::run, Members, WriterDies;
    "F53", Cassandra,
        "three users decide the same applications, each through another node, and a node is killed every 5 s",
        decided::run;
    "F54a", Cassandra, "a gateway dies without a last call", online::run, SessionLoss::Gateway;
    "F54b", Cassandra, "the node of a gateway is killed, then another node together with the gateway",
        online::run, SessionLoss::Node;
    "F54c", Cassandra, "Redis is emptied while sessions continue", online::run, SessionLoss::Redis;
    "F55", Servers, "the database is dropped but not Redis; a node of another database uses the same prefix",
        shared_redis::dropped;
    "F56", Servers, "Redis forbids its channels and allows them again", shared_redis::forbidden;
    "F57", Servers, "documents and their versions are changed by hand", by_hand::run, false;
    "F57b", Servers, "the same, right after collections are dropped", by_hand::run, true;
    "F58", Cassandra, "relations are counted right after they change", counted::run;
    "F59a", Cassandra,
        "notices and messages are marked through three nodes while Redis is emptied, killed and cut off",
        marked::run, MarkLoss::Redis;
    "F59b", TestBuild, "the same, and nodes die between the store and Redis", marked::run, MarkLoss::Node;
    "F61", Cassandra,
        "messages are recalled and edited on one node and read on others; nodes are cut from Redis or paused",
        recalled::run;
    "F62", Cassandra, "members are removed and added while their groups send messages", removed::run;
    "F63", Cassandra, "the messages of a user are erased, and the erasing node is killed midway", erased::run;
    "F64", Cassandra, "MongoDB stands still while users answer each other", own_marks::run;
    "F65", Servers, "numbers of one sequence are reserved through three nodes, then nodes are killed",
        reserved::run;
    "F66", Servers, "calls are repeated with their request_id while Cassandra stands still again and again",
        repeated::run;
    "F67", TestBuild, "the clock of the node that removes old messages is 60 days ahead", fast_clock::run;
    "F68", Cassandra, "a node is killed whose clients have lost their network", lost_receivers::run;
    "F69a", Cassandra, "all changes are followed while nodes are killed and stores stand still",
        followed::in_cluster;
    "F69b", Servers,
        "all changes of a data file are followed while its node is killed and a backup is restored",
        followed::in_file;
    "F70", Cassandra,
        "users react while messages are recalled and erased, nodes are killed and stores stand still",
        reacted::run;
};

impl LoadTest {
    /// Whether the row needs a build with fail points, or with mutants.
    #[must_use]
    pub const fn needs_failpoints(&self) -> bool {
        matches!(self.needs, TestBuild)
    }

    /// Whether the row needs a Cassandra, which it shares with other rows.
    #[must_use]
    pub const fn shares_cassandra(&self) -> bool {
        matches!(self.needs, Cassandra | TestBuild)
    }

    /// Runs the row. Returns the figures in a fixed order, each with the row's name.
    ///
    /// # Errors
    /// If a server does not start, or a precondition for the measurement is not met.
    pub async fn run(&self, plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
        let figures = (self.run)(plan, sizes).await;
        let figures = figures.with_context(|| format!("{}: {}", self.name, self.what))?;
        Ok(figures.into_iter().map(|figure| figure.of(self.name)).collect())
    }
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
