//! The section about how cluster nodes check that earlier writes are visible.

use std::time::Duration;

use kith_service::invalid_value::{InvalidValue, above_zero};
use serde::{Deserialize, Serialize};

use super::Config;

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
    /// How long the others may take. Above 0; below `cluster.trust` plus 1.5 s it also
    /// reports what a cut leaves for a moment.
    #[serde(with = "humantime_serde")]
    pub bound: Duration,
    /// One write in so many is looked for on the other nodes 1 s, 10 s and 60 s later. Above 0; 1: every one.
    pub sample_every: u64,
    /// Writes that may wait to be looked for; further ones are not.
    #[serde(skip)]
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
    ])
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
        ] {
            let line = refused(&[(key, value)]).unwrap_or_else(|| panic!("{key} = {value} is taken"));
            assert!(line.contains(words) && line.contains(key), "{line}");
        }
    }
}
