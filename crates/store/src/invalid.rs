//! The reason why a value is invalid.

use std::borrow::Cow;

/// Why a value is invalid, as a phrase that follows the field's name: "must be above 0". Never repeats the
/// value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(Cow<'static, str>);

impl Invalid {
    /// Makes a reason from a phrase.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }

    /// A constant reason.
    pub(crate) const fn fixed(reason: &'static str) -> Self {
        Self(Cow::Borrowed(reason))
    }
}
