//! `kith forward retry`: asks the forwarder to send parked records again.

use anyhow::{Context as _, Result, bail};
use kith_forward::RetryRequest;
use serde::Serialize;

use super::state_options::StateOptions;
use crate::{Common, OK, output::Report};

/// The options for `kith forward retry`.
#[derive(Debug, clap::Args)]
pub(crate) struct RetryOptions {
    #[command(flatten)]
    state: StateOptions,
    /// All parked records
    #[arg(long, conflicts_with = "records")]
    all: bool,
    /// Parked records, as kith forward status names them: user/7
    #[arg(value_name = "RECORD", required_unless_present = "all")]
    records: Vec<String>,
}

/// How many parked records will be sent again.
#[derive(Serialize)]
struct AskedRetry {
    records: usize,
}

impl Report for AskedRetry {
    const COLUMNS: &'static [&'static str] = &["records"];
}

/// Asks for a retry. Fails if a record is not parked, or the state cannot be used.
pub(super) fn run(common: &Common, options: &RetryOptions) -> Result<u8> {
    let file = options.state.file()?;
    let saved = file.read()?.with_context(|| format!("there is no state in {}", file.file().display()))?;
    let request = if options.all {
        RetryRequest::All
    } else {
        let is_parked = |name: &&String| saved.parked.iter().any(|parked| parked.change.record == **name);
        if let Some(unknown) = options.records.iter().find(|name| !is_parked(name)) {
            bail!("{unknown} is not parked; kith forward status names what is");
        }
        RetryRequest::Records(options.records.clone())
    };
    let count = if options.all { saved.parked.len() } else { options.records.len() };
    file.ask_retry(&request)?;
    common.output.print(&AskedRetry { records: count })?;
    Ok(OK)
}
