//! Retries fan-outs that failed, and removes notes for ended steps.

use futures::FutureExt as _;
use tokio::time::timeout;

use super::{Delivery, FAN_OUT_WAIT};
use crate::write::tasks::BackgroundJob;

/// Retries a node's failed fan-outs, until they succeed, and removes notes for ended steps. Stops when it is
/// dropped.
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
        let notes = delivery.0.notes.clone();
        let ends = notes.map(|notes| async move { notes.remove_as_they_end().await }.boxed());
        Self { delivery, job: BackgroundJob::new([work.boxed()].into_iter().chain(ends)) }
    }

    /// Starts it, once.
    pub fn start(&self) {
        self.job.start();
    }

    /// Stops it, after one more attempt. Then no note for an ended step is left.
    pub async fn stop(&self) {
        self.job.stop().await;
        drop(timeout(FAN_OUT_WAIT, self.delivery.retry_all()).await);
        if let Some(notes) = &self.delivery.0.notes {
            drop(timeout(FAN_OUT_WAIT, notes.remove_ended()).await);
        }
    }
}
