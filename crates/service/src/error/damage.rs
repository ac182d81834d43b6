//! Stored data that could not be read. Counted for the whole process, and logged at most once a second: one
//! damaged page can be in every call's way.

use std::{
    fmt::Display,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::metric::STORE_DAMAGED;

/// Shortest time between two log lines.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

static COUNT: AtomicU64 = AtomicU64::new(0);
static LOGGED: Mutex<Option<Instant>> = Mutex::new(None);

/// How often reads and writes in this process met stored data that cannot be read.
#[must_use]
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Counts and logs that a stored `kind` (user, group) cannot be read. `source` contains no stored value.
pub(super) fn note(kind: &str, source: &(impl Display + ?Sized)) {
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    metrics::counter!(STORE_DAMAGED.name).increment(1);
    let now = Instant::now();
    let mut logged = LOGGED.lock();
    if logged.is_none_or(|last| now.duration_since(last) >= LOGGED_EVERY) {
        *logged = Some(now);
        tracing::error!(kind, %source, count, "stored data cannot be read: it is damaged");
    }
}
