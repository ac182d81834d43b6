//! Reads pages, starts deliveries, and saves the place up to which everything is finished.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, OptionFuture},
    stream::FuturesUnordered,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    ChangeSource, ForwardState, Page, Progress, Receiver, RetryRequest, SavedState, Settings, SourceError,
    StopReason, backoff,
    courier::{Courier, Delivery},
    ledger::Ledger,
    state::now_millis,
    window::{Item, Window},
};

type Delivered = (Item, Delivery);
type Deliveries = FuturesUnordered<BoxFuture<'static, Delivered>>;
/// A page, and when it was asked for.
type ReadPage = (Page, u64);

/// Forwards changes from a source to a receiver.
pub struct Forwarder<S> {
    courier: Arc<Courier>,
    state: S,
    window: Window,
    /// The cursor to read from.
    read: String,
    /// When the source had nothing more, in milliseconds since 1970.
    at_end: Option<u64>,
    saved_cursor: String,
    reason: Option<StopReason>,
}

impl<S: ForwardState> Forwarder<S> {
    /// Makes a forwarder that continues from `saved`. `report` gets a line for what an operator should see.
    pub fn new(
        source: Arc<dyn ChangeSource>,
        receiver: Receiver,
        state: S,
        saved: SavedState,
        settings: Settings,
        report: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        let progress = Arc::new(Progress::default());
        progress.parked.store(saved.parked.len() as u64, Relaxed);
        progress.caught_up.store(if saved.caught_up == 0 { now_millis() } else { saved.caught_up }, Relaxed);
        let courier = Courier {
            source,
            receiver,
            settings,
            progress,
            ledger: Mutex::new(Ledger::new(saved.parked)),
            permits: Semaphore::new(settings.in_flight),
            last_event: saved.last_event.into(),
            stop: CancellationToken::new(),
            report,
        };
        Self {
            courier: Arc::new(courier),
            state,
            window: Window::new(saved.cursor.clone()),
            read: saved.cursor.clone(),
            at_end: None,
            saved_cursor: saved.cursor,
            reason: None,
        }
    }

    /// Its counts, which rise while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.courier.progress)
    }

    /// Stops the forwarder when it is cancelled.
    pub fn stop_token(&self) -> CancellationToken {
        self.courier.stop.clone()
    }

    /// Forwards until it is stopped, then waits for requests that are in flight, and saves its place.
    ///
    /// # Errors
    /// Why it stops by itself. The reason is saved, too.
    pub async fn run(mut self) -> Result<(), StopReason> {
        self.forward().await;
        if let Err(reason) = self.save(true).await {
            self.reason.get_or_insert(reason);
        }
        self.reason.map_or(Ok(()), Err)
    }

    async fn forward(&mut self) {
        let mut deliveries = Deliveries::new();
        let mut page: OptionFuture<BoxFuture<'static, Result<ReadPage, StopReason>>> = None.into();
        let (mut is_reading, mut wait) = (false, Duration::ZERO);
        let stop = self.courier.stop.clone();
        loop {
            if !is_reading && self.has_room() && !stop.is_cancelled() {
                (is_reading, page) =
                    (true, Some(read(Arc::clone(&self.courier), self.read.clone(), wait)).into());
            }
            let went_on = tokio::select! {
                Some((item, delivery)) = deliveries.next() => self.finish(&item, delivery, &mut deliveries).await,
                Some(read) = &mut page, if is_reading => {
                    (is_reading, page) = (false, None.into());
                    match read {
                        Ok((read, asked)) => {
                            wait = read.wait;
                            self.add(read, asked, &mut deliveries).await
                        }
                        Err(reason) => Err(reason),
                    }
                }
                () = stop.cancelled(), if is_reading => Ok(()),
                else => return,
            };
            if let Err(reason) = went_on {
                self.reason.get_or_insert(reason);
                stop.cancel();
            }
            if stop.is_cancelled() {
                (is_reading, page) = (false, None.into());
            }
        }
    }

    fn has_room(&self) -> bool {
        self.window.unfinished() + self.courier.settings.page <= self.courier.settings.unfinished
    }

    async fn add(&mut self, page: Page, asked: u64, deliveries: &mut Deliveries) -> Result<(), StopReason> {
        self.at_end = (!page.wait.is_zero()).then_some(asked);
        self.read = page.cursor.clone();
        let mut started = self.window.add(page.changes, page.cursor);
        if let Some(retry) =
            self.state.take_retry().await.map_err(|error| StopReason::State(error.to_string()))?
        {
            let names = match &retry {
                RetryRequest::All => None,
                RetryRequest::Records(names) => Some(names.as_slice()),
            };
            let again = self.courier.ledger.lock().changes(names);
            started.extend(self.window.add(again, self.read.clone()));
        }
        started.into_iter().for_each(|item| deliveries.push(deliver(Arc::clone(&self.courier), item)));
        self.save(false).await
    }

    async fn finish(
        &mut self,
        item: &Item,
        delivery: Delivery,
        deliveries: &mut Deliveries,
    ) -> Result<(), StopReason> {
        match delivery {
            Delivery::Finished => {}
            Delivery::Left => return Ok(()),
            Delivery::Stop(reason) => return Err(reason),
        }
        if let Some(next) = self.window.finish(item) {
            deliveries.push(deliver(Arc::clone(&self.courier), next));
        }
        self.save(false).await
    }

    /// Saves the state if it has changed, or in any case at the end.
    async fn save(&mut self, at_end: bool) -> Result<(), StopReason> {
        let parked_changed = self.courier.ledger.lock().take_changed();
        if let Some(asked) = self.at_end
            && self.window.unfinished() == 0
        {
            self.courier.progress.caught_up.store(asked, Relaxed);
        }
        if !at_end && !parked_changed && self.window.cursor() == self.saved_cursor {
            return Ok(());
        }
        self.saved_cursor = self.window.cursor().to_owned();
        let (progress, parked) = (&self.courier.progress, self.courier.ledger.lock().parked());
        progress.parked.store(parked.len() as u64, Relaxed);
        let state = SavedState {
            cursor: self.saved_cursor.clone(),
            last_event: self.courier.last_event.load(Relaxed),
            caught_up: progress.caught_up.load(Relaxed),
            stopped: self.reason.as_ref().map(ToString::to_string),
            parked,
        };
        self.state.save(state).await.map_err(|error| StopReason::State(error.to_string()))
    }
}

impl<S> fmt::Debug for Forwarder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarder").field("receiver", &self.courier.receiver).finish_non_exhaustive()
    }
}

fn deliver(courier: Arc<Courier>, item: Item) -> BoxFuture<'static, Delivered> {
    async move {
        let delivery = courier.deliver(&item.change).await;
        (item, delivery)
    }
    .boxed()
}

/// Reads the next page after a wait; while the source is away, asks it again.
fn read(
    courier: Arc<Courier>,
    cursor: String,
    wait: Duration,
) -> BoxFuture<'static, Result<ReadPage, StopReason>> {
    async move {
        tokio::time::sleep(wait).await;
        let mut failed = 0;
        loop {
            let asked = now_millis();
            match courier.source.page(&cursor, courier.settings.page).await {
                Ok(page) => return Ok((page, asked)),
                Err(SourceError::Refused(reason)) => return Err(StopReason::Source(reason)),
                Err(SourceError::Away(reason) | SourceError::Failed(reason)) => {
                    failed += 1;
                    if failed == 1 {
                        (courier.report)(&format!("{reason}; it is asked again until it answers"));
                    }
                    tokio::time::sleep(backoff::wait_for_source(&courier.settings, failed)).await;
                }
            }
        }
    }
    .boxed()
}
