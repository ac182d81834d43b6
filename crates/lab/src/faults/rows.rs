//! The rows in the table of faults: the fault, its duration, and the promises.

use std::time::Duration;

use super::{
    actions::Action,
    measures::{Measure, Promise},
    relation_client::RelationMix,
};
use crate::checker::FaultEffect;

/// The bound for a cached read without a fault.
pub const HEALTHY: Duration = Duration::from_secs(1);
/// The bound under any fault except when a writer dies.
pub(super) const FAULTY: Duration = Duration::from_secs(3);
/// The bound if a writer died before it published its change.
const ORPHANED: Duration = Duration::from_secs(11);
/// How long a fault may have effects after its end: delayed data arrives, connections are made again.
pub(super) const HEALS: Duration = Duration::from_secs(5);
/// Like `HEALS`, for a fault in which a part that calls need was unavailable.
const FAILING_HEALS: Duration = Duration::from_secs(12);
/// Calls continue for this time after a fault has ended.
const HEALED: Duration = Duration::from_secs(4);
/// How long most faults last.
const USUAL: Duration = Duration::from_secs(10);
/// How long faults last that test a long outage.
const LONG: Duration = Duration::from_secs(30);
/// How many members a replica set has: a majority remains if one fails.
const THREE: usize = 3;

/// Messages in each row about messages: a million in three rows.
const SENDS: u64 = 333_334;

/// The setting for a memory with room for few users, and for fewer groups.
const TINY: [&str; 1] = ["cache.memory_bytes=40KiB"];

/// Few concurrent calls to Cassandra.
const NARROW: [&str; 1] = ["store.cql.calls_max=4"];

/// A row in the table of faults.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name, such as `F10`.
    pub name: &'static str,
    /// Describes the fault in a few words.
    pub what: &'static str,
    /// The bound for a cached read during the fault, and for a while after it.
    pub bound: Duration,
    /// Whether calls may fail during the fault, because a part that they need is unavailable.
    pub may_fail: bool,
    /// How long the fault lasts.
    pub lasts: Duration,
    /// How many members MongoDB's replica set has.
    pub mongods: usize,
    /// Whether each node has a client that only makes strong reads.
    pub watched: bool,
    /// Whether it measures times, so that nothing else may run on the machine.
    pub alone: bool,
    /// Its promises beyond the checks.
    pub promises: &'static [Promise],
    /// The calls that clients about relations make; `None`: no such clients.
    pub(super) relation_mix: Option<RelationMix>,
    /// Acknowledged messages after which it ends; until then the fault is repeated. 0: clients send none.
    pub sends: u64,
    /// Additional settings for its nodes, `key=value` each.
    pub settings: &'static [&'static str],
    pub(super) action: Action,
}

