//! The encoding of records in the shared tier.

use kith_cache::remote::Codec;
use serde::{Serialize, de::DeserializeOwned};

/// Encodes a record as its fields, one after the other, with postcard (<https://postcard.jamesmunns.com/wire-format>).
///
/// A change of a record's fields, of their order or of their meaning must raise its schema: nodes with
/// another schema treat such bytes as a miss. The tests hold each record's bytes, and fail when they change.
#[derive(Clone, Copy, Debug)]
pub struct RecordCodec {
    schema: u16,
}

impl RecordCodec {
    /// Users: the whole record, which has no secrets.
    pub const USER: Self = Self { schema: 2 };
    /// The access of users.
    pub const ACCESS: Self = Self { schema: 1 };
    /// Groups, without the invite code.
    pub const GROUP: Self = Self { schema: 3 };
    /// Members. Since 2 with the lowest number of a message that the member may read.
    pub const MEMBER: Self = Self { schema: 3 };
    /// Rosters.
    pub const ROSTER: Self = Self { schema: 2 };
    /// Ids in lists and searches.
    pub const ID: Self = Self { schema: 2 };
    /// Follows.
    pub const FOLLOW: Self = Self { schema: 2 };
    /// Items of lists of follows.
    pub const LISTED: Self = Self { schema: 2 };
    /// Blocks.
    pub const BLOCK: Self = Self { schema: 2 };
    /// Positions in lists of blocks.
    pub const POSITION: Self = Self { schema: 2 };
    /// Conversations.
    pub const CONVERSATION: Self = Self { schema: 2 };
    /// Dialogs.
    pub const DIALOG: Self = Self { schema: 2 };
    /// Distributions of online members.
    pub const DISTRIBUTION: Self = Self { schema: 2 };
    /// Audiences.
    pub const AUDIENCE: Self = Self { schema: 2 };
    /// Notices.
    pub const NOTICE: Self = Self { schema: 2 };
    /// Readers of notices.
    pub const READER: Self = Self { schema: 2 };
}

impl<T: Serialize + DeserializeOwned> Codec<T> for RecordCodec {
    fn schema(&self) -> u16 {
        self.schema
    }

    /// Nothing, which is a miss, for a value that cannot be encoded: a list of unknown length.
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
