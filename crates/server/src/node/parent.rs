//! The process that started this one.

use std::{os::unix::process::parent_id, time::Duration};

use tokio::time::sleep;

/// How often it is looked for. The system has a signal for it, but only for the thread that started us, only
/// on Linux, and only through code that is not checked; a look costs a microsecond.
const PERIOD: Duration = Duration::from_millis(100);

/// The process that started this one.
#[derive(Clone, Copy, Debug)]
pub struct Parent(u32);

impl Parent {
    /// Who it is now. Ask early: when it has ended, another process takes its place.
    pub fn now() -> Self {
        Self(parent_id())
    }

    /// Returns soon after it has ended, however it did.
    pub async fn ended(self) {
        while parent_id() == self.0 {
            sleep(PERIOD).await;
        }
    }
}
