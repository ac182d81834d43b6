//! Logs refused calls: the first for each caller, cause and token rule at once, then their number.

use std::{array, collections::HashMap, fmt};

use ahash::RandomState;
use kith_service::metric;
use kith_store::UserId;
use metrics::Counter;
use parking_lot::Mutex;

use super::TARGET;
use crate::auth::{RefusalCause, RefusedCall};

/// Callers that are counted apart. Callers are configured, so that clients cannot make more.
const CALLERS_MAX: usize = 1_000;
/// Names a call whose credential belongs to no caller.
const NO_CALLER: &str = "(unknown)";
/// Names all callers beyond those that are counted apart.
const OTHERS: &str = "(other)";

/// The refusals since the last report, by caller and cause.
pub(crate) struct RefusalLog {
    counters: [Counter; RefusalCause::ALL.len()],
    seen: Mutex<HashMap<Box<str>, CauseCounts, RandomState>>,
}

/// Counts by cause. `None`: the next refusal is logged at once. Else the number that was not logged.
type CauseCounts = [Option<u64>; RefusalCause::ALL.len()];

impl RefusalLog {
    /// The metric goes to the recorder that is installed now.
    pub(crate) fn new() -> Self {
        let counter =
            |cause: RefusalCause| metrics::counter!(metric::AUTH_REFUSED.name, "cause" => cause.name());
        Self { counters: RefusalCause::ALL.map(counter), seen: Mutex::default() }
    }

    /// Counts a refused call to this method, and writes a line unless a line was written since the last
    /// report but one.
    pub(crate) fn add(&self, refused: &RefusedCall, method: (&str, &str), trace_id: Option<&str>) {
        self.counters[refused.cause.place()].increment(1);
        let caller = refused.caller.as_ref().map_or(NO_CALLER, |caller| &*caller.name);
        if self.is_first(caller, refused.cause) {
            write(refused, caller, method, trace_id);
        }
    }

    /// Writes how many were refused since the last report, by caller and cause. To be called every 10 s.
    pub(crate) fn report(&self) {
        for (caller, cause, refused) in self.take_counts() {
            tracing::warn!(
                target: TARGET,
                event = "calls_refused",
                caller = &*caller,
                cause = cause.name(),
                rule = cause.rule(),
                refused,
                "security event"
            );
        }
    }

    fn is_first(&self, caller: &str, cause: RefusalCause) -> bool {
        let mut all = self.seen.lock();
        let caller = if all.len() < CALLERS_MAX || all.contains_key(caller) { caller } else { OTHERS };
        // Most refused calls come from a caller that is in the map already: they cost no allocation.
        if !all.contains_key(caller) {
            all.insert(caller.into(), array::from_fn(|_| None));
        }
        let Some(seen) = all.get_mut(caller) else { return true };
        let count = &mut seen[cause.place()];
        let first = count.is_none();
        *count = Some(count.map_or(0, |count| count + 1));
        first
    }

    /// Takes the counts that were not logged. A caller and cause without a refusal since the previous report
    /// is forgotten.
    fn take_counts(&self) -> Vec<(Box<str>, RefusalCause, u64)> {
        let mut found = Vec::new();
        self.seen.lock().retain(|caller, seen| {
            for (cause, count) in RefusalCause::ALL.into_iter().zip(seen.iter_mut()) {
                *count = count.filter(|count| *count > 0).map(|count| {
                    found.push((caller.clone(), cause, count));
                    0
                });
            }
            seen.iter().any(Option::is_some)
        });
        found
    }
}

impl fmt::Debug for RefusalLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalLog").finish_non_exhaustive()
    }
}

fn write(refused: &RefusedCall, caller: &str, method: (&str, &str), trace_id: Option<&str>) {
    let (service, method) = method;
    tracing::warn!(
        target: TARGET,
        event = "call_refused",
        caller,
        key_id = refused.key.map(tracing::field::display),
        acting_user = refused.acting_user.map(UserId::get),
        service,
        method,
        reason = refused.error.reason().name(),
        cause = refused.cause.name(),
        rule = refused.cause.rule(),
        trace_id,
        "security event"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(refusals: &RefusalLog, caller: &str, cause: RefusalCause, times: usize) -> usize {
        (0..times).filter(|_| refusals.is_first(caller, cause)).count()
    }

    fn taken(refusals: &RefusalLog) -> Vec<(String, RefusalCause, u64)> {
        let mut taken: Vec<_> = refusals
            .take_counts()
            .into_iter()
            .map(|(caller, cause, count)| (caller.into_string(), cause, count))
            .collect();
        taken.sort_by_key(|(caller, cause, _)| (caller.clone(), cause.place()));
        taken
    }

    #[test]
    fn first_refusal_is_logged_and_others_counted() {
        let refusals = RefusalLog::new();
        assert_eq!(refuse(&refusals, "chat", RefusalCause::Scope, 5), 1);
        assert_eq!(refuse(&refusals, "chat", RefusalCause::Expired, 1), 1);
        assert_eq!(refuse(&refusals, "jobs", RefusalCause::Scope, 3), 1);
        let expected =
            [("chat".to_owned(), RefusalCause::Scope, 4), ("jobs".to_owned(), RefusalCause::Scope, 2)];
        assert_eq!(taken(&refusals), expected);
        assert_eq!(refuse(&refusals, "chat", RefusalCause::Scope, 2), 0, "they go on");
        assert_eq!(refuse(&refusals, "chat", RefusalCause::Expired, 1), 1, "there was one alone before");
        assert_eq!(taken(&refusals), [("chat".to_owned(), RefusalCause::Scope, 2)]);
        assert_eq!(taken(&refusals), []);
        assert_eq!(refuse(&refusals, "chat", RefusalCause::Scope, 1), 1, "they were over");
    }

    #[test]
    fn callers_beyond_the_table_are_counted_together() {
        let refusals = RefusalLog::new();
        for number in 0..CALLERS_MAX + 5 {
            refuse(&refusals, &number.to_string(), RefusalCause::Unknown, 1);
        }
        assert_eq!(refusals.seen.lock().len(), CALLERS_MAX + 1);
        assert_eq!(taken(&refusals), [(OTHERS.to_owned(), RefusalCause::Unknown, 4)]);
        assert_eq!((taken(&refusals), refusals.seen.lock().len()), (vec![], 0), "they were over");
    }
}
