//! `kith check`: compares values with thresholds, for monitoring that runs a program (Nagios and its kin).

mod threshold;

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use kith_proto::admin::v1::{ListNodesRequest, NodeInfo, admin_service_client::AdminServiceClient};
use serde::Serialize;

use self::threshold::{Overrides, Threshold, ThresholdOverride};
use super::{
    Common,
    client::{Target, message_of},
    facts::{Facts, share},
    output::{Report, note},
};

/// The check that only a node on SQLite has.
const STORE_FREE: &str = "store_free_bytes";

/// Which node to check, and against what.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Checked, each printed with its value, and the value at which it is a warning and critical:\n  \
        node                whether it answers\n  \
        serving             whether its health reports that it serves\n  \
        store               whether its store answers\n  \
        relations           of a cluster: whether the store of relations answers; critical if not\n  \
        migrations_pending  of its store\n  \
        memory_hit_rate     part of the reads that memory answered since the start, 0 to 1; lower is worse\n  \
        memory_used         part of the bytes of memory in use, 0 to 1\n  \
        log_lines_dropped   since the start\n  \
        calls_used          calls in flight as part of limits.in_flight, 0 to 1\n  \
        clock_seconds       difference between its clock and that of this machine\n  \
        store_free_bytes    by how much the data file of a node on SQLite can still grow; lower is worse\n  \
        damaged_reads       calls since the start that failed because stored data cannot be read\n\
        Of a node that shares Redis with others also:\n  \
        trusted             whether it can prove that it missed no change; critical if not\n  \
        redis_breaker       a warning unless closed\n  \
        proof_seconds       since the last such proof; from 1 a warning, from 3 critical\n  \
        changes_waiting     changes not published to the others yet; from 1, from 1000\n  \
        entries_behind      changes of others that it knows of and has not applied; from 1000, from 10000\n  \
        resync_stale        stale copies found since the start; from 1 a warning: a defect\n  \
         callers             whether all nodes know the same callers; critical if not\n  \
        observer_stale      old copies that other nodes held of its writes since the start; from 1 a warning: a \
                            defect\n\n\
        Exit codes: 0 all well, 1 a warning, 2 critical."
)]
pub(super) struct CheckOptions {
    /// The level if the node does not answer
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "critical")]
    node_away_is: UnreachableLevel,
    /// At which value a check warns: --warn calls_used=0.5; `none`: never
    #[arg(long, value_name = "NAME=VALUE", value_parser = ThresholdOverride::parse)]
    warn: Vec<ThresholdOverride>,
    /// At which value a check is critical: --critical calls_used=0.8; `none`: never
    #[arg(long, value_name = "NAME=VALUE", value_parser = ThresholdOverride::parse)]
    critical: Vec<ThresholdOverride>,
    #[command(flatten)]
    target: Target,
}

/// The level of a node that does not answer.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnreachableLevel {
    Warning,
    Critical,
}

/// Checks the node. The exit code is the worst level. Fails when the result cannot be written.
pub(super) async fn run(common: &Common, arguments: &CheckOptions) -> Result<u8> {
    let overrides = Overrides { warn: &arguments.warn, critical: &arguments.critical };
    let found = async {
        let facts = Facts::of(&arguments.target).await?;
        let nodes =
            if facts.cluster_node().is_some() { listed(&arguments.target).await? } else { Vec::new() };
        anyhow::Ok((facts, nodes))
    };
    let checks = match found.await {
        Ok((facts, nodes)) => checks(&facts, &nodes, &overrides),
        Err(why) => {
            note(&format!("kith: {why:#}"));
            vec![Check::state("node", "unreachable", Level::from(arguments.node_away_is))]
        }
    };
    let worst = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
    common.output.print(&CheckReport { node: arguments.target.addr.clone(), level: worst, checks })?;
    Ok(worst as u8)
}

/// A check's level. Its number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
enum Level {
    Ok = 0,
    Warning = 1,
    Critical = 2,
}

impl From<UnreachableLevel> for Level {
    fn from(away: UnreachableLevel) -> Self {
        match away {
            UnreachableLevel::Warning => Self::Warning,
            UnreachableLevel::Critical => Self::Critical,
        }
    }
}

#[derive(Serialize)]
struct CheckReport {
    node: String,
    level: Level,
    checks: Vec<Check>,
}

/// A value with its thresholds.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    level: Level,
    value: String,
    warn: String,
    critical: String,
}

