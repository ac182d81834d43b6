//! `kith status`: shows a row for each node.

use anyhow::Result;
use futures::future::join_all;
use serde::Serialize;

use super::{
    Common, FAILED, OK,
    client::{Target, Targets},
    facts::Facts,
    output::{OutputForm, Report, note, yes},
    top::shown,
};

/// Which nodes to ask.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every node serves, 1 one does not or is unreachable, 2 the only node that was asked is unreachable."
)]
pub(super) struct StatusOptions {
    #[command(flatten)]
    targets: Targets,
}

/// Asks the nodes, all at the same time. Fails when a single node is asked and does not answer.
pub(super) async fn run(common: &Common, arguments: &StatusOptions) -> Result<u8> {
    let asked = arguments.targets.each().map(|target| async move {
        let facts = Facts::of(&target).await;
        (target, facts)
    });
    let mut answers = join_all(asked).await;
    if let [(_, Err(_))] = answers.as_slice()
        && let Some((_, Err(why))) = answers.pop()
    {
        return Err(why);
    }
    let status = Status(answers.iter().map(|(target, facts)| row(target, facts)).collect());
    common.output.print(&status)?;
    if common.output.form() == OutputForm::Table {
        status.0.iter().filter_map(|row| row.error.as_ref()).for_each(|why| note(&format!("kith: {why}")));
    }
    Ok(if status.0.iter().all(|row| row.state == "serving") { OK } else { FAILED })
}

#[derive(Serialize)]
#[serde(transparent)]
struct Status(Vec<StatusRow>);

/// A row in the status table. Unknown values are absent.
#[derive(Default, Serialize)]
struct StatusRow {
    node: String,
    state: String,
    version: Option<String>,
    store: Option<String>,
    store_answers: Option<bool>,
    epoch: Option<i64>,
    /// The last change, its own or another node's, that it has applied.
    applied: Option<i64>,
    trusted: Option<bool>,
    /// How many of others' changes it knew and has not applied. Absent for a node that shares nothing with
    /// others; so are the next six.
    entries_behind: Option<i64>,
    /// The time since the last proof; absent before the first proof.
    since_proof_seconds: Option<f64>,
    redis_hit_rate: Option<f64>,
    redis: Option<String>,
    redis_breaker: Option<String>,
    /// How many nodes it knows, itself included.
    nodes: Option<i64>,
    changes_waiting: Option<i64>,
    uptime_seconds: Option<u64>,
    migrations_pending: Option<i64>,
    memory_hit_rate: Option<f64>,
    /// How many loads were sent to the store since the start.
    loads: Option<i64>,
    /// The latency of unary user and group calls, since the start; absent before the first call.
    p99_ms: Option<f64>,
    memory_entries: Option<i64>,
    calls_in_flight: Option<i64>,
    /// Equal on nodes with the same callers. Absent for a node without callers.
    callers_digest: Option<String>,
    /// The reason why nothing else is known.
    error: Option<String>,
}

fn row(target: &Target, facts: &Result<Facts>) -> StatusRow {
    let node = target.addr.clone();
    let facts = match facts {
        Ok(facts) => facts,
        Err(why) => {
            return StatusRow {
                node,
                state: "unreachable".to_owned(),
                error: Some(why.to_string()),
                ..StatusRow::default()
            };
        }
    };
    let row = StatusRow { node, state: facts.state().to_owned(), ..StatusRow::default() };
    let Some(answer) = &facts.node else { return row };
    let shares = !answer.redis.is_empty();
    StatusRow {
        version: Some(answer.version.clone()),
        store: Some(answer.store_backend.clone()),
        store_answers: Some(answer.store_answers),
        epoch: Some(answer.epoch),
        applied: Some(answer.applied),
        trusted: Some(answer.trusted),
        entries_behind: shares.then_some(answer.entries_behind),
        since_proof_seconds: facts.since_proof().map(|since| since.as_secs_f64()),
        redis_hit_rate: facts.redis_hit_rate(),
        redis: shares.then(|| answer.redis.clone()),
        redis_breaker: shares.then(|| answer.redis_breaker.clone()),
        nodes: shares.then_some(answer.nodes),
        changes_waiting: shares.then_some(answer.changes_waiting),
        uptime_seconds: facts.uptime().map(|uptime| uptime.as_secs()),
        migrations_pending: Some(answer.migrations_pending).filter(|_| answer.store_answers),
        memory_hit_rate: facts.hit_rate(),
        loads: Some(facts.sum(|one| one.loads)),
        p99_ms: facts.p99().map(|p99| p99.as_secs_f64() * 1_000.0),
        memory_entries: Some(facts.sum(|one| one.entries)),
        calls_in_flight: Some(answer.calls_in_flight),
        callers_digest: Some(answer.callers_digest.clone()).filter(|digest| !digest.is_empty()),
        ..row
    }
}

