//! The process that started this one.

use std::{os::unix::process::parent_id, time::Duration};

use tokio::time::sleep;

/// How often the parent is checked. The system has a signal for it, but only for the thread that started us,
/// only on Linux, and only through unsafe code; a check costs a microsecond.
const PERIOD: Duration = Duration::from_millis(100);

/// The process that started this one.
#[derive(Clone, Copy, Debug)]
pub struct ParentProcess(u32);

impl ParentProcess {
    /// The present parent. Must be called early: after its end, another process takes its place.
    pub fn now() -> Self {
        Self(parent_id())
    }

    /// Returns soon after it has ended.
    pub async fn ended(self) {
        while parent_id() == self.0 {
            sleep(PERIOD).await;
        }
    }
}
