//! Repeats fan-outs that failed.

use futures::FutureExt as _;
use tokio::time::timeout;

use super::{Delivery, WAITED};
use crate::write::tasks::BackgroundJob;

/// Repeats the fan-outs of a node that failed, until they succeed. Stops when it is dropped.
#[derive(Debug)]
pub struct Repeats {
    delivery: Delivery,
    job: BackgroundJob,
}

impl Repeats {
    /// Creates it without starting it.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        let repeated = delivery.clone();
        let work = async move {
            loop {
                repeated.0.pending.wait().await;
                repeated.repeat_all().await;
            }
        };
        Self { delivery, job: BackgroundJob::new([work.boxed()]) }
    }

    /// Starts it, once.
    pub fn start(&self) {
        self.job.start();
    }

    /// Stops it, after one more attempt.
    pub async fn stop(&self) {
        self.job.stop().await;
        drop(timeout(WAITED, self.delivery.repeat_all()).await);
    }
}
