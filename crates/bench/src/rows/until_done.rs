//! Repeats calls that have to be done for a row: a busy machine may answer late, and the time of a repeated
//! call counts.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

const DONE_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Calls until it is done: a node has its bounds, and a busy machine may take long.
pub(super) async fn until_done<T>(call: impl AsyncFn() -> Result<T, Status>) -> Result<T> {
    repeat(DONE_WITHIN, PAUSE, |status: &Status| may_pass(status.code()), call).await.map_err(Into::into)
}

/// Calls until it succeeds. Returns the last error if it does not within this time.
pub(super) async fn retry<T>(
    within: Duration,
    pause: Duration,
    call: impl AsyncFn() -> Result<T>,
) -> Result<T> {
    repeat(within, pause, |_| true, call).await
}

async fn repeat<T, E>(
    within: Duration,
    pause: Duration,
    may_pass: impl Fn(&E) -> bool,
    call: impl AsyncFn() -> Result<T, E>,
) -> Result<T, E> {
    let until = Instant::now() + within;
    loop {
        match call().await {
            Err(error) if may_pass(&error) && Instant::now() < until => sleep(pause).await,
            done => return done,
        }
    }
}

/// Whether a later call may be done.
pub(super) const fn may_pass(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded)
}
