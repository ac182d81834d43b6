//! Checks the node on this machine.

use std::time::Duration;

use kith_server::{build_info, config::Config, transport::callable};

use super::Finding;
use crate::{client::Target, facts::Facts};

/// The largest acceptable clock difference, so that times in records and logs can be compared.
const CLOCK_SECONDS: f64 = 1.0;

/// Asks the node at the configured address.
pub(super) async fn findings(config: &Config, limit: Duration) -> Vec<Finding> {
    let addr = format!("http://{}", callable(config.listen));
    // The node's own key file names a valid caller.
    let target = Target::at(addr.clone(), limit).with_key_file(config.api_key_file.clone());
    match Facts::of(&target).await {
        Ok(facts) => check_facts(&facts, &addr),
        Err(why) => vec![Finding::new(format!("{why:#}"), format!("kith ping --addr {addr}"))],
    }
}

fn check_facts(facts: &Facts, addr: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut find = |finding: String, run: String| found.push(Finding::new(finding, run));
    if !facts.serving {
        let run = format!("kith status --addr {addr}");
        find(format!("the node at {addr} answers but does not serve ({})", facts.state()), run);
    }
    if let Some(ahead) = facts.clock_ahead_seconds.filter(|ahead| ahead.abs() > CLOCK_SECONDS) {
        let way = if ahead > 0.0 { "ahead of" } else { "behind" };
        let finding = format!("the clock of the node is {:.1} s {way} ours", ahead.abs());
        find(finding, "timedatectl set-ntp true".to_owned());
    }
    let Some(node) = &facts.node else { return found };
    if node.version != build_info::FULL {
        let finding = format!("the node is kith {}, this is {}", node.version, build_info::FULL);
        find(finding, "kith --version; command -v kith".to_owned());
    }
    if node.store_answers && node.migrations_pending > 0 {
        find(format!("{} migrations are pending", node.migrations_pending), "kith migrate".to_owned());
    }
    if node.redis == "away" {
        let finding =
            "the node does not hear of the others through Redis; it serves from the store".to_owned();
        find(finding, format!("kith nodes --addr {addr}"));
    }
    if node.log_lines_dropped > 0 {
        let finding =
            format!("{} log lines were dropped: they were not read in time", node.log_lines_dropped);
        find(finding, "kith serve --log warn  # fewer of them".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use kith_proto::admin::v1::GetNodeResponse;

    use super::*;

    fn found(change: impl FnOnce(&mut Facts)) -> Vec<String> {
        let node = GetNodeResponse {
            version: build_info::FULL.to_owned(),
            state: "serving".to_owned(),
            store_answers: true,
            ..GetNodeResponse::default()
        };
        let mut facts =
            Facts { serving: true, node: Some(node), memory: Vec::new(), clock_ahead_seconds: Some(0.01) };
        change(&mut facts);
        check_facts(&facts, "http://n")
            .into_iter()
            .map(|one| format!("{}: {}", one.finding, one.run))
            .collect()
    }

    #[test]
    fn a_node_that_is_well_is_not_spoken_of() {
        assert_eq!(found(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_fault_of_a_node_has_a_line_to_run() {
        let words = |found: Vec<String>, words: &str| {
            assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:?}");
        };
        words(found(|facts| facts.clock_ahead_seconds = Some(-5.0)), "5.0 s behind ours: timedatectl");
        words(found(|facts| facts.serving = false), "does not serve");
        words(found(|facts| facts.node.as_mut().unwrap().migrations_pending = 2), "pending: kith migrate");
        words(found(|facts| facts.node.as_mut().unwrap().version = "9.9.9".to_owned()), "kith --version");
        words(found(|facts| facts.node.as_mut().unwrap().redis = "away".to_owned()), "kith nodes --addr");
        words(found(|facts| facts.node.as_mut().unwrap().log_lines_dropped = 3), "3 log lines");
    }
}
