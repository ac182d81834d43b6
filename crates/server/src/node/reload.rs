//! Reload: the configuration changes that a running node applies.

use std::{collections::BTreeMap, fmt};

use crate::{
    config::{ConfigError, LoadedConfig, values},
    node::{callers::ReloadOutcome, run::Node},
    telemetry,
};

const LOG_FILTER: &str = "telemetry.log_filter";

/// The configuration that a running node has.
#[derive(Debug)]
pub struct RunningConfig {
    values: BTreeMap<String, toml::Value>,
}

/// The result of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// Keys whose new values are applied, and the files that were read again.
    pub(crate) applied: Vec<String>,
    /// Keys whose new values need a restart.
    pub(crate) need_restart: Vec<String>,
    /// The reasons why changes were not applied.
    pub(crate) refused: Vec<String>,
}

impl RunningConfig {
    /// The configuration with which the node started.
    ///
    /// # Errors
    /// As [`values`].
    pub fn from(loaded: &LoadedConfig) -> Result<Self, ConfigError> {
        Ok(Self { values: by_key(loaded)? })
    }

    /// Applies possible changes: TLS files, callers' files, and the log filter. A changed secret is not
    /// detected.
    ///
    /// # Errors
    /// Returns the errors of [`values`].
    pub async fn apply(&mut self, node: &Node, loaded: &LoadedConfig) -> Result<ReloadReport, ConfigError> {
        let mut report = ReloadReport::default();
        match node.certificates().map_or(Ok(false), |certificates| certificates.read_again()) {
            Ok(true) => report.applied.push("the files of tls".to_owned()),
            Ok(false) => {}
            Err(error) => report.refused.push(error.to_string()),
        }
        match node.callers_reload().fetch_and_read_again(node.health()).await {
            ReloadOutcome::Applied => report.applied.push("the files of callers".to_owned()),
            ReloadOutcome::Unchanged => {}
            ReloadOutcome::Refused(why) => report.refused.push(why),
        }
        let values = by_key(loaded)?;
        for key in changed(&self.values, &values) {
            if key != LOG_FILTER {
                report.need_restart.push(key);
                continue;
            }
            match telemetry::filter_log(&loaded.config.telemetry.log_filter, None) {
                Ok(_) => report.applied.push(key),
                Err(error) => report.refused.push(format!("{key}: {error}")),
            }
        }
        // The other keys are reported again the next time: their values are not applied yet.
        if let Some(filter) = values.get(LOG_FILTER) {
            self.values.insert(LOG_FILTER.to_owned(), filter.clone());
        }
        Ok(report)
    }
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = |list: &[String]| if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
        write!(f, "taken on: {}; only by a restart: {}", keys(&self.applied), keys(&self.need_restart))?;
        self.refused.iter().try_for_each(|why| write!(f, "; refused: {why}"))
    }
}

fn by_key(loaded: &LoadedConfig) -> Result<BTreeMap<String, toml::Value>, ConfigError> {
    Ok(values(loaded)?.into_iter().map(|value| (value.key, value.value)).collect())
}

/// The keys with different values, or with a value on one side only.
fn changed(before: &BTreeMap<String, toml::Value>, now: &BTreeMap<String, toml::Value>) -> Vec<String> {
    let keys = before.keys().chain(now.keys().filter(|key| !before.contains_key(*key)));
    keys.filter(|key| before.get(*key) != now.get(*key)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_keys_are_named_once_each() {
        let table = |pairs: &[(&str, i64)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), toml::Value::Integer(*value))).collect()
        };
        let (before, now) = (table(&[("a", 1), ("b", 1), ("c", 1)]), table(&[("a", 1), ("b", 2), ("d", 1)]));
        assert_eq!(changed(&before, &now), ["b", "c", "d"]);
    }

    #[test]
    fn result_of_a_reload_is_one_line() {
        let reloaded = ReloadReport {
            applied: vec!["telemetry.log_filter".to_owned()],
            need_restart: vec!["limits.in_flight".to_owned(), "listen".to_owned()],
            refused: vec!["tls.key_file: no".to_owned()],
        };
        let expected = "taken on: telemetry.log_filter; only by a restart: limits.in_flight, listen; refused: tls.key_file: no";
        assert_eq!(reloaded.to_string(), expected);
        assert_eq!(ReloadReport::default().to_string(), "taken on: nothing; only by a restart: nothing");
    }
}
