//! Names for nodes.

use std::{fmt, str::FromStr, sync::Arc};

use crate::Invalid;

/// The most characters in a name.
const LENGTH_MAX: usize = 64;

/// The name of a node that has receivers: 1 to 64 of `[A-Za-z0-9._-]`. Each start gives a node a new name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NodeName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > LENGTH_MAX || !text.bytes().all(is_allowed) {
            return Err(Invalid::new("must be 1 to 64 letters, digits, '.', '_' or '-'"));
        }
        Ok(Self(text.into()))
    }
}
