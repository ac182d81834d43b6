//! A value of the configuration that cannot be taken.

/// A value that cannot be taken, or not beside others.
#[derive(Debug)]
pub struct InvalidValue {
    /// The key at fault; its source is reported.
    pub key: &'static str,
    /// What is wrong and what would be right.
    pub text: String,
}

/// Refuses the value of a key; `text` follows the key.
///
/// # Errors
/// Always.
pub fn wrong(key: &'static str, text: &str) -> Result<(), InvalidValue> {
    Err(InvalidValue { key, text: format!("{key} {text}") })
}

/// Refuses the first of these keys whose value is 0, as is said beside it.
///
/// # Errors
/// When one is 0.
pub fn above_zero(values: &[(&'static str, bool)]) -> Result<(), InvalidValue> {
    match values.iter().find(|(_, zero)| *zero) {
        Some((key, _)) => wrong(key, "is 0; it must be above 0"),
        None => Ok(()),
    }
}
