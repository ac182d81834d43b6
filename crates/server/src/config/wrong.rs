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