impl Check {
    /// Makes a check for a condition that is met or not.
    fn state(check: &'static str, value: &str, level: Level) -> Self {
        let critical = if level == Level::Ok { String::new() } else { value.to_owned() };
        Self { check, level, value: value.to_owned(), warn: String::new(), critical }
    }

    /// Makes a check for a circuit breaker: a node also serves while it is open.
    fn closed(check: &'static str, value: &str) -> Self {
        let closed = value == "closed";
        let level = if closed { Level::Ok } else { Level::Warning };
        let warn = if closed { String::new() } else { value.to_owned() };
        Self { check, level, value: value.to_owned(), warn, critical: String::new() }
    }

    fn number(threshold: &Threshold, value: Option<f64>) -> Self {
        Self {
            check: threshold.name,
            level: value.map_or(Level::Ok, |value| threshold.level(value)),
            value: value.map_or_else(|| "unknown".to_owned(), threshold::shown),
            warn: threshold.warn.map_or_else(String::new, threshold::shown),
            critical: threshold.critical.map_or_else(String::new, threshold::shown),
        }
    }
}

/// Lists the nodes that the node knows.
async fn listed(target: &Target) -> Result<Vec<NodeInfo>> {
    let mut client = AdminServiceClient::new(target.connect_now().await?);
    let listed = target.answer(client.list_nodes(target.request(ListNodesRequest {}))).await;
    Ok(listed
        .map_err(|status| anyhow!("{} does not list the nodes: {}", target.addr, message_of(&status)))?
        .into_inner()
        .nodes)
}

/// Checks that all nodes know the same callers. A node without callers has no digest, nor has a node with an
/// earlier version.
fn callers(nodes: &[NodeInfo]) -> Check {
    let mut digests = nodes.iter().map(|node| &node.callers_digest).filter(|digest| !digest.is_empty());
    let first = digests.next();
    let same = digests.all(|digest| Some(digest) == first);
    Check::state(
        "callers",
        if same { "same" } else { "differ" },
        if same { Level::Ok } else { Level::Critical },
    )
}

fn checks(facts: &Facts, nodes: &[NodeInfo], overrides: &Overrides<'_>) -> Vec<Check> {
    let of = |good| if good { Level::Ok } else { Level::Critical };
    let mut checks = vec![
        Check::state("node", "answers", Level::Ok),
        Check::state("serving", facts.state(), of(facts.serving)),
    ];
    if let Some(node) = &facts.node {
        let store = if node.store_answers { "answers" } else { "away" };
        checks.push(Check::state("store", store, of(node.store_answers)));
        if !node.relations.is_empty() {
            checks.push(Check::state("relations", &node.relations, of(node.relations != "away")));
        }
    }
    if let Some(node) = facts.cluster_node() {
        let trusted = if node.trusted { "yes" } else { "no" };
        checks.push(Check::state("trusted", trusted, of(node.trusted)));
        checks.push(Check::closed("redis_breaker", &node.redis_breaker));
        checks.push(callers(nodes));
    }
    let thresholds = threshold::all(overrides);
    let has_file = facts.node.as_ref().is_some_and(|node| node.store_free_bytes.is_some());
    let held = thresholds.iter().filter(|one| {
        (!one.of_cluster || facts.cluster_node().is_some()) && (one.name != STORE_FREE || has_file)
    });
    checks.extend(held.map(|threshold| Check::number(threshold, value(facts, threshold.name))));
    checks
}

/// Returns a threshold's value on the node, if it has any.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn value(facts: &Facts, name: &str) -> Option<f64> {
    let node = facts.node.as_ref()?;
    match name {
        "migrations_pending" => node.store_answers.then_some(node.migrations_pending as f64),
        "memory_hit_rate" => facts.hit_rate(),
        "memory_used" => share(facts.sum(|one| one.weight_bytes), facts.memory_limit()),
        "log_lines_dropped" => Some(node.log_lines_dropped as f64),
        "calls_used" => share(node.calls_in_flight, node.calls_limit),
        "clock_seconds" => facts.clock_ahead_seconds.map(f64::abs),
        STORE_FREE => node.store_free_bytes.map(|free| free as f64),
        "damaged_reads" => Some(node.damaged_reads as f64),
        "proof_seconds" => facts.since_proof().map(|since| since.as_secs_f64()),
        "changes_waiting" => Some(node.changes_waiting as f64),
        "entries_behind" => Some(node.entries_behind as f64),
        "resync_stale" => Some(facts.sum(|one| one.resync_stale) as f64),
        "observer_stale" => Some(node.observer_stale as f64),
        _ => None,
    }
}

impl Report for Check {
    const COLUMNS: &'static [&'static str] = &["check", "level", "value", "warn", "critical"];
}

