//! Invalid configuration values.

use std::{
    fmt::{Debug, Display},
    ops::RangeInclusive,
};

/// An invalid value, alone or in combination with others.
#[derive(Debug)]
pub struct InvalidValue {
    /// The invalid key; its source is reported.
    pub key: &'static str,
    /// The violated rule, and valid values.
    pub text: String,
}

/// Refuses a key's value; `text` follows the key.
///
/// # Errors
/// Always.
pub fn refuse(key: &'static str, text: &str) -> Result<(), InvalidValue> {
    Err(InvalidValue { key, text: format!("{key} {text}") })
}

/// Refuses the first key whose rule does not hold, with the rule's text.
///
/// # Errors
/// If a rule does not hold.
pub fn all_hold(rules: &[(&'static str, bool, &str)]) -> Result<(), InvalidValue> {
    match rules.iter().find(|(_, holds, _)| !holds) {
        Some((key, _, rule)) => refuse(key, rule),
        None => Ok(()),
    }
}

/// Refuses a key's value outside this range.
///
/// # Errors
/// If it is outside.
pub fn within<T: Copy + Display + PartialOrd>(
    key: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), InvalidValue> {
    if range.contains(&value) {
        return Ok(());
    }
    refuse(key, &format!("is {value}; it must be from {} to {}", range.start(), range.end()))
}

/// Refuses a key's value that breaks its rule. `rule` follows "it must".
///
/// # Errors
/// If the rule is broken.
pub fn must(is_kept: bool, key: &'static str, value: impl Debug, rule: &str) -> Result<(), InvalidValue> {
    if is_kept { Ok(()) } else { refuse(key, &format!("is {value:?}; it must {rule}")) }
}

/// Refuses the first key whose value is 0.
///
/// # Errors
/// If a value is 0.
pub fn above_zero(values: &[(&'static str, bool)]) -> Result<(), InvalidValue> {
    match values.iter().find(|(_, zero)| *zero) {
        Some((key, _)) => refuse(key, "is 0; it must be above 0"),
        None => Ok(()),
    }
}
