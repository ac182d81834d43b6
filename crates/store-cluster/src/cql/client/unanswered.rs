//! Conditional writes that were not answered.
//!
//! A serial read completes the conditional writes that servers have begun. It does not see a write that a
//! stopped server has received and not begun: that server makes it later, if the version that it compares is
//! still there. So a write without an answer that has no effect yet may have an effect until another write to
//! the partition raises the version.

use kith_store::{Outcome, StoreError};

use super::error::as_outcome;

/// The writes without an answer among a change's attempts.
#[derive(Debug, Default)]
pub(in crate::cql) struct UnansweredWrites(Option<StoreError>);

impl UnansweredWrites {
    /// A write failed with this error, and has no effect yet.
    pub(in crate::cql) fn note(&mut self, error: StoreError) {
        self.0 = Some(error);
    }

    /// The error for a change that ends with `error`: after a write without an answer it does not say that
    /// nothing was applied. `has_answer`: the answer to the change is stored with its effect and was looked
    /// for, so that a refusal does not come from its own effect.
    pub(in crate::cql) fn ended(&self, error: StoreError, has_answer: bool) -> StoreError {
        let Some(unanswered) = &self.0 else { return error };
        let ended = as_outcome(error, Outcome::Unknown);
        if has_answer || ended.outcome() == Outcome::Unknown { ended } else { unanswered.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::error::unavailable, *};

    #[test]
    fn change_may_be_applied_after_a_lost_answer() {
        let mut writes = UnansweredWrites::default();
        let ends = |writes: &UnansweredWrites, error, has_answer| writes.ended(error, has_answer).outcome();
        for error in [unavailable("away", Outcome::NotApplied), StoreError::Overloaded, StoreError::NotFound]
        {
            assert_eq!(ends(&writes, error, false), Outcome::NotApplied);
        }
        writes.note(unavailable("no answer in time", Outcome::Unknown));
        for error in [unavailable("away", Outcome::NotApplied), StoreError::Overloaded] {
            assert_eq!(ends(&writes, error.clone(), true), Outcome::Unknown, "{error:?}");
            assert_eq!(ends(&writes, error, false), Outcome::Unknown);
        }
        assert_eq!(ends(&writes, StoreError::NotFound, false), Outcome::Unknown, "it may be its own effect");
        assert!(matches!(writes.ended(StoreError::NotFound, true), StoreError::NotFound));
    }
}
