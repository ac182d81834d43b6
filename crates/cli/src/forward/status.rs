//! `kith forward status`: shows how far a forwarder is, and what is parked.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use kith_forward::{SavedState, StateError, StateFile};
use serde::Serialize;

use super::state_options::StateOptions;
use crate::{
    Common, OK,
    output::{FIELD_AND_VALUE, Report, field_rows},
};

/// The options for `kith forward status`.
#[derive(Debug, clap::Args)]
pub(crate) struct ForwarderOptions {
    #[command(flatten)]
    state: StateOptions,
}

/// A forwarder, as its state says.
#[derive(Serialize)]
struct ForwarderStatus {
    name: String,
    running: bool,
    /// When everything was delivered or parked, as far as it is saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    caught_up: Option<String>,
    /// Why it has stopped by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    cursor: String,
    parked: Vec<ParkedRow>,
}

#[derive(Serialize)]
struct ParkedRow {
    record: String,
    position: String,
    reason: String,
}

/// Prints the status. Fails if there is no state, or it cannot be read.
pub(super) fn run(common: &Common, options: &ForwarderOptions) -> Result<u8> {
    let file = options.state.file()?;
    let saved = file.read()?.with_context(|| format!("there is no state in {}", file.file().display()))?;
    common.output.print(&status(options.state.name(), is_running(file)?, saved))?;
    Ok(OK)
}

/// Returns whether a process has the state.
fn is_running(file: StateFile) -> Result<bool> {
    match file.lock() {
        Ok(_free) => Ok(false),
        Err(StateError::Held(_)) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn status(name: &str, running: bool, saved: SavedState) -> ForwarderStatus {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(saved.caught_up);
    let parked = saved.parked.into_iter().map(|parked| ParkedRow {
        record: parked.change.record,
        position: parked.change.position,
        reason: parked.reason,
    });
    ForwarderStatus {
        name: name.to_owned(),
        running,
        caught_up: (saved.caught_up != 0).then(|| humantime::format_rfc3339_millis(time).to_string()),
        stopped: saved.stopped.filter(|_| !running),
        cursor: saved.cursor,
        parked: parked.collect(),
    }
}

impl Report for ForwarderStatus {
    const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = field_rows(self, &["name", "running", "caught_up", "stopped", "cursor"]);
        rows.push(vec!["parked".to_owned(), self.parked.len().to_string()]);
        rows.extend(self.parked.iter().map(|ParkedRow { record, position, reason }| {
            vec![record.clone(), format!("{reason} ({position})")]
        }));
        rows
    }
}
