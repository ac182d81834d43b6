//! The section about how cluster nodes check that earlier writes are visible.

use std::time::Duration;

use kith_service::invalid_value::{InvalidValue, above_zero};
use serde::{Deserialize, Serialize};

use super::{Config, check::must};

/// Most writes that may wait: each is asked for three times on every node within a minute.
const WAITING_MOST: usize = 10_000;

/// Nodes ask each other whether writes are seen.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObserverConfig {
    /// Whether this node asks; it answers in any case.
    pub enabled: bool,
    /// How often a node writes the canary and times until the others serve it; 5 thirds of `bound` at least.
    /// Above 0.
    #[serde(with = "humantime_serde")]
    pub canary_every: Duration,
    /// How long the others may take. Above 0; below `cluster.trust` plus `cluster.trust_grace` it also
    /// reports what a cut leaves for a moment.
    #[serde(with = "humantime_serde")]
    pub bound: Duration,
    /// One write in so many is looked for on the other nodes 1 s, 10 s and 60 s later. Above 0; 1: every one.
    pub sample_every: u64,
    /// Writes that may wait to be looked for; further ones are not. Above 0: at most 10000.
    pub waiting_max: usize,
}

impl Default for ObserverConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            canary_every: Duration::from_secs(5),
            bound: Duration::from_secs(3),
            sample_every: 10,
            waiting_max: 100,
        }
    }
}

/// Looks at each value.
pub(super) fn check(config: &Config) -> Result<(), InvalidValue> {
    let observer = &config.observer;
    above_zero(&[
        ("observer.canary_every", observer.canary_every.is_zero()),
        ("observer.bound", observer.bound.is_zero()),
        ("observer.sample_every", observer.sample_every == 0),
        ("observer.waiting_max", observer.waiting_max == 0),
    ])?;
    let (key, waiting) = ("observer.waiting_max", observer.waiting_max);
    must(waiting <= WAITING_MOST, key, waiting, &format!("be at most {WAITING_MOST}"))
}

#[cfg(test)]
mod tests {
    use crate::config::load::refused;

    #[test]
    fn impossible_value_names_its_key_and_rule() {
        for (key, value, words) in [
            ("observer.canary_every", "0s", "must be above 0"),
            ("observer.bound", "0s", "must be above 0"),
            ("observer.sample_every", "0", "must be above 0"),
            ("observer.waiting_max", "0", "must be above 0"),
            ("observer.waiting_max", "10001", "must be at most 10000"),
        ] {
            let line = refused(&[(key, value)]).unwrap_or_else(|| panic!("{key} = {value} is taken"));
            assert!(line.contains(words) && line.contains(key), "{line}");
        }
        assert_eq!(refused(&[("observer.waiting_max", "10000")]), None);
    }
}
