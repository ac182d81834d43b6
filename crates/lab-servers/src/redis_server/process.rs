use std::{env, ffi::OsString, path::Path, process::Command};

use anyhow::{Context as _, Result};

use crate::child::ChildProcess;

/// Names the program.
const PROGRAM: &str = "KITH_TEST_REDIS_SERVER";
/// The file name for its log, in its folder.
pub(super) const LOG: &str = "redis.log";

/// Starts a server on this port, without persistence unless the options enable it.
pub(super) fn start(port: u16, folder: &Path, options: &[String]) -> Result<ChildProcess> {
    let program = env::var_os(PROGRAM).filter(|program| !program.is_empty());
    let program = program.unwrap_or_else(|| OsString::from("redis-server"));
    let port = port.to_string();
    let mut command = Command::new(&program);
    command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command
        .args(["--enable-debug-command", "yes", "--enable-protected-configs", "yes", "--dir"])
        .arg(folder)
        .args(options);
    ChildProcess::start("redis-server", command, folder.join(LOG))
        .with_context(|| format!("{PROGRAM} names another one than {}", program.to_string_lossy()))
}
