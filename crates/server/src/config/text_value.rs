//! Texts that no source may give: empty texts, and paths that only a shell would expand.

use figment::value::{Dict, Value};

/// A text that cannot be taken.
#[derive(Debug)]
pub(super) struct InvalidText {
    /// The path of the value's key.
    pub(super) key: String,
    /// Says what is wrong with it, and what to write.
    pub(super) text: String,
}

/// Checks all texts from one source. An empty list is a value.
pub(super) fn check(given: &Dict) -> Result<(), InvalidText> {
    check_section(given, "")
}

fn check_section(given: &Dict, above: &str) -> Result<(), InvalidText> {
    for (name, value) in given {
        let key = format!("{above}{name}");
        match value {
            Value::Dict(_, inner) => check_section(inner, &format!("{key}."))?,
            Value::String(_, text) => check_text(key, text)?,
            _ => {}
        }
    }
    Ok(())
}

fn check_text(key: String, text: &str) -> Result<(), InvalidText> {
    if text.trim().is_empty() {
        let text = format!("{key} is empty; give it a value, or leave it out");
        return Err(InvalidText { key, text });
    }
    if is_path(&key) && text.starts_with('~') {
        let text = format!("{key} begins with ~, which only a shell expands; write the whole path");
        return Err(InvalidText { key, text });
    }
    Ok(())
}

/// Whether this key's value names a file or folder.
fn is_path(key: &str) -> bool {
    key.ends_with("_file") || ["data_dir", "termination_log", "ephemeral.seed"].contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(key: &str, text: &str) -> Option<String> {
        let Value::Dict(_, given) = figment::util::nest(key, Value::from(text)) else { return None };
        check(&given).err().map(|wrong| wrong.text)
    }

    #[test]
    fn empty_texts_are_refused_in_any_section() {
        for key in ["data_dir", "store.mongodb.database", "telemetry.log_filter"] {
            let expected = format!("{key} is empty; give it a value, or leave it out");
            assert_eq!(why(key, ""), Some(expected.clone()));
            assert_eq!(why(key, " "), Some(expected));
        }
    }

    #[test]
    fn a_tilde_is_refused_in_paths_alone() {
        for key in ["data_dir", "tls.key_file", "store.mongodb.uri_file", "ephemeral.seed"] {
            assert!(why(key, "~/kith").is_some_and(|why| why.starts_with(&format!("{key} begins with ~"))));
            assert_eq!(why(key, "./~kith"), None);
        }
        assert_eq!(why("store.cql.password", "~hunter2"), None);
    }
}
