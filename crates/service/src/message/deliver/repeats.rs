//! Repeats fan-outs that failed.

use tokio::time::timeout;

use super::{Delivery, WAITED};
use crate::write::tasks::Tasks;

/// Repeats the fan-outs of a node that failed, until they succeed. Stops when it is dropped.
#[derive(Debug)]
pub struct Repeats {
    delivery: Delivery,
    tasks: Tasks,
}

impl Repeats {
    /// Creates it without starting it.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        Self { delivery, tasks: Tasks::default() }
    }

    /// Starts it, once.
    pub fn start(&self) {
        let delivery = self.delivery.clone();
        self.tasks.spawn_first(async move {
            loop {
                delivery.0.pending.wait().await;
                delivery.repeat_all().await;
            }
        });
    }

    /// Stops it, after one more attempt.
    pub async fn stop(&self) {
        self.tasks.end().await;
        drop(timeout(WAITED, self.delivery.repeat_all()).await);
    }
}
