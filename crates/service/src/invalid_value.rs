//! Invalid values of the configuration.

/// An invalid value, alone or in combination with others.
#[derive(Debug)]
pub struct InvalidValue {
    /// The invalid key; its source is reported.
    pub key: &'static str,
    /// The violated rule, and valid values.
    pub text: String,
}

/// Refuses the value of a key; `text` follows the key.
///
/// # Errors
/// Always.
pub fn wrong(key: &'static str, text: &str) -> Result<(), InvalidValue> {
    Err(InvalidValue { key, text: format!("{key} {text}") })
}

/// Refuses the first of these keys whose value is 0, with the text beside it.
///
/// # Errors
/// If one is 0.
pub fn above_zero(values: &[(&'static str, bool)]) -> Result<(), InvalidValue> {
    match values.iter().find(|(_, zero)| *zero) {
        Some((key, _)) => wrong(key, "is 0; it must be above 0"),
        None => Ok(()),
    }
}
