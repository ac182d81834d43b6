use std::borrow::Cow;

/// Why a value cannot be taken, in words that follow the name of the field: "must be above 0".
/// Never repeats the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(Cow<'static, str>);

impl Invalid {
    /// A reason.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Self {
        Self(reason.into())
    }

    /// A reason that is known beforehand.
    pub(crate) const fn fixed(reason: &'static str) -> Self {
        Self(Cow::Borrowed(reason))
    }
}
