//! The published rules, and how often Prometheus scrapes by the published configuration.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result};

const ALERTS: &str = include_str!("../../../../deploy/prometheus/alerts.yml");
const CONFIGURATION: &str = include_str!("../../../../deploy/prometheus/prometheus.yml");
/// The prefix of all node metrics.
const PREFIX: &str = "kith_";

/// A file with rules.
#[derive(Clone, Debug)]
pub struct Rules {
    text: String,
}

impl Rules {
    /// The rules in `deploy/prometheus/alerts.yml`, unchanged.
    #[must_use]
    pub fn published() -> Self {
        Self { text: ALERTS.to_owned() }
    }

    /// Returns wrong rules: every occurrence of `from` in their text is replaced.
    #[must_use]
    pub fn with(&self, from: &str, to: &str) -> Self {
        Self { text: self.text.replace(from, to) }
    }

    /// The alerts' names, in their order.
    #[must_use]
    pub fn alerts(&self) -> Vec<&str> {
        let lines = self.text.lines();
        lines.filter_map(|line| line.trim_start().strip_prefix("- alert: ")).map(str::trim).collect()
    }

    /// The names of the node metrics that any rule looks at.
    pub(super) fn metrics(&self) -> BTreeSet<&str> {
        let words = self.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with(PREFIX)).collect()
    }

    /// The file's text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Between two scrapes to a node.
///
/// # Errors
/// When the published configuration does not say it in seconds.
pub(super) fn scrape_interval() -> Result<Duration> {
    let interval = CONFIGURATION.lines().find_map(|line| line.trim_start().strip_prefix("scrape_interval:"));
    let seconds = interval.and_then(|interval| interval.trim().strip_suffix('s')?.parse().ok());
    Ok(Duration::from_secs(seconds.context("prometheus.yml says no scrape_interval in seconds")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_and_metrics_are_found_in_the_rules() {
        let rules = Rules::published();
        assert!(rules.alerts().len() >= 16, "{:?}", rules.alerts());
        assert!(rules.alerts().contains(&"KithNodeUntrusted"));
        let metrics = rules.metrics();
        for metric in ["kith_serving", "kith_rpc_seconds_bucket", "kith_observer_stale_total"] {
            assert!(metrics.contains(metric), "{metric} is not among {metrics:?}");
        }
        assert!(metrics.iter().all(|metric| metric.len() > PREFIX.len()));
    }

    #[test]
    fn scrape_interval_is_read_from_configuration() {
        assert_eq!(scrape_interval().unwrap(), Duration::from_secs(15));
    }
}
