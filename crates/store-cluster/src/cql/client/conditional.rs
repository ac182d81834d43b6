//! Conditional changes: of what a user has set, of a group's members, of a receiver's applications. Each is
//! the rows of one partition, and changes by one conditional write in these steps:
//!
//! 1. Read the head, which the write compares, and then the rows: nothing that is decided on is older.
//! 2. Read the stored answer last. If the rows show this request's effect, its answer is stored by now, so
//!    the request is not refused because of its own effect.
//! 3. Decide, without reads or writes.
//! 4. Note the change, for other nodes if this node dies. Then write.
//! 5. Write what follows in other partitions, and end the note.
//!
//! A write may be unanswered. A serial read completes the conditional writes that servers have begun. It does
//! not see a write that a stopped server has received and not begun: that server makes it later, if the
//! version that it compares is still there. So a write without an answer that has no effect yet may have an
//! effect until another write to the partition raises the version.

use std::time::Duration;

use kith_store::{Outcome, StoreError, Version};

use super::{
    error::as_outcome,
    session::{Bound, Client},
};

const TRIES_MAX: u32 = 16;
const BACKOFF: Duration = Duration::from_millis(5);

/// What a condition compares, and the random number of the write that made it, which shows whose write took
/// effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cql) struct Head {
    pub(in crate::cql) version: Version,
    pub(in crate::cql) writer: i64,
}

/// Why an attempt did not make its change.
#[derive(Debug)]
pub(in crate::cql) enum AttemptError {
    /// The change fails.
    Final(StoreError),
    /// Another write came first.
    Refused,
    /// The write was not answered, and has no effect yet.
    Unanswered(StoreError),
}

impl From<StoreError> for AttemptError {
    fn from(error: StoreError) -> Self {
        Self::Final(error)
    }
}

/// The attempts that did not make a change.
#[derive(Debug, Default)]
pub(in crate::cql) struct FailedAttempts {
    count: u32,
    unanswered: Option<StoreError>,
}

impl FailedAttempts {
    /// Waits for a random time before the next attempt, so that writers do not refuse each other repeatedly.
    /// Returns the error for a change that has no next attempt.
    pub(in crate::cql) async fn again(&mut self, error: AttemptError) -> Result<(), StoreError> {
        match error {
            AttemptError::Final(error) => return Err(error),
            AttemptError::Refused => {}
            AttemptError::Unanswered(error) => self.unanswered = Some(error),
        }
        self.count += 1;
        if self.count == TRIES_MAX {
            return Err(StoreError::Overloaded);
        }
        tokio::time::sleep(BACKOFF.mul_f64(rand::random_range(0.0..f64::from(self.count)))).await;
        Ok(())
    }

    /// Like [`Self::again`], with the error by [`Self::ended`].
    pub(in crate::cql) async fn retry(
        &mut self,
        error: AttemptError,
        has_answer: bool,
    ) -> Result<(), StoreError> {
        self.again(error).await.map_err(|error| self.ended(error, has_answer))
    }

    /// Whether the first attempt was decisive.
    pub(in crate::cql) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The error for a change that ends with `error`: after a write without an answer it does not say that
    /// nothing was applied. `has_answer`: the answer to the change is stored with its effect and was looked
    /// for, so that a refusal does not come from its own effect.
    pub(in crate::cql) fn ended(&self, error: StoreError, has_answer: bool) -> StoreError {
        let Some(unanswered) = &self.unanswered else { return error };
        let ended = as_outcome(error, Outcome::Unknown);
        if has_answer || ended.outcome() == Outcome::Unknown { ended } else { unanswered.clone() }
    }
}

impl Client {
    /// Writes all parts if the conditions hold, and finds out whether a write without an answer took effect.
    /// `after`: the new head. `found`: reads the head serially, which ends what servers have begun.
    pub(in crate::cql) async fn write_head(
        &self,
        parts: Vec<Bound>,
        after: Head,
        found: impl Future<Output = Result<Head, StoreError>>,
    ) -> Result<(), AttemptError> {
        match self.write_if(parts).await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(AttemptError::Refused),
            Err(error) if error.outcome() == Outcome::Unknown => {
                let found = found.await.map_err(|error| as_outcome(error, Outcome::Unknown))?;
                resolve(error, after, found)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes an answer alone, if the head is unchanged. A write without an answer counts as refused, since
    /// the next attempt reads whether the answer is stored.
    pub(in crate::cql) async fn write_answer(&self, parts: Vec<Bound>) -> Result<(), AttemptError> {
        match self.write_if(parts).await {
            Ok(None) => Ok(()),
            Err(error) if error.outcome() == Outcome::NotApplied => Err(error.into()),
            Ok(Some(_)) | Err(_) => Err(AttemptError::Refused),
        }
    }
}

/// What became of a write that failed with this error: it would have written the head `after`.
fn resolve(error: StoreError, after: Head, found: Head) -> Result<(), AttemptError> {
    if found == after {
        Ok(())
    } else if found.version > after.version {
        // Other writes may have followed this write.
        Err(AttemptError::Final(error))
    } else {
        Err(AttemptError::Unanswered(error))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::error::unavailable, *};

    fn unanswered() -> StoreError {
        unavailable("no answer in time", Outcome::Unknown)
    }

    #[test]
    fn change_may_be_applied_after_a_lost_answer() {
        let mut failed = FailedAttempts::default();
        let ends = |failed: &FailedAttempts, error, has_answer| failed.ended(error, has_answer).outcome();
        for error in [unavailable("away", Outcome::NotApplied), StoreError::Overloaded, StoreError::NotFound]
        {
            assert_eq!(ends(&failed, error, false), Outcome::NotApplied);
        }
        failed.unanswered = Some(unanswered());
        for error in [unavailable("away", Outcome::NotApplied), StoreError::Overloaded] {
            assert_eq!(ends(&failed, error.clone(), true), Outcome::Unknown, "{error:?}");
            assert_eq!(ends(&failed, error, false), Outcome::Unknown);
        }
        assert_eq!(ends(&failed, StoreError::NotFound, false), Outcome::Unknown, "it may be its own effect");
        assert!(matches!(failed.ended(StoreError::NotFound, true), StoreError::NotFound));
    }

    #[test]
    fn unanswered_write_is_known_by_its_writer() {
        let head = |version, writer| Head { version: Version::new(version).unwrap(), writer };
        let resolve = |found| resolve(unanswered(), head(7, 1), found);
        assert!(matches!(resolve(head(7, 1)), Ok(())));
        assert!(matches!(resolve(head(8, 2)), Err(AttemptError::Final(_))), "it may have come before");
        for other in [head(0, 0), head(6, 3), head(7, 2)] {
            assert!(matches!(resolve(other), Err(AttemptError::Unanswered(_))), "{other:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_and_remember_a_lost_answer() {
        let mut failed = FailedAttempts::default();
        failed.retry(AttemptError::Unanswered(unanswered()), true).await.unwrap();
        for _ in 2..TRIES_MAX {
            failed.retry(AttemptError::Refused, true).await.unwrap();
        }
        let ended = failed.retry(AttemptError::Refused, true).await.unwrap_err();
        assert_eq!(ended.outcome(), Outcome::Unknown, "{ended:?}");
        let refused = failed.again(AttemptError::Final(StoreError::NotFound)).await;
        assert!(matches!(refused, Err(StoreError::NotFound)));
    }
}
