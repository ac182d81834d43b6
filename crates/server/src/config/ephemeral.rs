//! A node for tests: data in memory alone, sandboxes, and its other defaults.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Backend, Config, ConfigError};

/// A node for tests.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct EphemeralConfig {
    /// Whether data are kept in memory alone, and lost when the node ends. Then it logs little and stops
    /// quickly.
    pub enabled: bool,
    /// JSON Lines of users and groups that the node, and each of its sandboxes, begins with.
    pub seed: Option<PathBuf>,
    /// Maximum sandboxes.
    #[serde(skip)]
    pub sandboxes: usize,
    /// How long a sandbox must have been unused before another one may replace it.
    #[serde(skip)]
    pub sandbox_idle: Duration,
}

impl Default for EphemeralConfig {
    fn default() -> Self {
        Self { enabled: false, seed: None, sandboxes: 256, sandbox_idle: Duration::from_secs(60) }
    }
}

/// How long a test waits at most when it stops a node with calls in flight.
const DRAIN: Duration = Duration::from_millis(500);
const LOG_FILTER: &str = "warn";
/// The origin that these values have.
const ORIGIN: &str = "ephemeral.enabled";

impl Config {
    /// The configuration for a node for tests in this process: in memory, on free loopback ports, quick to
    /// stop.
    #[must_use]
    pub fn ephemeral() -> Self {
        let mut config = Self::default();
        config.ephemeral.enabled = true;
        config.listen.set_port(0);
        config.operations.listen.set_port(0);
        set_defaults(&mut config, &mut BTreeMap::new());
        config
    }
}

/// Sets the defaults for tests where no source sets a value, and records them in the origins.
pub(super) fn set_defaults(config: &mut Config, origins: &mut BTreeMap<String, String>) {
    if !config.ephemeral.enabled {
        return;
    }
    let mut unset = |key: &str| {
        let unset = !origins.contains_key(key);
        if unset {
            origins.insert(key.to_owned(), ORIGIN.to_owned());
        }
        unset
    };
    if unset("drain") {
        config.drain = DRAIN;
    }
    if unset("drain_wait") {
        config.drain_wait = Duration::ZERO;
    }
    if unset("telemetry.log_filter") {
        LOG_FILTER.clone_into(&mut config.telemetry.log_filter);
    }
}

/// Refuses what contradicts data in memory.
pub(super) fn check(config: &Config, origins: &BTreeMap<String, String>) -> Result<(), ConfigError> {
    let ephemeral = &config.ephemeral;
    let refuse = |text: &str| Err(ConfigError(text.to_owned()));
    if !ephemeral.enabled {
        return match ephemeral.seed {
            Some(_) => {
                refuse("ephemeral.seed is for a node that says --ephemeral; use kith import for others")
            }
            None => Ok(()),
        };
    }
    if config.store.backend == Backend::Cluster {
        return refuse("an ephemeral node keeps data in memory; leave store.backend = \"cluster\" out");
    }
    if let Some(place) = origins.get("data_dir").filter(|place| place.starts_with("--")) {
        return Err(ConfigError(format!("an ephemeral node keeps data in memory; leave {place} out")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::load::with;

    #[test]
    fn a_node_for_tests_is_quiet_and_quick_to_stop() {
        let loaded = with(&[("ephemeral.enabled", "true")]).unwrap();
        assert_eq!(loaded.config.telemetry.log_filter, "warn");
        assert!(loaded.config.drain_wait.is_zero());
        assert_eq!(loaded.origins["drain"], "ephemeral.enabled");
    }

    #[test]
    fn configured_values_apply_to_a_node_for_tests() {
        let settings = [("ephemeral.enabled", "true"), ("telemetry.log_filter", "debug"), ("drain", "7s")];
        let loaded = with(&settings).unwrap();
        assert_eq!(loaded.config.telemetry.log_filter, "debug");
        assert_eq!(loaded.config.drain.as_secs(), 7);
    }
}
