//! Whether and when a call is sent again.

use std::{
    sync::atomic::{AtomicI64, Ordering::Relaxed},
    time::Duration,
};

use tonic::{Code, Status};

use crate::error::Error;

/// The longest pause of the client itself.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// What one retry takes from the budget; a call gives back 1.
pub(crate) const RETRY_COST: i64 = 10;
/// Retries beyond a tenth of all calls.
const BUDGET: i64 = 100 * RETRY_COST;

/// Keeps the retries of a client below a tenth of its calls, and 100 more, so that an outage is not made
/// worse.
#[derive(Debug, Default)]
pub(crate) struct RetryBudget(AtomicI64);

impl RetryBudget {
    /// Takes from the budget, if there is that much left. A negative cost is paid back.
    pub(crate) fn spend(&self, cost: i64) -> bool {
        let spend = |spent| Some(i64::max(spent + cost, 0)).filter(|spent| *spent <= BUDGET);
        self.0.fetch_update(Relaxed, Relaxed, spend).is_ok()
    }
}

/// An error that no node has made is UNAVAILABLE, whatever the library or a proxy calls it: the answer was
/// lost.
pub(crate) fn as_lost(status: Status) -> Status {
    let is_of_transport =
        matches!(status.code(), Code::Unavailable | Code::Internal | Code::Unknown | Code::Cancelled);
    if is_of_transport && Error::from(&status).reason.is_empty() {
        return Status::unavailable(status.message());
    }
    status
}

/// How long to wait before the next try, `None`: it would not help. `tries`: how many were made.
pub(crate) fn delay(error: &Error, pause: Duration, tries: u32) -> Option<Duration> {
    let base = match (error.code, error.retry_delay) {
        (Code::Unavailable | Code::ResourceExhausted, Some(delay)) => delay,
        (Code::Unavailable, None) => pause,
        _ => return None,
    };
    let longer = base.saturating_mul(1 << tries.saturating_sub(1).min(8)).min(PAUSE_MAX);
    Some(base.max(longer).mul_f64(1.0 + rand::random::<f64>() / 4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_ends_and_is_earned_again() {
        let budget = RetryBudget::default();
        assert_eq!((0..1_000).filter(|_| budget.spend(RETRY_COST)).count(), 100);
        assert!((0..RETRY_COST).all(|_| budget.spend(-1)));
        assert!(budget.spend(RETRY_COST) && !budget.spend(RETRY_COST));
    }

    #[test]
    fn pauses_grow_and_have_jitter() {
        let gone = Error::from(&Status::unavailable("gone"));
        let pause = |tries| delay(&gone, Duration::from_millis(50), tries).unwrap();
        assert!((50..=63).contains(&pause(1).as_millis()) && (200..=250).contains(&pause(3).as_millis()));
        assert!(pause(30) <= PAUSE_MAX.mul_f64(1.25));
        assert_eq!(delay(&Error::from(&Status::aborted("version")), PAUSE_MAX, 1), None);
    }
}
