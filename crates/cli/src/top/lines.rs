//! Prints a row for each node every interval, for programs and for outputs that are no terminal.

use std::time::{Duration, SystemTime};

use anyhow::Result;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::{
    super::{
        FAILED, OK,
        output::{OutputForm, Report, print_next, yes},
    },
    feed::{Feed, NodeState, WatchedNode},
    sample::Sample,
    shown,
};

/// A node may take at least this much longer than an interval for its next message.
const SLACK: Duration = Duration::from_secs(1);

/// Prints `count` samples, one every interval, or until the output is closed. The code says whether a node
/// was away in the last sample. Fails if standard output cannot be written.
pub(super) async fn run(mut feed: Feed, form: OutputForm, count: Option<u64>) -> Result<u8> {
    let mut printed = 0;
    loop {
        gather(&mut feed).await;
        let sample = PrintedSamples::of(&feed.nodes);
        let read = print_next(form, &sample, printed == 0)?;
        let away = sample.nodes.iter().any(|row| row.error.is_some());
        printed += 1;
        if !read || count.is_some_and(|count| printed >= count) {
            return Ok(if away { FAILED } else { OK });
        }
        feed.mark_read();
    }
}

/// Waits for an interval, and somewhat longer for nodes without a message since.
async fn gather(feed: &mut Feed) {
    let earliest = Instant::now() + feed.interval();
    let latest = earliest + feed.interval().max(SLACK);
    loop {
        let until = if feed.complete() { earliest } else { latest };
        if timeout_at(until, feed.changed()).await.is_err() || Instant::now() >= latest {
            return;
        }
    }
}

#[derive(Serialize)]
struct PrintedSamples<'a> {
    /// The time in UTC.
    time: String,
    nodes: Vec<SampleRow<'a>>,
}

#[derive(Serialize)]
struct SampleRow<'a> {
    node: &'a str,
    /// The state, if the node sends nothing.
    #[serde(rename = "state", skip_serializing_if = "Option::is_none")]
    silent: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(flatten)]
    sample: Option<&'a Sample>,
}

impl<'a> PrintedSamples<'a> {
    fn of(nodes: &'a [WatchedNode]) -> Self {
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        Self { time, nodes: nodes.iter().map(SampleRow::of).collect() }
    }
}

impl<'a> SampleRow<'a> {
    fn of(node: &'a WatchedNode) -> Self {
        let row = Self { node: &node.addr, silent: None, error: None, sample: None };
        match &node.now {
            NodeState::Reporting(sample) => Self { sample: Some(sample), ..row },
            NodeState::Connecting => Self { silent: Some("connecting"), ..row },
            NodeState::Unreachable(why) => Self { silent: Some("unreachable"), error: Some(why), ..row },
        }
    }
}

impl Report for PrintedSamples<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "time", "node", "state", "trusted", "epoch", "behind", "calls/s", "errors/s", "p99", "memory",
        "redis", "loads/s", "heard/s", "waiting", "breaker", "calls", "error",
    ];

    fn rows(&self) -> Vec<Vec<String>> {
        self.nodes.iter().map(|row| cells(&self.time, row)).collect()
    }

    /// The reason why a node is away is long, and the table is read as it comes.
    fn left_out(&self) -> Vec<&'static str> {
        vec!["time", "error"]
    }
}

fn cells(time: &str, row: &SampleRow<'_>) -> Vec<String> {
    let figures = match row.sample {
        Some(sample) => figures(sample),
        None => {
            let mut cells = vec![String::new(); 14];
            row.silent.unwrap_or_default().clone_into(&mut cells[0]);
            cells
        }
    };
    let mut cells = vec![time.to_owned(), row.node.to_owned()];
    cells.extend(figures);
    cells.push(row.error.unwrap_or_default().to_owned());
    cells
}

/// Returns the figures in header order, from the state on.
fn figures(sample: &Sample) -> Vec<String> {
    let empty = |text: String| if text == "-" { String::new() } else { text };
    vec![
        sample.state.clone(),
        yes(sample.trusted),
        sample.epoch.to_string(),
        empty(shown::some(sample.entries_behind)),
        shown::number(sample.calls.calls_per_second),
        shown::number(sample.calls.errors_per_second),
        empty(shown::time(sample.calls.p99_ms)),
        empty(shown::percent(sample.memory_hit_rate)),
        empty(shown::percent(sample.redis_hit_rate)),
        shown::number(sample.loads_per_second),
        shown::number(sample.invalidations_per_second),
        empty(shown::some(sample.changes_waiting)),
        sample.redis_breaker.clone().unwrap_or_default(),
        sample.calls_in_flight.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(now: NodeState) -> WatchedNode {
        WatchedNode { now, ..WatchedNode::new("127.0.0.1:7600".to_owned()) }
    }

    #[test]
    fn every_row_has_as_many_cells_as_the_header() {
        let sample = Sample { state: "serving".to_owned(), trusted: true, ..Sample::default() };
        let nodes = [
            NodeState::Connecting,
            NodeState::Unreachable("no node answers".to_owned()),
            NodeState::Reporting(Box::new(sample)),
        ]
        .map(node);
        let printed = PrintedSamples::of(&nodes);
        let rows = printed.rows();
        assert!(rows.iter().all(|row| row.len() == PrintedSamples::COLUMNS.len()), "{rows:?}");
        let states: Vec<_> = rows.iter().map(|row| (row[2].as_str(), row[16].as_str())).collect();
        assert_eq!(states, [("connecting", ""), ("unreachable", "no node answers"), ("serving", "")]);
        let json = serde_json::to_value(&printed).unwrap();
        let states: Vec<_> = (0..3).map(|at| json["nodes"][at]["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["connecting", "unreachable", "serving"]);
    }
}
