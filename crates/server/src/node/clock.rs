//! Compares this machine's clock with the store's clock, and reports a wrong clock in the log and in
//! `/readyz`.
//!
//! Stored times follow the store's clock, so a node with a wrong clock writes right times. A store without
//! its own clock is on this machine: then only a clock that is ahead of the elapsed time is noticed.

use std::time::{Duration, SystemTime};

use kith_service::{metric::CLOCK_AHEAD, write::removal_time::RemovalTime};
use kith_store::{CLOCKS_APART_MAX, ClockDifference, NodeStore, Timestamp, millis};
use tokio::time::{Instant, sleep};

use crate::health::{HealthCause, Reporter};

/// The remark's name.
const REASON: &str = "clock";
/// How often the clocks are compared.
const PERIOD: Duration = Duration::from_secs(1);
/// Time limit for one comparison.
const LIMIT: Duration = Duration::from_secs(1);
/// A difference above this is reported, until it falls below half.
const REPORTED: Duration = Duration::from_secs(1);
/// A removal time that is this far behind is reported.
const BEHIND: Duration = Duration::from_secs(3_600);

const REMOVALS_BEHIND: &str = "old data are removed by a time that is more than an hour behind the clock, which has jumped \
                               or did not run with a node: it catches up at a day an hour (kith_removals_behind_seconds)";

/// Watches the clocks until it is dropped.
#[derive(Debug)]
pub(super) struct ClockWatch<'a> {
    pub(super) store: &'a dyn NodeStore,
    /// `None`: not built yet.
    pub(super) removals: Option<&'a RemovalTime>,
    pub(super) health: &'a Reporter,
}

impl ClockWatch<'_> {
    /// Compares the clocks again and again, and reports.
    pub(super) async fn run(&self) {
        let mut shown = None;
        let mut apart = None;
        loop {
            apart = self.compare().await.or(apart);
            let behind = match self.removals {
                Some(removals) => removals.behind().await,
                None => None,
            };
            let found = finding(apart, behind, shown.is_some());
            if found != shown {
                self.report(found.as_deref());
                shown = found;
            }
            sleep(PERIOD).await;
        }
    }

    /// Compares the clocks once, and corrects this process's clock. `None`: the store did not return its
    /// time.
    pub(super) async fn compare(&self) -> Option<ClockDifference> {
        let (asked, begun) = (Timestamp::of_machine(), Instant::now());
        let Some(store) = self.store.clock(LIMIT).await.ok()? else {
            metrics::gauge!(CLOCK_AHEAD.name).set(0.0);
            return None;
        };
        let apart = ClockDifference::measured(asked, begun.elapsed(), store)?;
        apart.correct_clock();
        metrics::gauge!(CLOCK_AHEAD.name).set(seconds(apart.ahead_ms()));
        Some(apart)
    }

    fn report(&self, found: Option<&str>) {
        let Some(message) = found else {
            tracing::info!("the clock is right again");
            return self.health.end_remark(REASON);
        };
        tracing::warn!("{message}");
        let (message, since) = (message.to_owned(), SystemTime::now());
        self.health.remark(HealthCause { reason: REASON, message, since });
    }
}

/// Seconds, with the sign.
fn seconds(milliseconds: i64) -> f64 {
    let size = Duration::from_millis(milliseconds.unsigned_abs()).as_secs_f64();
    if milliseconds < 0 { -size } else { size }
}

/// Says what is wrong, without numbers, which would differ in each second. The metrics have them.
fn finding(apart: Option<ClockDifference>, behind: Option<Duration>, is_shown: bool) -> Option<String> {
    let least = if is_shown { REPORTED / 2 } else { REPORTED };
    let apart = apart.filter(|apart| apart.ahead_ms().saturating_abs() > millis(least));
    let behind = behind.filter(|behind| *behind > BEHIND).map(|_| REMOVALS_BEHIND.to_owned());
    let found: Vec<String> = apart.map(difference).into_iter().chain(behind).collect();
    (!found.is_empty()).then(|| found.join("; "))
}

fn difference(apart: ClockDifference) -> String {
    let way = if apart.ahead_ms() > 0 { "ahead of" } else { "behind" };
    let (least, then) = if apart.is_small() {
        (REPORTED, "stored times follow the store")
    } else {
        (
            CLOCKS_APART_MAX,
            "stored times follow the store, and this node does not advance the removal of old data",
        )
    };
    format!(
        "the clock of this machine is more than {} s {way} that of the store: set it, for example by NTP; {then} \
         (kith_clock_ahead_seconds)",
        least.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apart(ahead_ms: i64) -> Option<ClockDifference> {
        ClockDifference::measured(Timestamp(ahead_ms), Duration::ZERO, Timestamp(0))
    }

    fn says(found: Option<String>, words: &str) {
        let found = found.unwrap_or_default();
        assert!(found.contains(words), "{found}");
    }

    #[test]
    fn second_is_a_remark_and_half_a_minute_more() {
        assert_eq!(finding(apart(1_000), None, false), None);
        says(finding(apart(1_001), None, false), "more than 1 s ahead of that of the store");
        says(finding(apart(-1_001), None, false), "more than 1 s behind that of the store");
        says(finding(apart(-300_000), None, false), "more than 30 s behind that of the store");
        says(finding(apart(501), None, true), "ahead");
        assert_eq!(finding(apart(500), None, true), None);
    }

    #[test]
    fn removals_an_hour_behind_are_a_remark() {
        assert_eq!(finding(None, Some(BEHIND), false), None);
        says(finding(None, Some(BEHIND + PERIOD), false), "a day an hour");
        says(finding(apart(5_000), Some(2 * BEHIND), false), "; old data");
    }
}
