//! The circuit breaker: callers do not wait for a server that does not answer.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::counters::Counter;

/// After this many failures in a row no command is let through.
const FAILURES: u32 = 3;
/// After this time one command is let through as a trial.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether calls are let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Lets all calls through.
    Closed,
    /// Lets no calls through.
    Open,
    /// Lets a single call through as a trial.
    HalfOpen,
}

#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// Failures in a row. Below the limit only this is read: a call that succeeds takes no lock.
    failures: AtomicU32,
    open: Mutex<OpenState>,
    opened: Counter,
}

#[derive(Debug, Default)]
struct OpenState {
    since: Option<Instant>,
    trying: bool,
}

/// A call that was let through. If it is dropped before its end, it does not count.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    breaker: &'a Breaker,
    /// Whether it is the only call that is let through while the breaker is half open.
    is_trial: bool,
}

impl Breaker {
    /// Lets a call through, or returns `None`.
    pub(super) fn enter(&self) -> Option<Trial<'_>> {
        if self.failures.load(Ordering::Relaxed) < FAILURES {
            return Some(Trial { breaker: self, is_trial: false });
        }
        let mut open = self.open.lock();
        match open.since {
            Some(since) if open.trying || since.elapsed() < PAUSE => None,
            Some(_) => {
                open.trying = true;
                Some(Trial { breaker: self, is_trial: true })
            }
            None => Some(Trial { breaker: self, is_trial: false }),
        }
    }

    /// The server answers: all calls are let through.
    pub(super) fn close(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            let mut open = self.open.lock();
            self.failures.store(0, Ordering::Relaxed);
            *open = OpenState::default();
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        let open = self.open.lock();
        match open.since {
            None => BreakerState::Closed,
            Some(_) if open.trying => BreakerState::HalfOpen,
            Some(_) => BreakerState::Open,
        }
    }

    /// How often it has opened.
    pub(super) fn opened(&self) -> u64 {
        self.opened.get()
    }

    fn failed(&self, is_trial: bool) {
        let mut open = self.open.lock();
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        self.failures.store(failures, Ordering::Relaxed);
        if failures < FAILURES {
            return;
        }
        if open.since.is_none() {
            self.opened.add(1);
            open.since = Some(Instant::now());
        } else if is_trial {
            *open = OpenState { since: Some(Instant::now()), trying: false };
        }
    }
}

impl Trial<'_> {
    /// The call has ended, with an answer or without.
    pub(super) fn end(self, answered: bool) {
        if answered {
            self.breaker.close();
        } else {
            self.breaker.failed(self.is_trial);
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if self.is_trial {
            self.breaker.open.lock().trying = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn fail(breaker: &Breaker, times: u32) {
        for _ in 0..times {
            breaker.enter().unwrap().end(false);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn breaker_opens_after_three_failures() {
        let breaker = Breaker::default();
        fail(&breaker, 2);
        breaker.enter().unwrap().end(true);
        fail(&breaker, 2);
        assert_eq!(breaker.state(), BreakerState::Closed);
        fail(&breaker, 1);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(breaker.enter().is_none());
        advance(PAUSE).await;
        let trial = breaker.enter().unwrap();
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.enter().is_none(), "only one tries");
        trial.end(false);
        assert!(breaker.enter().is_none(), "a failed try starts the pause again");
        advance(PAUSE).await;
        breaker.enter().unwrap().end(true);
        assert_eq!((breaker.state(), breaker.opened()), (BreakerState::Closed, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn abandoned_trial_makes_room_for_another() {
        let breaker = Breaker::default();
        fail(&breaker, 3);
        advance(PAUSE).await;
        drop(breaker.enter().unwrap());
        assert!(breaker.enter().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_fail_late_do_not_prolong_the_pause() {
        let breaker = Breaker::default();
        let late = breaker.enter().unwrap();
        fail(&breaker, 3);
        advance(PAUSE).await;
        late.end(false);
        assert!(breaker.enter().is_some());
    }
}
