//! The alerts that fired in a case.

use std::time::Duration;

use super::{cases::Case, promtool::FiredAlerts};
use crate::faults::{Better, Figure};

/// Which alerts fired in a case. All times are as the rules saw them.
#[derive(Clone, Debug)]
pub struct CaseResult {
    case: Case,
    begun: Duration,
    fired: FiredAlerts,
}

impl CaseResult {
    pub(super) const fn new(case: Case, begun: Duration, fired: FiredAlerts) -> Self {
        Self { case, begun, fired }
    }

    /// The case that was run.
    #[must_use]
    pub const fn case(&self) -> &Case {
        &self.case
    }

    /// Whether all of the case's alerts fired, none fired before its fault, and the fault explains all that
    /// fired.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.missing().is_empty() && self.early().is_empty() && self.unexpected().is_empty()
    }

    /// The alerts that fired, ordered by name, each with the time from the fault's begin. An alert that fired
    /// before the fault has a time of zero.
    pub fn fired(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.fired.iter().map(|(alert, at)| (alert.as_str(), at.saturating_sub(self.begun)))
    }

    /// The case's alerts that did not fire.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        self.case.fires.iter().copied().filter(|alert| !self.fired.contains_key(*alert)).collect()
    }

    /// Alerts that fired before there was a fault.
    #[must_use]
    pub fn early(&self) -> Vec<&str> {
        let early = self.fired.iter().filter(|(_, at)| **at < self.begun);
        early.map(|(alert, _)| alert.as_str()).collect()
    }

    /// Alerts that fired and that the fault does not bring about.
    #[must_use]
    pub fn unexpected(&self) -> Vec<&str> {
        let known =
            |alert: &str| self.case.fires.iter().chain(self.case.may_fire).any(|known| *known == alert);
        self.fired.keys().map(String::as_str).filter(|alert| !known(alert)).collect()
    }

    /// The figures for programs: wrong alerts, and after how many seconds each alert fired.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let name = self.case.name;
        let none = |what: &str, alerts: Vec<&str>| {
            Figure::none(format!("{name} alerts {what}"), u64::try_from(alerts.len()).unwrap_or(u64::MAX))
        };
        let mut figures = vec![
            none("that did not fire", self.missing()),
            none("before the fault", self.early()),
            none("that are unexpected", self.unexpected()),
        ];
        let fired_after = |(alert, after): (&str, Duration)| {
            Figure::without_target(format!("{name} {alert} after"), "s", after.as_secs_f64(), Better::Lower)
        };
        figures.extend(self.fired().map(fired_after));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::CASES;

    fn shown(fired: &[(&str, u64)]) -> CaseResult {
        let case = CASES.iter().find(|case| case.name == "mongodb-away").unwrap();
        let fired = fired.iter().map(|(alert, at)| ((*alert).to_owned(), Duration::from_secs(*at)));
        CaseResult::new(*case, Duration::from_secs(300), fired.collect())
    }

    const ALL: [(&str, u64); 3] = [("KithCallsFail", 500), ("KithLoadsFail", 600), ("KithNoNodeServes", 330)];

    #[test]
    fn case_holds_with_or_without_secondary_alerts() {
        assert!(shown(&ALL).holds());
        let more = shown(&[&ALL[..], &[("KithNodeNotServing", 450)]].concat());
        assert!(more.holds());
        let after: Vec<_> = more.fired().map(|(_, after)| after.as_secs()).collect();
        assert_eq!(after, [200, 300, 30, 150]);
    }

    #[test]
    fn missing_early_or_unexpected_alert_fails_case() {
        let missing = shown(&ALL[..2]);
        assert!(!missing.holds() && missing.missing() == ["KithNoNodeServes"]);
        let early = shown(&[ALL[0], ALL[1], ("KithNoNodeServes", 285)]);
        assert!(!early.holds() && early.early() == ["KithNoNodeServes"]);
        let unexpected = shown(&[&ALL[..], &[("KithStaleReads", 450)]].concat());
        assert!(!unexpected.holds() && unexpected.unexpected() == ["KithStaleReads"]);
        assert!(unexpected.figures().iter().any(|figure| !figure.holds));
        assert!(shown(&ALL).figures().iter().all(|figure| figure.holds));
    }
}
