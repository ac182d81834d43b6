//! The table of faults and the alerts that each must trigger.

use std::time::Duration;

use super::{callers::CallersFault, embedded::EmbeddedFault, faults::AlertFault, load::AlertLoad};

/// A fault with its alerts.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name, such as `one-cut`.
    pub name: &'static str,
    /// Describes the fault in a few words.
    pub what: &'static str,
    /// The alerts that must fire. `KithCallsShed reads` also requires what the alert says that it is about.
    pub fires: &'static [&'static str],
    /// The alerts that may fire, because the fault causes them if it lasts.
    pub may_fire: &'static [&'static str],
    /// Scrapes before it, in which none may fire.
    pub before: usize,
    /// Scrapes from its beginning on.
    pub lasts: usize,
    /// Whether it needs a program build that can lack rules.
    pub needs_mutants: bool,
    /// Additional settings for the nodes, `key=value` each.
    pub settings: &'static [&'static str],
    /// Whether the cluster has a relation store.
    pub(super) has_relations: bool,
    pub(super) load: AlertLoad,
    pub(super) fault: AlertFault,
}

/// A virtual hour.
const HOUR: usize = 240;
/// Scrapes before most faults: five virtual minutes.
const CALM: usize = 20;
/// How much later MongoDB answers where it is slow.
const LATE: Duration = Duration::from_millis(700);
/// Like `LATE`, if MongoDB only has to be slower than the load.
const BUSY: Duration = Duration::from_millis(150);

/// Nine in ten calls read. One in ten reads a user that is in no memory.
const LOAD: AlertLoad = AlertLoad {
    callers: 6,
    pause: Duration::from_millis(20),
    users: 100,
    writes: 10,
    of_missing: 10,
    sends: 0,
    marks: 0,
};
/// There are so many callers that enough calls fail, although each call waits for seconds.
const PATIENT: AlertLoad = AlertLoad { callers: 24, pause: Duration::from_millis(100), ..LOAD };
/// Callers that send messages. Each waits for its answer, and the node tries for 10 s in any case.
const SENDS: AlertLoad = AlertLoad { sends: 90, writes: 0, ..PATIENT };
/// Callers that mark notices as read.
const MARKS: AlertLoad = AlertLoad { marks: 20, writes: 0, ..LOAD };
/// Callers that do not write: a write asks a slow store several times.
const READS: AlertLoad = AlertLoad { writes: 0, ..LOAD };
/// A load that is higher than usual.
const MANY: AlertLoad = AlertLoad { callers: 48, of_missing: 50, writes: 50, ..LOAD };
/// The two loads have so few users that even a small memory has room for them, and more users than it has
/// room for. KithHitRateFell begins to look once there was a call a second, on the average of half an hour.
const FEW: AlertLoad =
    AlertLoad { pause: Duration::from_millis(10), users: 20, writes: 2, of_missing: 2, ..LOAD };
const TOO_MANY: AlertLoad = AlertLoad { users: 2_000, ..FEW };
/// A load that leaves a lot in the log.
const LOUD: AlertLoad = AlertLoad { callers: 12, pause: Duration::from_millis(2), ..LOAD };

