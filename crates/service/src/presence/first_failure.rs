//! Loops that try again: the first failure after a success is logged, further failures are not.

use std::mem::replace;

/// Whether a loop's last attempt has failed.
#[derive(Debug, Default)]
pub(super) struct FirstFailure(bool);

impl FirstFailure {
    /// Takes an attempt's result. Returns its error, if the attempt before has succeeded.
    pub(super) fn of<'a, T, E>(&mut self, attempt: &'a Result<T, E>) -> Option<&'a E> {
        let was_failing = replace(&mut self.0, attempt.is_err());
        attempt.as_ref().err().filter(|_| !was_failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_after_a_success_is_the_first() {
        let mut failures = FirstFailure::default();
        let attempts = [Err(1), Err(2), Ok(()), Err(4)];
        assert_eq!(attempts.map(|attempt| failures.of(&attempt).copied()), [Some(1), None, None, Some(4)]);
    }
}
