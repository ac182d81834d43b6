//! `kith ping`: asks whether a node serves, for probes that run a program.

use anyhow::Result;
use serde::Serialize;

use super::{Common, FAILED, OK, client::KeylessTarget, facts, output::Report};

/// Which node to ask.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 it serves, 1 it answers but does not serve, 2 it does not answer.")]
pub(super) struct PingOptions {
    #[command(flatten)]
    target: KeylessTarget,
}

/// Asks for the node's overall health. No key is sent: health needs none, and probes run every few seconds.
/// Fails if the node does not answer.
pub(super) async fn run(common: &Common, arguments: &PingOptions) -> Result<u8> {
    let target = &arguments.target.target();
    let channel = target.connect_without_key().await?;
    let (serving, took) = facts::health(target, channel).await.map_err(|status| {
        anyhow::anyhow!("{} does not report its health: {}", target.addr, super::client::message_of(&status))
    })?;
    let state = if serving { "serving" } else { "not_serving" };
    let round_trip_ms = took.as_secs_f64() * 1000.0;
    common.output.print(&PingResult { node: target.addr.clone(), state, round_trip_ms })?;
    Ok(if serving { OK } else { FAILED })
}

#[derive(Serialize)]
struct PingResult {
    node: String,
    state: &'static str,
    round_trip_ms: f64,
}

impl Report for PingResult {
    const COLUMNS: &'static [&'static str] = &["node", "state", "round_trip"];

    fn row(&self) -> Vec<String> {
        vec![self.node.clone(), self.state.to_owned(), format!("{:.1}ms", self.round_trip_ms)]
    }
}
