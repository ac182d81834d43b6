//! Waiting for something, with a bound.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::{Instant, sleep};

/// The pause between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until something is so, by looking every 20 ms. `what`: the error if it is not so in time, as in `a
/// node does not serve`.
///
/// # Errors
/// If the condition is not met in time, and the errors from a check.
pub async fn until(what: &str, within: Duration, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let give_up = Instant::now() + within;
    while !is_so().await? {
        ensure!(Instant::now() < give_up, "{what} within {within:?}");
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}
