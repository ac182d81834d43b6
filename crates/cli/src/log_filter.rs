//! `kith log-filter`: changes which log lines a node writes, for a while.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kith_proto::admin::v1::{SetLogFilterRequest, admin_service_client::AdminServiceClient};
use serde::Serialize;

use super::{Common, OK, client::Target, output::Report};

/// Which filter, and on which node.
#[derive(Debug, clap::Args)]
#[command(after_help = "Without a filter the configured one applies again at once.\n\
                        Exit codes: 0 it applies, 2 it was refused, or the node does not answer.")]
pub(super) struct LogFilterOptions {
    /// As telemetry.log_filter: debug, or info,kith_cache=trace
    #[arg(default_value = "", hide_default_value = true)]
    filter: String,
    /// For how long: 30s, 10m, 24h at most; then the configured filter applies again
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    lasts: Duration,
    #[command(flatten)]
    target: Target,
}

/// Sets the filter. Fails when the node does not answer, or refuses it.
pub(super) async fn run(common: &Common, arguments: &LogFilterOptions) -> Result<u8> {
    let LogFilterOptions { filter, lasts, target } = arguments;
    let mut client = AdminServiceClient::new(target.connect().await?);
    let lasts = (*lasts).try_into().context("--for is too long")?;
    let asked = SetLogFilterRequest { filter: filter.clone(), lasts: Some(lasts) };
    let now = target.response(client.set_log_filter(target.request(asked))).await?;
    let seconds = now
        .lasts
        .and_then(|lasts| Duration::try_from(lasts).ok())
        .map(|lasts| lasts.as_millis().div_ceil(1_000));
    common.output.print(&LogFilterResult { filter: now.filter, configured: now.configured, seconds })?;
    Ok(OK)
}

#[derive(Serialize)]
struct LogFilterResult {
    filter: String,
    configured: String,
    /// The time until the configured filter is back; absent if it holds now.
    seconds: Option<u128>,
}

impl Report for LogFilterResult {
    const COLUMNS: &'static [&'static str] = &["filter", "configured", "for"];

    fn row(&self) -> Vec<String> {
        let lasts = self.seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let lasts =
            lasts.map_or_else(|| "good".to_owned(), |lasts| humantime::format_duration(lasts).to_string());
        vec![self.filter.clone(), self.configured.clone(), lasts]
    }
}
