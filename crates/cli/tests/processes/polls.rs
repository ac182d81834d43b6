//! Polls a condition within a bound.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// Waits until `is` returns true.
pub(crate) async fn until(limit: Duration, mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < limit, "not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Like `until`, but without a runtime. `why`: the meaning of the failure.
#[allow(dead_code, reason = "short tests alone use it")]
pub(crate) fn block_until<W: Display>(limit: Duration, mut is: impl FnMut() -> bool, why: impl Fn() -> W) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {}", why());
        std::thread::sleep(Duration::from_millis(10));
    }
}
