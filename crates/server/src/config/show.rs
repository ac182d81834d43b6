//! The configuration as TOML, each value with where it came from.

use std::fmt::Write as _;

use serde::Serialize;

use super::{ConfigError, LoadedConfig};

/// A configured value.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigValue {
    /// The key's path: `limits.in_flight`.
    pub key: String,
    /// The value as TOML shows it. Secrets are redacted.
    pub value: toml::Value,
    /// Where it came from: `default`, or the name of the file, the variable or the flag.
    pub origin: String,
}

/// Returns every value by its path, in the order that [`show`] has. Absent values are left out.
///
/// # Errors
/// When a value cannot be written as TOML.
pub fn values(loaded: &LoadedConfig) -> Result<Vec<ConfigValue>, ConfigError> {
    let mut values = Vec::new();
    collect(&text(loaded)?, "", loaded, &mut values);
    Ok(values)
}

/// Formats the effective configuration as TOML that can be read again, except for secrets, which are
/// redacted. Each value is followed by its origin. Absent values are left out.
///
/// # Errors
/// If a value cannot be written as TOML.
pub fn show(loaded: &LoadedConfig) -> Result<String, ConfigError> {
    let mut out = String::new();
    table(&mut out, &text(loaded)?, "", loaded);
    Ok(out)
}

fn text(loaded: &LoadedConfig) -> Result<toml::Table, ConfigError> {
    toml::Table::try_from(&loaded.config).map_err(|error| ConfigError(error.to_string()))
}

fn path(above: &str, key: &str) -> String {
    if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") }
}

fn origin<'a>(loaded: &'a LoadedConfig, path: &str) -> &'a str {
    loaded.origins.get(path).map_or("default", String::as_str)
}

fn collect(table: &toml::Table, above: &str, loaded: &LoadedConfig, into: &mut Vec<ConfigValue>) {
    let (sections, values): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_table());
    for (key, value) in values {
        let key = path(above, key);
        let origin = origin(loaded, &key).to_owned();
        into.push(ConfigValue { key, value: value.clone(), origin });
    }
    for (key, value) in sections {
        if let toml::Value::Table(inner) = value {
            collect(inner, &path(above, key), loaded, into);
        }
    }
}

fn table(out: &mut String, values: &toml::Table, above: &str, loaded: &LoadedConfig) {
    for (key, value) in values.iter().filter(|(_, value)| !value.is_table()) {
        line(out, &format!("{key} = {value}"), origin(loaded, &path(above, key)));
    }
    for (key, value) in values {
        if let toml::Value::Table(inner) = value {
            let path = path(above, key);
            line(out, &format!("\n[{path}]"), "");
            table(out, inner, &path, loaded);
        }
    }
}

fn line(out: &mut String, text: &str, origin: &str) {
    let written =
        if origin.is_empty() { writeln!(out, "{text}") } else { writeln!(out, "{text} # {origin}") };
    debug_assert!(written.is_ok(), "writing to a text cannot fail");
}
