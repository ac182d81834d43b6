//! The common part of the encodings of records in the shared tier.

use kith_store::Params;
use prost::Message;

/// A parameter of a record.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Param {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

impl Param {
    /// Key and value.
    pub(crate) fn into_pair(self) -> (String, String) {
        (self.key, self.value)
    }
}

/// All parameters, by key.
pub(crate) fn packed_params(params: &Params) -> Vec<Param> {
    params.iter().map(|(key, value)| Param { key: key.to_owned(), value: value.to_owned() }).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use kith_store::Text;
    use proptest::prelude::*;

    use super::*;

    /// Any text, short or long.
    pub(crate) fn text() -> impl Strategy<Value = Text> {
        ".{0,40}".prop_map(Text::from)
    }

    /// Any parameters.
    pub(crate) fn params() -> impl Strategy<Value = Params> {
        prop::collection::btree_map("[a-z][a-z0-9_]{0,9}", ".{0,30}", 0..5)
            .prop_map(|map| map.into_iter().collect())
    }

    /// Reads the bytes, and every beginning of them.
    pub(crate) fn assert_none_when_cut<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Option<T>) {
        assert!(decode(bytes).is_some());
        assert!((0..bytes.len()).all(|end| decode(&bytes[..end]).is_none()));
    }
}
