//! Waits for the other tasks of a test.

/// Lets other tasks run until it holds; fails when it never does.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never came to hold");
}