/// All cases, in the order in which they run.
pub const CASES: [Case; 34] = [
    Case { before: HOUR, lasts: 0, ..case("healthy", "nothing is wrong", AlertFault::Nothing) },
    case("targets-removed", "Prometheus has no targets any more", AlertFault::TargetsRemoved)
        .fires(&["KithNotScraped nothing"]),
    case("all-killed", "all nodes are killed", AlertFault::AllKilled)
        .fires(&["KithNoNodeServes", "KithNodeNotServing"]),
    case("one-killed", "one node is killed", AlertFault::OneKilled).fires(&["KithNodeNotServing"]),
    case("one-cut", "one node, where some write, is cut from Redis", AlertFault::OneCut)
        .fires(&["KithNodeUntrusted", "KithChangesWaiting"]),
    case("one-flaps", "the link of one node to Redis stands still again and again", AlertFault::OneFlaps)
        .fires(&["KithRedisUnsteady"])
        .lasts(44),
    case(
        "one-behind",
        "one node is cut from both servers while a new epoch begins",
        AlertFault::OneLeftBehind,
    )
    .fires(&["KithEpochsDiffer"])
    .may_fire(&[
        "KithNodeNotServing",
        "KithNodeUntrusted",
        "KithChangesWaiting",
        "KithLoadsFail",
        "KithCallsFail",
    ]),
    case("redis-emptied", "Redis is emptied again and again", AlertFault::RedisEmptied)
        .fires(&["KithMemoryEmptiedOften"])
        .lasts(50),
    case("redis-full", "Redis has no room for a while, and then has room again", AlertFault::RedisFull)
        .fires(&["KithNodeUntrusted", "KithChangesWaiting"])
        .may_fire(&["KithFeedUnread"])
        .lasts(80),
    case("gateway-died", "a gateway dies, and no node looks for dead ones", AlertFault::GatewayDies)
        .fires(&["KithPresenceBehind gateways"])
        .set(&["presence.gateway_ttl=2s", "presence.sweep_every=1h"]),
    case("forged", "strangers publish on every channel", AlertFault::Forged).fires(&["KithForgedMessages"]),
    case(
        "apart",
        "nodes report an address at which they cannot be reached",
        AlertFault::StartedWith(("KITH_CLUSTER__ADVERTISE", "http://127.0.0.1:1"), LOAD),
    )
    .fires(&["KithFreshnessUnchecked"])
    .lasts(100),
    case("mongodb-away", "MongoDB is away", AlertFault::MongodbAway)
        .load(PATIENT)
        .fires(&["KithCallsFail", "KithLoadsFail", "KithNoNodeServes"])
        .may_fire(&["KithNodeNotServing", "KithCallsSlow", "KithFeedUnread"])
        .lasts(50),
    case("sends-away", "MongoDB is away while users send", AlertFault::MongodbAway)
        .load(SENDS)
        .fires(&["KithMessagesWait tries"])
        .may_fire(&[
            "KithCallsFail",
            "KithLoadsFail",
            "KithNoNodeServes",
            "KithNodeNotServing",
            "KithCallsSlow",
            "KithFeedUnread",
        ])
        .lasts(50),
    case("sends-cut", "one node, where users send, is cut from Redis", AlertFault::OneCut)
        .load(SENDS)
        .fires(&["KithDeliveryBehind undelivered", "KithNodeUntrusted"])
        .may_fire(&["KithChangesWaiting"]),
    case("marks-cut", "one node, where readers mark notices, is cut from Redis", AlertFault::OneCut)
        .load(MARKS)
        .fires(&["KithNoticeCountsWrong missed", "KithNodeUntrusted"])
        .may_fire(&["KithChangesWaiting"]),
    case("collections-dropped", "a collection is dropped again and again", AlertFault::CollectionsDropped)
        .fires(&["KithFeedUnread"])
        .may_fire(&["KithMemoryEmptiedOften"])
        // The feed is unread in the pauses between discards. Only that of 32 s, after those of 1 to 16 s, is
        // long enough for the alert at any times of the drops.
        .lasts(160),
    Case { has_relations: true, ..case("cassandra-away", "Cassandra is away", AlertFault::CassandraAway) }
        .fires(&["KithRelationsAway"])
        .may_fire(&["KithLoadsFail", "KithFeedUnread"])
        .lasts(40),
    case("mongodb-slow", "MongoDB answers late", AlertFault::MongodbSlow(LATE))
        .load(READS)
        .fires(&["KithCallsSlow"])
        .lasts(70),
    case("store-crowded", "more is read and written than MongoDB bears", AlertFault::Crowded(BUSY, MANY))
        .fires(&["KithCallsShed reads", "KithCallsShed writes"])
        // A load that is turned away has failed.
        .may_fire(&["KithLoadsFail"])
        .set(&["cache.loads_in_flight=2", "limits.writes_in_flight=2"])
        .lasts(50),
    case("node-crowded", "more is called than a node takes on", AlertFault::Crowded(BUSY, MANY))
        .fires(&["KithCallsShed calls"])
        .set(&["limits.in_flight=4"])
        .lasts(50),
    case("log-unread", "the log of a node is not read", AlertFault::LogUnread(LOUD))
        .fires(&["KithLogLinesDropped"])
        .set(&["telemetry.library_lines=true"])
        .lasts(60),
    Case {
        before: 140,
        load: FEW,
        ..case(
            "crowd-grew",
            "a day later more is read than memory has room for",
            AlertFault::NextDay(TOO_MANY),
        )
    }
    .fires(&["KithHitRateFell"])
    .set(&["cache.memory_bytes=40KiB"])
    .lasts(165),
    case(
        "insecure-callers",
        "nodes let everybody do everything",
        AlertFault::StartedWith(("KITH_INSECURE_CALLERS", "true"), LOAD),
    )
    .fires(&["KithInsecureCallers"])
    .lasts(75),
    case(
        "credentials-refused",
        "one node needs a key, and those who call have none",
        AlertFault::Callers(CallersFault::KeyNeeded),
    )
    .fires(&["KithCredentialsRefused"])
    .lasts(50),
    case(
        "credentials-end-soon",
        "a key of a caller ends in ten days",
        AlertFault::CallersWithoutCalls(CallersFault::KeyEndsSoon),
    )
    .fires(&["KithCredentialsEndSoon"])
    .lasts(60),
    case(
        "callers-not-reloaded",
        "the file of keys of one node is emptied",
        AlertFault::CallersWithoutCalls(CallersFault::FileEmptied),
    )
    .fires(&["KithCallersNotReloaded"])
    .lasts(40),
    case(
        "certificate-ends-soon",
        "the certificates of nodes end in ten days",
        AlertFault::Embedded(EmbeddedFault::CertificateEndsSoon),
    )
    .fires(&["KithCertificateEndsSoon"])
    .lasts(60),
    case(
        "file-nearly-full",
        "the data files of nodes may not become large",
        AlertFault::Embedded(EmbeddedFault::NearlyFull),
    )
    .fires(&["KithStoreNearlyFull"])
    .lasts(40),
    case("file-full", "the data files of nodes are full", AlertFault::Embedded(EmbeddedFault::Full))
        .fires(&["KithStoreFull"])
        .may_fire(&["KithStoreNearlyFull"]),
    case(
        "pages-damaged",
        "pages of the data files of nodes are overwritten, and read",
        AlertFault::Embedded(EmbeddedFault::Damaged),
    )
    .fires(&["KithStoreDamaged"])
    .may_fire(&["KithCallsFail"]),
    case(
        "unpublished",
        "changes are not broadcast",
        AlertFault::StartedWith(("KITH_MUTANT", "published,feed_publishes"), LOAD),
    )
    .fires(&["KithStaleReads"])
    .lasts(60)
    .of_mutants(),
    case(
        "feed-late",
        "the reader of the change feed publishes half a minute late",
        AlertFault::StartedWith(("KITH_MUTANT", "feed_prompt"), LOAD),
    )
    .fires(&["KithFeedLate"])
    .may_fire(&["KithFeedUnread"])
    .lasts(60)
    .of_mutants(),
    case(
        "clock-ahead",
        "the clocks of the nodes are 60 days ahead of that of MongoDB",
        AlertFault::StartedWith(("KITH_MUTANT", "clock_right"), LOAD),
    )
    .fires(&["KithClockWrong apart"])
    .lasts(60)
    .of_mutants(),
];

