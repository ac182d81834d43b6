//! Retries fan-outs that failed.

use futures::FutureExt as _;
use tokio::time::timeout;

use super::{Delivery, FAN_OUT_WAIT};
use crate::write::tasks::BackgroundJob;

/// Retries the failed fan-outs of a node, until they succeed. Stops when it is dropped.
#[derive(Debug)]
pub struct FanOutRetries {
    delivery: Delivery,
    job: BackgroundJob,
}

impl FanOutRetries {
    /// Creates it without starting it.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        let retried = delivery.clone();
        let work = async move {
            loop {
                retried.0.pending.wait().await;
                retried.retry_all().await;
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
        drop(timeout(FAN_OUT_WAIT, self.delivery.retry_all()).await);
    }
}