/// All rows, ordered by name.
pub const ROWS: [Row; 45] = [
    row("F00", "nothing is wrong", Action::Nothing).within(HEALTHY).alone(),
    row("F01", "Redis is down, connections are refused", Action::RedisKilled),
    row("F02", "Redis is a black hole", Action::RedisFrozen),
    row("F03", "Redis answers 300 ms later", Action::RedisSlow),
    row("F04", "Redis dies, and the end of its log is lost", Action::RedisLogCut),
    row("F05", "Redis comes back with a dump from before", Action::RedisOld),
    row("F06", "Redis is emptied", Action::RedisEmptied),
    row("F07", "a replica that lags is promoted", Action::RedisPromoted),
    row("F08", "Redis is full", Action::RedisFull),
    row("F09", "one writer is cut from Redis", Action::OneCut),
    row("F10", "the subscriptions of one node are cut", Action::OneSubscriptionsCut),
    row("F11a", "one broadcast in a hundred is lost", Action::Lost(100)),
    row("F11b", "one broadcast in ten is lost", Action::Lost(10)),
    row("F12a", "each broadcast comes three times", Action::Repeated),
    row("F12b", "broadcasts are held back by up to 5 s", Action::Reordered),
    row("F13", "50,000 messages of strangers a second", Action::Flooded).alone(),
    row("F14", "strangers publish on every channel", Action::Forged),
    row("F15a", "a node dies between commit and broadcast", Action::NodeDies("after_commit=die@10"))
        .failing()
        .within(ORPHANED),
    row("F15b", "a node dies between broadcast and answer", Action::NodeDies("after_publish=die@10"))
        .failing()
        .within(ORPHANED),
    row(
        "F16a",
        "a node dies between the slot of a follow and its state",
        Action::NodeDies("follow_slot_taken=die@2"),
    )
    .failing()
    .within(ORPHANED)
    .related(RelationMix::USUAL),
    row("F16b", "a node dies between a follow and its answer", Action::NodeDies("follow_written=die@3"))
        .failing()
        .within(ORPHANED)
        .related(RelationMix::USUAL),
    row("F18", "a node is stopped", Action::NodeStopped).lasting(LONG),
    row("F20", "MongoDB's primary is killed", Action::PrimaryKilled)
        .failing()
        .over(THREE)
        .alone()
        .promising(&[Promise::new(Measure::Outage, 15_000.0), Promise::new(Measure::Unresolved, 0.0)]),
    row("F21", "MongoDB's primary steps down all the time", Action::PrimarySteppedDown)
        .failing()
        .over(THREE)
        .promising(&[Promise::new(Measure::Failed, 1.0)]),
    row("F22a", "MongoDB's primary and half of the nodes are apart", Action::PrimaryPartitioned)
        .failing()
        .over(THREE)
        .watched()
        .lasting(LONG)
        .alone()
        .promising(&[Promise::new(Measure::Outage, 15_000.0)]),
    row("F22b", "the same, and the primary stands still meanwhile", Action::PrimaryPaused)
        .failing()
        .over(THREE)
        .watched()
        .lasting(LONG),
    row("F23", "MongoDB answers 1 s later", Action::MongodbSlow).failing(),
    row("F24", "MongoDB is killed and started again", Action::MongodbKilled).failing(),
    row("F25", "Cassandra is killed and started again", Action::CassandraKilled)
        .failing()
        .related(RelationMix::USUAL)
        .promising(&[Promise::new(Measure::Refusal, 1_000.0)]),
    row("F26", "answers of Cassandra are lost", Action::CassandraAnswersHeld)
        .failing()
        .related(RelationMix::USUAL),
    row("F27", "answers of Cassandra to what is decided there are lost", Action::CassandraAnswersHeld)
        .failing()
        .related(RelationMix::MOSTLY_SETTINGS),
    row("F28", "Cassandra has no room", Action::CassandraPaused)
        .failing()
        .related(RelationMix::USUAL)
        .set(&NARROW),
    row("F29", "one follows another and takes it back thousands of times", Action::PairFlipped)
        .lasting(Duration::ZERO)
        .related(RelationMix::USUAL)
        .alone(),
    row("F30", "MongoDB and Redis are down", Action::BothDown).failing(),
    row("F31", "nodes start before MongoDB does", Action::MongodbLate)
        .failing()
        .alone()
        .promising(&[Promise::new(Measure::Comeback, 5_000.0)]),
    row("F32", "the links of a node are reset all the time", Action::LinksReset).failing(),
    row("F40", "nodes are asked to end and started again", Action::NodesEnded).failing().within(ORPHANED),
    row("F41a", "the disk of Redis is full", Action::RedisDiskFull),
    row("F41b", "the disk of MongoDB is full", Action::MongodbDiskFull).failing(),
    row("F43", "nodes are killed and started again", Action::NodesKilled).failing().within(ORPHANED),
    row("F45", "half of the nodes are of a newer version", Action::HalfNewer).failing(),
    row("F46", "memory holds some 64 records", Action::MemoryTiny).within(HEALTHY).set(&TINY).alone(),
    row("F60a", "clients send messages while nodes are killed", Action::NodesKilled)
        .failing()
        .within(ORPHANED)
        .sending(SENDS),
    row("F60b", "clients send messages while MongoDB's primary steps down", Action::PrimarySteppedDown)
        .failing()
        .over(THREE)
        .sending(SENDS),
    row(
        "F60c",
        "clients send messages while Redis is killed, emptied, put back and failed over",
        Action::RedisByTurns,
    )
    .failing()
    .within(ORPHANED)
    .sending(SENDS),
];

/// A row with the usual values.
pub(super) const fn row(name: &'static str, what: &'static str, action: Action) -> Row {
    Row {
        name,
        what,
        bound: FAULTY,
        may_fail: false,
        lasts: USUAL,
        mongods: 1,
        watched: false,
        alone: false,
        promises: &[],
        relation_mix: None,
        sends: 0,
        settings: &[],
        action,
    }
}

impl Row {
    /// Whether it needs a program build with fail points.
    #[must_use]
    pub const fn needs_failpoints(&self) -> bool {
        matches!(self.action, Action::NodeDies(_) | Action::HalfNewer)
    }

    /// Whether it uses a Cassandra that others may use, too.
    #[must_use]
    pub const fn shares_cassandra(&self) -> bool {
        self.sends > 0 || self.relation_mix.is_some() && !self.action.harms_cassandra()
    }

    /// The effect that its fault has.
    #[must_use]
    pub const fn effect(&self) -> FaultEffect {
        FaultEffect { bound: self.bound, heals: if self.may_fail { FAILING_HEALS } else { HEALS } }
    }

    /// How long calls continue after it, to show that no effect is left.
    #[must_use]
    pub const fn after(&self) -> Duration {
        self.effect().heals.saturating_add(HEALED)
    }

    pub(super) const fn within(self, bound: Duration) -> Self {
        Self { bound, ..self }
    }

    pub(super) const fn failing(self) -> Self {
        Self { may_fail: true, ..self }
    }

    const fn over(self, mongods: usize) -> Self {
        Self { mongods, ..self }
    }

    const fn watched(self) -> Self {
        Self { watched: true, ..self }
    }

    const fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    const fn promising(self, promises: &'static [Promise]) -> Self {
        Self { promises, ..self }
    }

    pub(super) const fn related(self, relation_mix: RelationMix) -> Self {
        Self { relation_mix: Some(relation_mix), ..self }
    }

    const fn sending(self, sends: u64) -> Self {
        Self { sends, ..self }
    }

    const fn set(self, settings: &'static [&'static str]) -> Self {
        Self { settings, ..self }
    }

    pub(super) const fn lasting(self, lasts: Duration) -> Self {
        Self { lasts, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_continue_past_heal_time_of_every_fault() {
        for row in &ROWS {
            let effect = row.effect();
            assert!(effect.heals > effect.bound && row.after() > effect.heals, "{row:?}");
        }
    }
}