impl Report for Status {
    const COLUMNS: &'static [&'static str] = &[
        "node", "state", "version", "store", "answers", "epoch", "lag", "redis", "nodes", "waiting",
        "uptime", "pending", "mem%", "red%", "loads", "p99", "entries", "calls", "callers", "error",
    ];

    /// The remaining columns are readable at 120 columns. Errors follow the table.
    fn left_out(&self) -> Vec<&'static str> {
        let mut left_out = vec!["store", "nodes", "entries", "calls", "error"];
        if self.0.iter().all(|row| row.store_answers != Some(false)) {
            left_out.push("answers");
        }
        if self.0.iter().all(|row| row.migrations_pending.is_none_or(|pending| pending == 0)) {
            left_out.push("pending");
        }
        let mut callers = self.0.iter().filter(|row| row.error.is_none()).map(|row| &row.callers_digest);
        let first = callers.next();
        if callers.all(|digest| Some(digest) == first) {
            left_out.push("callers");
        }
        left_out
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.0.iter().map(cells).collect()
    }
}

fn cells(row: &StatusRow) -> Vec<String> {
    fn text<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(String::new, ToString::to_string)
    }
    let share = |share: Option<f64>| text(share.map(|share| shown::percent(Some(share))).as_ref());
    vec![
        row.node.strip_prefix("http://").unwrap_or(&row.node).to_owned(),
        row.state.clone(),
        text(row.version.as_ref()),
        text(row.store.as_ref()),
        row.store_answers.map(yes).unwrap_or_default(),
        text(row.epoch.as_ref()),
        text(row.entries_behind.map(shown::count).as_ref()),
        text(row.redis.as_ref()),
        text(row.nodes.as_ref()),
        text(row.changes_waiting.map(shown::count).as_ref()),
        text(row.uptime_seconds.map(shown::long).as_ref()),
        text(row.migrations_pending.as_ref()),
        share(row.memory_hit_rate),
        share(row.redis_hit_rate),
        text(row.loads.map(shown::count).as_ref()),
        text(row.p99_ms.map(|ms| shown::time(Some(ms))).as_ref()),
        text(row.memory_entries.as_ref()),
        text(row.calls_in_flight.as_ref()),
        text(row.callers_digest.as_ref()),
        text(row.error.as_ref()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_a_busy_cluster_fits_120_columns() {
        let row = StatusRow {
            node: "http://10.10.10.10:7600".to_owned(),
            state: "store_away".to_owned(),
            version: Some("0.10.0".to_owned()),
            epoch: Some(12_345),
            entries_behind: Some(12_345),
            redis: Some("follows".to_owned()),
            changes_waiting: Some(12_345),
            uptime_seconds: Some(86_400 * 365),
            memory_hit_rate: Some(0.9987),
            redis_hit_rate: Some(0.8),
            loads: Some(1_234_567),
            p99_ms: Some(12.3),
            calls_in_flight: Some(4_096),
            error: Some("a long story".repeat(20)),
            ..StatusRow::default()
        };
        let table = super::super::output::rendered(&Status(vec![row]), OutputForm::Table).unwrap();
        let width = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(width <= 120, "{width} columns:\n{table}");
    }

    #[test]
    fn table_shows_absent_store_and_migrations() {
        let well =
            StatusRow { store_answers: Some(true), migrations_pending: Some(0), ..StatusRow::default() };
        let not =
            StatusRow { store_answers: Some(false), migrations_pending: Some(1), ..StatusRow::default() };
        let [well, not] = [well, not].map(|row| Status(vec![row]).left_out());
        assert!(["answers", "pending"].iter().all(|name| well.contains(name) && !not.contains(name)));
    }

    #[test]
    fn table_shows_callers_where_nodes_differ() {
        let row = |digest: Option<&str>| StatusRow {
            callers_digest: digest.map(str::to_owned),
            ..StatusRow::default()
        };
        let away = StatusRow { error: Some("away".to_owned()), ..StatusRow::default() };
        let shows = |rows: Vec<StatusRow>| !Status(rows).left_out().contains(&"callers");
        assert!(shows(vec![row(Some("a")), row(Some("b"))]) && shows(vec![row(Some("a")), row(None)]));
        assert!(!shows(vec![row(Some("a")), row(Some("a")), away]) && !shows(vec![row(None)]));
    }
}
