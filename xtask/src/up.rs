//! Runs the tests' servers for a person.

use std::sync::mpsc;

use anyhow::Result;

use crate::{
    process::outlive_ctrl_c,
    servers::{Servers, folder_for_tests, redis_program},
    tools,
};

/// Starts the servers, prints how tests find them, and stops them at ctrl-c.
pub(crate) fn run() -> Result<()> {
    let (stop, stopped) = mpsc::channel();
    outlive_ctrl_c(move || {
        // The receiver is gone after the first signal.
        stop.send(()).ok();
    })?;
    let servers = Servers::start(&folder_for_tests(), || Ok(()))?;
    for (name, address) in servers.addresses() {
        println!("export {name}='{address}'");
    }
    println!("export KITH_TEST_REDIS_SERVER='{}'", redis_program()?.display());
    println!("export KITH_TEST_PROMTOOL='{}'", tools::promtool()?.display());
    eprintln!("ctrl-c stops them");
    stopped.recv()?;
    Ok(())
}
