//! Delivers one change: reads its record, posts it, tries again, parks it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    Answer, Change, ChangeRecord, ChangeSource, Outcome, Parked, Progress, Receiver, Settings, SourceError,
    StopReason, backoff, event, ledger::Ledger,
};

/// How a delivery ended.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The change is delivered, or its record is parked.
    Finished,
    /// The forwarder was stopped before.
    Left,
    /// The forwarder has to stop.
    Stop(StopReason),
}

/// The state that all deliveries share.
pub(crate) struct Courier {
    pub(crate) source: Arc<dyn ChangeSource>,
    pub(crate) receiver: Receiver,
    pub(crate) settings: Settings,
    pub(crate) progress: Arc<Progress>,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) permits: Semaphore,
    /// The timestamp of the last event, in microseconds since 1970.
    pub(crate) last_event: AtomicU64,
    /// Ends deliveries between two requests.
    pub(crate) stop: CancellationToken,
    pub(crate) report: Box<dyn Fn(&str) + Send + Sync>,
}

impl Courier {
    /// Delivers a change, or parks its record.
    pub(crate) async fn deliver(&self, change: &Change) -> Delivery {
        for failed in 1.. {
            let (outcome, reason) = match self.attempt(change).await {
                Ok(tried) => tried,
                Err(ended) => return ended,
            };
            match outcome {
                Outcome::Delivered => return self.delivered(change),
                Outcome::Gone => return Delivery::Stop(StopReason::Gone),
                Outcome::Refused(status) => return self.park(change, reason, Some(status)),
                Outcome::Again(_) if failed >= self.settings.tries => return self.park(change, reason, None),
                Outcome::Again(asked) => {
                    if !self.pause(backoff::wait(&self.settings, failed, asked)).await {
                        return Delivery::Left;
                    }
                    self.progress.retried.fetch_add(1, Relaxed);
                }
            }
        }
        Delivery::Left
    }

    /// Waits, and returns whether the forwarder goes on.
    pub(crate) async fn pause(&self, wait: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = sleep(wait) => true,
        }
    }

    /// Posts the record as it is now. Also returns the reason for which it would be parked.
    async fn attempt(&self, change: &Change) -> Result<(Outcome, String), Delivery> {
        let permit = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(Delivery::Left),
            permit = self.permits.acquire() => permit.map_err(|_| Delivery::Left)?,
        };
        let timestamp = self.timestamp();
        let record = match self.record(change).await? {
            Ok(record) => record,
            Err(reason) => return Ok((Outcome::Again(None), reason)),
        };
        let body = event::of_change(change, &record, &timestamp);
        let answer = self.receiver.post(&change.position, body, self.settings.request).await;
        drop(permit);
        Ok((answer.outcome(), answer.to_string()))
    }

    /// Reads a record; while the source is away, waits for it. The inner error is of this record alone.
    async fn record(&self, change: &Change) -> Result<Result<ChangeRecord, String>, Delivery> {
        for failed in 1.. {
            match self.source.record(change).await {
                Ok(record) => return Ok(Ok(record)),
                Err(SourceError::Failed(reason)) => return Ok(Err(reason)),
                Err(SourceError::Refused(reason)) => return Err(Delivery::Stop(StopReason::Source(reason))),
                Err(SourceError::Away(_)) => {
                    if !self.pause(backoff::wait_for_source(&self.settings, failed)).await {
                        return Err(Delivery::Left);
                    }
                }
            }
        }
        Err(Delivery::Left)
    }

    fn delivered(&self, change: &Change) -> Delivery {
        self.ledger.lock().delivered(&change.record);
        self.progress.delivered.fetch_add(1, Relaxed);
        Delivery::Finished
    }

    fn park(&self, change: &Change, reason: String, refused: Option<u16>) -> Delivery {
        (self.report)(&format!(
            "a record is parked ({}): {reason}; kith forward status names it",
            change.kind
        ));
        let parked = Parked { change: change.clone(), reason };
        match self.ledger.lock().park(parked, refused, &self.settings) {
            Ok(()) => Delivery::Finished,
            Err(reason) => Delivery::Stop(reason),
        }
    }

    /// The time, later than that of each event before.
    fn timestamp(&self) -> String {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let next = |last: u64| Some(now.max(last.saturating_add(1)));
        let last = self.last_event.fetch_update(Relaxed, Relaxed, next).unwrap_or_else(|last| last);
        text_of(now.max(last.saturating_add(1)))
    }
}

impl Receiver {
    /// Posts an event that says nothing, of the type `forward.test`, and returns the answer.
    pub async fn post_test(&self, limit: Duration) -> Answer {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let timestamp = text_of(u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
        self.post("test", event::of_test(&timestamp), limit).await
    }
}

/// RFC 3339 with microseconds: of equal length, so that texts are in the order of times.
fn text_of(micros: u64) -> String {
    humantime::format_rfc3339_micros(SystemTime::UNIX_EPOCH + Duration::from_micros(micros)).to_string()
}
