//! Encodes records for the shared tier.

use kith_cache::remote::Codec;
use serde::{Serialize, de::DeserializeOwned};

/// Encodes a record as its fields, one after the other, with postcard
/// (<https://postcard.jamesmunns.com/wire-format>).
///
/// A change in a record's fields, their order or their meaning must raise its schema: nodes with another
/// schema treat such bytes as a miss. The tests hold each record's bytes, and fail when they change.
#[derive(Clone, Copy, Debug)]
pub struct RecordCodec {
    schema: u16,
}

impl RecordCodec {
    /// Users: the whole record, which has no secrets.
    pub const USER: Self = Self { schema: 2 };
    /// Encodes users' access records.
    pub const ACCESS: Self = Self { schema: 1 };
    /// Groups, without the invite code.
    pub const GROUP: Self = Self { schema: 4 };
    /// Members. Since 2 with the lowest message number that the member may read.
    pub const MEMBER: Self = Self { schema: 3 };
    /// Encodes group rosters.
    pub const ROSTER: Self = Self { schema: 2 };
    /// Ids in lists and searches.
    pub const ID: Self = Self { schema: 2 };
    /// Encodes follow records.
    pub const FOLLOW: Self = Self { schema: 2 };
    /// Items in follow lists.
    pub const LISTED: Self = Self { schema: 2 };
    /// Encodes block records.
    pub const BLOCK: Self = Self { schema: 2 };
    /// Positions in block lists.
    pub const POSITION: Self = Self { schema: 2 };
    /// Encodes conversation records.
    pub const CONVERSATION: Self = Self { schema: 2 };
    /// Encodes dialog records.
    pub const DIALOG: Self = Self { schema: 2 };
    /// Encodes distributions of online members.
    pub const DISTRIBUTION: Self = Self { schema: 2 };
    /// Encodes audience records.
    pub const AUDIENCE: Self = Self { schema: 2 };
    /// Encodes notice records.
    pub const NOTICE: Self = Self { schema: 2 };
    /// Encodes summaries of reactions.
    pub const REACTION: Self = Self { schema: 1 };
    /// Encodes notice readers.
    pub const READER: Self = Self { schema: 2 };
}

impl<T: Serialize + DeserializeOwned> Codec<T> for RecordCodec {
    fn schema(&self) -> u16 {
        self.schema
    }

    /// Returns nothing, which is a miss, for a value that cannot be encoded: a list with unknown length.
    fn encode(&self, value: &T) -> Vec<u8> {
        postcard::to_allocvec(value).unwrap_or_default()
    }

    fn decode(&self, bytes: &[u8]) -> Option<T> {
        let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
        rest.is_empty().then_some(value)
    }
}

#[cfg(test)]
pub(crate) mod tests;
