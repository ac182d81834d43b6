//! The configuration as TOML, each value with where it came from.

use std::fmt::Write as _;

use super::{ConfigError, Loaded};

/// The effective configuration as TOML that can be read again, but for secrets, which are redacted. Behind
/// each value stands where it came from. Absent values are left out.
///
/// # Errors
/// When a value cannot be written as TOML.
pub fn show(loaded: &Loaded) -> Result<String, ConfigError> {
    let text = toml::Table::try_from(&loaded.config).map_err(|error| ConfigError(error.to_string()))?;
    let mut out = String::new();
    table(&mut out, &text, "", loaded);
    Ok(out)
}

fn table(out: &mut String, values: &toml::Table, above: &str, loaded: &Loaded) {
    let path = |key: &str| if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
    for (key, value) in values.iter().filter(|(_, value)| !value.is_table()) {
        let origin = loaded.origins.get(&path(key)).map_or("default", String::as_str);
        line(out, &format!("{key} = {value}"), origin);
    }
    for (key, value) in values {
        if let toml::Value::Table(inner) = value {
            let path = path(key);
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