impl Report for CheckReport {
    const COLUMNS: &'static [&'static str] = Check::COLUMNS;

    fn rows(&self) -> Vec<Vec<String>> {
        self.checks.rows()
    }
}

#[cfg(test)]
mod tests {
    use kith_proto::admin::v1::{GetNodeResponse, NamespaceStats};

    use super::*;

    /// Returns the names and levels of a node's checks.
    fn levels(node: GetNodeResponse, stale: i64) -> Vec<(&'static str, Level)> {
        let memory = vec![NamespaceStats { resync_stale: stale, ..Default::default() }];
        let facts = Facts { serving: true, node: Some(node), memory, clock_ahead_seconds: Some(0.0) };
        let checks = checks(&facts, &[], &Overrides { warn: &[], critical: &[] });
        checks.iter().map(|check| (check.check, check.level)).collect()
    }

    /// Makes a cluster node with a recent proof.
    fn well() -> GetNodeResponse {
        GetNodeResponse {
            store_answers: true,
            trusted: true,
            redis: "follows".to_owned(),
            redis_breaker: "closed".to_owned(),
            relations: "answers".to_owned(),
            since_proof: Some(prost_types::Duration { seconds: 0, nanos: 200_000_000 }),
            ..Default::default()
        }
    }

    #[test]
    fn promise_is_checked_of_cluster_nodes_alone() {
        let alone = GetNodeResponse { store_answers: true, trusted: true, ..Default::default() };
        let alone = levels(alone, 0);
        assert_eq!(alone.len(), 10, "{alone:?}");
        let well = levels(well(), 0);
        assert_eq!(well.len(), 19, "{well:?}");
        assert!(well.iter().chain(&alone).all(|(_, level)| *level == Level::Ok), "{well:?} {alone:?}");
    }

    #[test]
    fn memory_has_one_limit_for_all_namespaces() {
        let of =
            |weight_bytes| NamespaceStats { weight_bytes, weight_limit_bytes: 100, ..Default::default() };
        let (memory, node) = (vec![of(20), of(30)], Some(well()));
        let facts = Facts { serving: true, node, memory, clock_ahead_seconds: None };
        assert_eq!(value(&facts, "memory_used"), Some(0.5));
    }

    #[test]
    fn nodes_with_different_callers_are_critical() {
        let node = |digest: &str| NodeInfo { callers_digest: digest.to_owned(), ..Default::default() };
        let level =
            |digests: &[&str]| callers(&digests.iter().map(|digest| node(digest)).collect::<Vec<_>>()).level;
        assert_eq!(level(&["a", "b"]), Level::Critical);
        assert_eq!(level(&["a", "", "a"]), Level::Ok, "one of an earlier version says nothing");
        assert_eq!(level(&[]), Level::Ok);
    }

    #[test]
    fn each_broken_part_of_the_promise_is_reported() {
        let since_proof = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let open = "open".to_owned();
        for (node, stale, check, level) in [
            (GetNodeResponse { trusted: false, ..well() }, 0, "trusted", Level::Critical),
            (GetNodeResponse { relations: "away".to_owned(), ..well() }, 0, "relations", Level::Critical),
            (GetNodeResponse { redis_breaker: open, ..well() }, 0, "redis_breaker", Level::Warning),
            (GetNodeResponse { since_proof: since_proof(1), ..well() }, 0, "proof_seconds", Level::Warning),
            (GetNodeResponse { since_proof: since_proof(3), ..well() }, 0, "proof_seconds", Level::Critical),
            (GetNodeResponse { changes_waiting: 1, ..well() }, 0, "changes_waiting", Level::Warning),
            (GetNodeResponse { entries_behind: 10_000, ..well() }, 0, "entries_behind", Level::Critical),
            (well(), 1, "resync_stale", Level::Warning),
            (GetNodeResponse { observer_stale: 1, ..well() }, 0, "observer_stale", Level::Warning),
            (
                GetNodeResponse { store_free_bytes: Some(255 << 20), ..well() },
                0,
                "store_free_bytes",
                Level::Warning,
            ),
            (GetNodeResponse { store_free_bytes: Some(0), ..well() }, 0, "store_free_bytes", Level::Critical),
            (GetNodeResponse { damaged_reads: 1, ..well() }, 0, "damaged_reads", Level::Critical),
        ] {
            let bad: Vec<_> =
                levels(node, stale).into_iter().filter(|(_, level)| *level != Level::Ok).collect();
            assert_eq!(bad, [(check, level)]);
        }
    }
}
