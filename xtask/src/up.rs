//! The servers of the tests, for a person.

use std::sync::mpsc;

use anyhow::{Result, bail};

use crate::{
    process::outlive_ctrl_c,
    servers::{Cassandra, Mongodb, Redis, folder_for_tests, redis_program},
    tools,
};

/// Starts the servers, prints how tests find them, and stops them at ctrl-c.
pub(crate) fn run() -> Result<()> {
    let (stop, stopped) = mpsc::channel();
    outlive_ctrl_c(move || {
        // The receiver is gone after the first signal.
        stop.send(()).ok();
    })?;
    let folder = folder_for_tests();
    let cassandra = Cassandra::start_aside(&folder);
    let (mongodb, redis) = (Mongodb::start(&folder)?, Redis::start()?);
    println!("export KITH_TEST_REDIS='{}'", redis.uri);
    println!("export KITH_TEST_REDIS_SERVER='{}'", redis_program()?.display());
    println!("export KITH_TEST_MONGODB='{}'", mongodb.uri);
    println!("export KITH_TEST_PROMTOOL='{}'", tools::promtool()?.display());
    let Ok(cassandra) = cassandra.join() else { bail!("Cassandra was not started") };
    let cassandra = cassandra?;
    println!("export KITH_TEST_CQL='{}'", cassandra.uri);
    eprintln!("ctrl-c stops them");
    stopped.recv()?;
    Ok(())
}
