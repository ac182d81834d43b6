//! `kith status`: a row for each node.

use anyhow::Result;
use futures::future::join_all;
use serde::Serialize;

use super::{
    Common, FAILED, OK,
    client::{Target, Targets},
    facts::{Facts, percent},
    output::Report,
};

/// Which nodes to ask.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 every node serves, 1 one does not or is away, 2 the only node that was asked is away."
)]
pub(super) struct Arguments {
    #[command(flatten)]
    targets: Targets,
}

/// Asks the nodes, all at one time.
///
/// # Errors
/// When there is one node to ask and it does not answer.
pub(super) async fn run(common: &Common, arguments: &Arguments) -> Result<u8> {
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
    Ok(if status.0.iter().all(|row| row.state == "serving") { OK } else { FAILED })
}

#[derive(Serialize)]
#[serde(transparent)]
struct Status(Vec<Row>);

/// What is not known is absent.
#[derive(Default, Serialize)]
struct Row {
    node: String,
    state: String,
    version: Option<String>,
    store: Option<String>,
    store_answers: Option<bool>,
    epoch: Option<i64>,
    /// The last change of others and of its own that it has applied.
    applied: Option<i64>,
    trusted: Option<bool>,
    /// Absent for a node that shares nothing with others; so are the next three.
    redis: Option<String>,
    redis_breaker: Option<String>,
    /// Nodes that it knows, itself included.
    nodes: Option<i64>,
    changes_waiting: Option<i64>,
    uptime_seconds: Option<u64>,
    migrations_pending: Option<i64>,
    memory_hit_rate: Option<f64>,
    memory_entries: Option<i64>,
    calls_in_flight: Option<i64>,
    /// Why nothing else is known.
    error: Option<String>,
}

fn row(target: &Target, facts: &Result<Facts>) -> Row {
    let node = target.addr.clone();
    let facts = match facts {
        Ok(facts) => facts,
        Err(why) => {
            return Row { node, state: "away".to_owned(), error: Some(why.to_string()), ..Row::default() };
        }
    };
    let row = Row { node, state: facts.state().to_owned(), ..Row::default() };
    let Some(said) = &facts.node else { return row };
    let shares = !said.redis.is_empty();
    Row {
        version: Some(said.version.clone()),
        store: Some(said.store_backend.clone()),
        store_answers: Some(said.store_answers),
        epoch: Some(said.epoch),
        applied: Some(said.applied),
        trusted: Some(said.trusted),
        redis: shares.then(|| said.redis.clone()),
        redis_breaker: shares.then(|| said.redis_breaker.clone()),
        nodes: shares.then_some(said.nodes),
        changes_waiting: shares.then_some(said.changes_waiting),
        uptime_seconds: facts.uptime().map(|uptime| uptime.as_secs()),
        migrations_pending: Some(said.migrations_pending).filter(|_| said.store_answers),
        memory_hit_rate: facts.hit_rate(),
        memory_entries: Some(facts.entries()),
        calls_in_flight: Some(said.calls_in_flight),
        ..row
    }
}

impl Report for Status {
    fn header(&self) -> Vec<&'static str> {
        vec![
            "node", "state", "version", "store", "answers", "epoch", "redis", "nodes", "waiting", "uptime",
            "pending", "hits", "entries", "calls", "error",
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.0.iter().map(cells).collect()
    }
}

fn cells(row: &Row) -> Vec<String> {
    fn text<T: ToString>(value: Option<&T>) -> String {
        value.map_or_else(String::new, ToString::to_string)
    }
    let uptime = row.uptime_seconds.map(std::time::Duration::from_secs);
    vec![
        row.node.clone(),
        row.state.clone(),
        text(row.version.as_ref()),
        text(row.store.as_ref()),
        row.store_answers.map_or("", |answers| if answers { "yes" } else { "no" }).to_owned(),
        text(row.epoch.as_ref()),
        text(row.redis.as_ref()),
        text(row.nodes.as_ref()),
        text(row.changes_waiting.as_ref()),
        text(uptime.map(|uptime| humantime::format_duration(uptime).to_string().replace(' ', "")).as_ref()),
        text(row.migrations_pending.as_ref()),
        text(row.memory_hit_rate.map(percent).as_ref()),
        text(row.memory_entries.as_ref()),
        text(row.calls_in_flight.as_ref()),
        text(row.error.as_ref()),
    ]
}