/// Creates a case with the usual times and load.
const fn case(name: &'static str, what: &'static str, fault: AlertFault) -> Case {
    let (fires, may_fire, settings): (&[_], &[_], &[_]) = (&[], &[], &[]);
    let (before, lasts, needs_mutants, has_relations, load) = (CALM, 30, false, false, LOAD);
    Case { name, what, fires, may_fire, before, lasts, needs_mutants, settings, has_relations, load, fault }
}

impl Case {
    /// Whether it shows the alert with this name.
    #[must_use]
    pub fn shows(&self, alert: &str) -> bool {
        self.fires.iter().any(|fires| fires.split(' ').next() == Some(alert))
    }

    /// Sets how many scrapes there are before the fault and from its begin on.
    #[must_use]
    pub const fn within(self, before: usize, lasts: usize) -> Self {
        Self { before, lasts, ..self }
    }

    const fn fires(self, fires: &'static [&'static str]) -> Self {
        Self { fires, ..self }
    }

    const fn may_fire(self, may_fire: &'static [&'static str]) -> Self {
        Self { may_fire, ..self }
    }

    const fn load(self, load: AlertLoad) -> Self {
        Self { load, ..self }
    }

    const fn lasts(self, lasts: usize) -> Self {
        Self { lasts, ..self }
    }

    const fn set(self, settings: &'static [&'static str]) -> Self {
        Self { settings, ..self }
    }

    const fn of_mutants(self) -> Self {
        Self { needs_mutants: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::alerts::Rules;

    #[test]
    fn cases_cover_all_alerts_and_no_unknown_ones() {
        let rules = Rules::published();
        let alerts: BTreeSet<&str> = rules.alerts().into_iter().collect();
        // A cluster has no forwarder.
        for alert in alerts.iter().filter(|alert| !alert.starts_with("KithForward")) {
            assert!(CASES.iter().any(|case| case.shows(alert)), "nothing shows {alert}");
        }
        for name in CASES.iter().flat_map(|case| case.fires.iter().chain(case.may_fire)) {
            assert!(name.split(' ').next().is_some_and(|alert| alerts.contains(alert)), "{name}");
        }
    }

    #[test]
    fn case_names_differ_and_only_healthy_is_silent() {
        assert_eq!(CASES.iter().map(|case| case.name).collect::<BTreeSet<_>>().len(), CASES.len());
        assert!(CASES.iter().all(|case| case.fires.is_empty() == (case.name == "healthy")));
    }

    #[test]
    fn the_healthy_hour_is_an_hour() {
        let interval = super::super::rules::scrape_interval().unwrap();
        let healthy = CASES[0].before + CASES[0].lasts;
        assert_eq!(interval * u32::try_from(healthy).unwrap(), Duration::from_secs(3_600));
    }
}
