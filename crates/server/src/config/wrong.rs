//! What is said of a value that cannot be taken.

/// A value that cannot be taken, or not beside others.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The key at fault; its source is told.
    pub(super) key: &'static str,
    /// What is wrong and what would be right.
    pub(super) text: String,
}

/// `text` follows the key.
pub(super) fn wrong(key: &'static str, text: &str) -> Result<(), Wrong> {
    Err(Wrong { key, text: format!("{key} {text}") })
}

/// Refuses the first of these keys whose value is 0, as is said beside it.
pub(super) fn above_zero(values: &[(&'static str, bool)]) -> Result<(), Wrong> {
    match values.iter().find(|(_, zero)| *zero) {
        Some((key, _)) => wrong(key, "is 0; it must be above 0"),
        None => Ok(()),
    }
}
