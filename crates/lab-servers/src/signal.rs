//! Signals for processes.

use std::process::Command;

use anyhow::{Result, ensure};

/// Sends a process the signal with this name, without `SIG`.
///
/// # Errors
/// When it does not take the signal.
pub fn signal(process: u32, name: &str) -> Result<()> {
    let mut kill = Command::new("sh");
    let status = kill.args(["-c", "kill -\"$0\" \"$1\"", name, &process.to_string()]).status()?;
    ensure!(status.success(), "process {process} does not take signal {name}");
    Ok(())
}
