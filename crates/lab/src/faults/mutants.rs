//! Clusters that lack a rule: violations that the checker misses there, it would miss elsewhere.

use std::time::Duration;

use super::{
    actions::Action,
    mix::Mix,
    relation_client::RelationMix,
    rows::{HEALTHY, Row, row},
    run::Load,
};

/// Every second load waits this long between its answer and the fill into memory.
pub(super) const LATE_LOADS: &str = "after_load=wait:150@2";
/// How long most runs last.
const LASTS: Duration = Duration::from_secs(8);
/// Users that few calls are about: few, so that a cluster is soon filled, and compared in the end.
const COLD: i64 = 200;

/// A cluster that lacks a rule.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// The rules that its program lacks, by name, separated by commas. Empty: the store lacks a rule, not the
    /// program.
    pub rules: &'static str,
    /// The fail point at which its program waits. Empty: none.
    pub(super) waits: &'static str,
    /// The checks that may notice it, such as `C3`. At least one must.
    pub checks: &'static [&'static str],
    pub(super) row: Row,
    pub(super) load: Load,
}

/// A cluster that lacks nothing, under the same load.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// The fail point at which its program waits. Empty: none.
    pub(super) waits: &'static str,
    pub(super) row: Row,
}

/// Controls, which must pass before any mutant cluster is judged.
pub const CONTROLS: [Control; 3] = [
    Control {
        waits: "",
        row: row("M00a", "nothing is lacking", Action::Nothing).lasting(LASTS).within(HEALTHY),
    },
    Control {
        waits: LATE_LOADS,
        row: row("M00b", "nothing is lacking, loads are late", Action::Nothing)
            .lasting(LASTS)
            .within(HEALTHY),
    },
    Control {
        waits: "",
        row: row("M00c", "nothing is lacking, of relations", Action::Nothing)
            .lasting(LASTS)
            .within(HEALTHY)
            .related(RelationMix::USUAL),
    },
];

/// All mutants. The first is noticed on every build that can lack rules. If one rule backs up another, both
/// are removed: the store's change feed soon publishes what no writer published, and memory keeps nothing
/// that is older than what it has.
pub const MUTANTS: [Mutant; 11] = [
    mutant(
        "published,feed_publishes",
        row("M01", "changes are not broadcast", Action::Nothing).within(HEALTHY),
    ),
    mutant(
        "published_after_commit,feed_publishes",
        row(
            "M02",
            "changes are broadcast before the commit",
            Action::MongodbJittered(Duration::from_millis(30)),
        )
        .within(HEALTHY),
    ),
    mutant(
        "fill_floor,fill_newer_only",
        row("M03", "a load fills a version older than the known one", Action::Nothing).within(HEALTHY),
    )
    .waiting(LATE_LOADS),
    mutant("chain_gap", row("M04", "a gap in the received entries is ignored", Action::Lost(3)))
        .mixed(SELDOM),
    mutant("trust_deadline", row("M05", "a node that receives nothing continues to serve", Action::OneCut)),
    mutant("", row("M06", "names have no unique index", Action::NamesShared))
        .mixed(CREATING)
        .seen_by(&["C8"]),
    mutant("", row("M07", "requests are forgotten", Action::RequestsForgotten))
        .mixed(WRITING)
        .seen_by(&["C16"]),
    mutant(
        "unread_flushes,feed_publishes",
        row("M08", "a message that cannot be read changes nothing", Action::HalfNewer).failing(),
    )
    .under(SHORT),
    mutant(
        "one_batch",
        row("M09", "a follow and its list entries are written separately", Action::CassandraAnswersHeld)
            .failing(),
    )
    .under(LONG)
    .relating(RelationMix::USUAL)
    .seen_by(&["C12", "C13"]),
    mutant("changed_if_same", row("M10", "settings are written without a condition", Action::Nothing))
        .relating(RelationMix::MOSTLY_SETTINGS)
        .seen_by(&["C5", "C14"]),
    mutant("version_above", row("M11", "versions of follows are the time of the clock", Action::Nothing))
        .relating(RelationMix::USUAL)
        .seen_by(&["C4", "C12"]),
];

/// The checks about copies.
const COHERENCE: &[&str] = &["C1", "C2", "C3", "C7"];

const CREATING: Mix = Mix { updates: 100, creations: 300, deletions: 150, strong: 50, by_token: 50 };
const WRITING: Mix = Mix { updates: 600, creations: 50, deletions: 20, strong: 30, by_token: 50 };
/// Writes are so rare that stale copies are read before the next write.
const SELDOM: Mix = Mix { updates: 80, creations: 2, deletions: 2, strong: 20, by_token: 20 };

/// The load in most runs.
pub(super) const LOAD: Load = Load {
    pinned: 6,
    roaming: 2,
    before: Duration::from_secs(3),
    lasts: None,
    after: Some(Duration::from_secs(1)),
    cold: COLD,
    mix: Mix::WRITING,
    deaths: 0,
    sends: None,
};
/// A shorter run, for a row that is slow to begin and to end.
const SHORT: Load = Load { lasts: Some(Duration::from_secs(4)), ..LOAD };

/// A longer run, for rows in which a retry or another change may repair what is left half done.
const LONG: Load = Load { lasts: Some(Duration::from_secs(20)), ..LOAD };

const fn mutant(rules: &'static str, row: Row) -> Mutant {
    Mutant { rules, waits: "", checks: COHERENCE, row: row.lasting(LASTS), load: LOAD }
}

/// The rows for all mutants and controls.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    CONTROLS.iter().map(|control| &control.row).chain(MUTANTS.iter().map(|mutant| &mutant.row))
}

impl Control {
    /// The name, such as `M00a`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.row.name
    }
}

impl Mutant {
    /// The name, such as `M01`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.row.name
    }

    const fn mixed(self, mix: Mix) -> Self {
        Self { load: Load { mix, ..self.load }, ..self }
    }

    const fn waiting(self, waits: &'static str) -> Self {
        Self { waits, ..self }
    }

    const fn under(self, load: Load) -> Self {
        Self { load, ..self }
    }

    const fn relating(self, relation_mix: RelationMix) -> Self {
        Self { row: self.row.related(relation_mix), ..self }
    }

    const fn seen_by(self, checks: &'static [&'static str]) -> Self {
        Self { checks, ..self }
    }
}
