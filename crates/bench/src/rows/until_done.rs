//! Calls that have to be done for a row: a busy machine may answer late, and the time of a repeated call counts.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

const DONE_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Calls until it is done: a node has its bounds, and a busy machine may take long.
pub(super) async fn until_done<T>(call: impl AsyncFn() -> Result<T, Status>) -> Result<T> {
    let until = Instant::now() + DONE_WITHIN;
    loop {
        match call().await {
            Err(status) if may_pass(status.code()) && Instant::now() < until => sleep(PAUSE).await,
            done => return Ok(done?),
        }
    }
}

const fn may_pass(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded)
}
