//! Ends a call before its answer is complete.

use std::{future::Future as _, pin::Pin, sync::Arc, task::Context};

use kith_service::user::LiveAccess;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

/// Ends every stream in a call once its token is cancelled, also a stream that is sending.
#[derive(Clone, Debug)]
pub(super) struct CloseSignal {
    token: CancellationToken,
    status: fn() -> Status,
}

impl CloseSignal {
    /// `status` is what the stream ends with.
    pub(super) const fn new(token: CancellationToken, status: fn() -> Status) -> Self {
        Self { token, status }
    }

    /// The status that ends the stream, if it is to end now.
    pub(super) fn status_if_given(&self) -> Option<Status> {
        self.token.is_cancelled().then(self.status)
    }
}

/// A signal that a stream looks at before each frame, and waits for while it has none.
struct PolledSignal {
    signal: CloseSignal,
    /// Made when the stream has nothing to send for the first time.
    wait: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl PolledSignal {
    const fn new(signal: CloseSignal) -> Self {
        Self { signal, wait: None }
    }

    /// Like [`CloseSignal::status_if_given`], but wakes the task when the signal is given later.
    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        let token = &self.signal.token;
        let wait = self.wait.get_or_insert_with(|| Box::pin(token.clone().cancelled_owned()));
        wait.as_mut().poll(cx).is_ready().then(self.signal.status)
    }
}

/// Given when a stream's user is no longer let in.
struct AccessSignal {
    live: Arc<LiveAccess>,
    /// Made when the stream has nothing to send for the first time.
    wait: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl AccessSignal {
    fn status_if_given(&self) -> Option<Status> {
        self.live.ended().is_cancelled().then(|| self.live.error().into())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        let ended = self.live.ended();
        let wait = self.wait.get_or_insert_with(|| Box::pin(ended.clone().cancelled_owned()));
        wait.as_mut().poll(cx).is_ready().then(|| self.live.error().into())
    }
}

/// When a call ends at the latest, and by which status.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamEnd {
    pub(super) at: Instant,
    pub(super) status: fn() -> Status,
}

/// The conditions that end a call before its answer is complete: its deadline; for a stream also when its
/// caller or the node ends.
pub(super) struct EndConditions {
    last: StreamEnd,
    /// Made when the call has to wait for the first time: an answer from memory needs no timer.
    timer: Option<Pin<Box<Sleep>>>,
    signals: [Option<PolledSignal>; 2],
    /// Present only for a user's stream.
    access: Option<Box<AccessSignal>>,
}

impl EndConditions {
    pub(super) fn new(last: StreamEnd, signals: [Option<CloseSignal>; 2]) -> Self {
        let signals = signals.map(|signal| signal.map(PolledSignal::new));
        Self { last, timer: None, signals, access: None }
    }

    /// Also ends it with its user's access. The stream counts as open as long as this exists.
    pub(super) fn add_access(&mut self, live: Arc<LiveAccess>) {
        self.access = Some(Box::new(AccessSignal { live, wait: None }));
    }

    /// Adds the signal that ends a stream in favour of another stream. A caller's stream gets none: it has
    /// its place for good.
    pub(super) fn give_way(&mut self, signal: CloseSignal) {
        if let Some(free) = self.signals.iter_mut().find(|signal| signal.is_none()) {
            *free = Some(PolledSignal::new(signal));
        }
    }

    /// The status with which the call must end now, if a condition is met.
    pub(super) fn met(&self) -> Option<Status> {
        let given = self.signals.iter().flatten().find_map(|signal| signal.signal.status_if_given());
        let given = given.or_else(|| self.access.as_ref()?.status_if_given());
        given.or_else(|| (Instant::now() >= self.last.at).then(self.last.status))
    }

    /// Like [`Self::met`], but wakes the task when a condition is met later.
    pub(super) fn poll_met(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        let given = self.signals.iter_mut().flatten().find_map(|signal| signal.poll(cx));
        let given = given.or_else(|| self.access.as_mut()?.poll(cx));
        if given.is_some() {
            return given;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(self.last.at)));
        timer.as_mut().poll(cx).is_ready().then(self.last.status)
    }
}
