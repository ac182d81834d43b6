//! Settings that users make for others, and their store.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Applied, Edge, Invalid, ListPosition, StoreError, Stored, Text, Timestamp, UserId, Version, Write,
    heap_bytes, single_line,
};

const REMARK_CHARS_MAX: usize = 64;

/// The permissions that a user gives another user: a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Permissions(u8);

impl Permissions {
    /// May see the posts.
    pub const VIEW_POST: Self = Self(1);
    /// May see the location.
    pub const LOCATION: Self = Self(2);
    /// May like posts.
    pub const LIKE: Self = Self(4);
    /// May comment on posts.
    pub const COMMENT: Self = Self(8);
    /// May share posts.
    pub const SHARE: Self = Self(16);
    /// May send friend requests.
    pub const ADD_FRIEND: Self = Self(32);
    /// Gives no permission.
    pub const NONE: Self = Self(0);
    /// All permissions.
    pub const ALL: Self = Self(63);

    /// Makes a set from these bits.
    ///
    /// # Errors
    /// If other bits are set.
    pub fn new(bits: u32) -> Result<Self, Invalid> {
        match u8::try_from(bits) {
            Ok(bits) if bits & !Self::ALL.0 == 0 => Ok(Self(bits)),
            _ => Err(Invalid::new("must be a sum of 1, 2, 4, 8, 16 and 32")),
        }
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all permissions in `asked` are set.
    #[must_use]
    pub const fn allow(self, asked: Self) -> bool {
        self.0 & asked.0 == asked.0
    }
}

impl TryFrom<u8> for Permissions {
    type Error = Invalid;

    fn try_from(bits: u8) -> Result<Self, Invalid> {
        Self::new(bits.into())
    }
}

impl From<Permissions> for u8 {
    fn from(permissions: Permissions) -> Self {
        permissions.bits()
    }
}

/// A user's settings for another user: those that `edge.from` made for `edge.to`. The first setting creates
/// the record, and it ends only with one of the users. A setting that was never set, or was reset, has its
/// default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The pair of users.
    pub edge: Edge,
    /// This state's version: the previous version plus 1.
    pub version: Version,
    /// When the other user was blocked; `None`: not blocked. A block prevents messages, recommendations and
    /// new follows.
    pub blocked: Option<Timestamp>,
    /// The other user's permissions; `None`: the default. Kept during and after a block.
    pub permissions: Option<Permissions>,
    /// When notifications about the other user's actions were turned off; `None`: they are on.
    pub do_not_disturb: Option<Timestamp>,
    /// The private name for the other user; empty: none.
    pub remark: Text,
    /// When it was changed last.
    pub updated: Timestamp,
}

impl Block {
    /// The record with no setting.
    #[must_use]
    pub fn unset(edge: Edge) -> Self {
        Self {
            edge,
            version: Version::NONE,
            blocked: None,
            permissions: None,
            do_not_disturb: None,
            remark: Text::default(),
            updated: Timestamp(0),
        }
    }

    /// Checks a remark: one line with at most 64 characters, see [`single_line`].
    ///
    /// # Errors
    /// When it is longer, or contains a character that is not allowed.
    pub fn remark(remark: &str) -> Result<Text, Invalid> {
        single_line(remark, REMARK_CHARS_MAX)
    }

    /// The record after a change, with the next version. A setting that is set already keeps its time.
    #[must_use]
    pub fn patched(&self, patch: &BlockPatch, now: Timestamp) -> Self {
        let flag = |before: Option<Timestamp>, to: Option<bool>| match to {
            None => before,
            Some(true) => before.or(Some(now)),
            Some(false) => None,
        };
        Self {
            edge: self.edge,
            version: self.version.next(),
            blocked: flag(self.blocked, patch.blocked),
            permissions: patch.permissions.unwrap_or(self.permissions),
            do_not_disturb: flag(self.do_not_disturb, patch.do_not_disturb),
            remark: patch.remark.as_ref().unwrap_or(&self.remark).clone(),
            updated: now,
        }
    }

    /// The record's position in a list; `None`: not in it.
    #[must_use]
    pub fn position_in(&self, list: BlockList) -> Option<ListPosition> {
        let at = match list {
            BlockList::Blocked => self.blocked,
            BlockList::DoNotDisturb => self.do_not_disturb,
            BlockList::All => Some(Timestamp(0)),
        };
        at.map(|at| ListPosition { at, user: self.edge.to })
    }

    /// The record's approximate size in memory, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + heap_bytes(&self.remark)
    }
}

/// A partial change: `None` leaves a field unchanged. Values are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPatch {
    /// Whether the other user is blocked.
    pub blocked: Option<bool>,
    /// The other user's permissions; `Some(None)`: the default.
    pub permissions: Option<Option<Permissions>>,
    /// Whether the user is not notified.
    pub do_not_disturb: Option<bool>,
    /// The remark, as [`Block::remark`] checks it.
    pub remark: Option<Text>,
}

impl BlockPatch {
    /// A change that blocks or unblocks.
    #[must_use]
    pub fn blocked(blocked: bool) -> Self {
        Self { blocked: Some(blocked), ..Self::default() }
    }
}

/// Lists a user's settings for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BlockList {
    /// Lists blocked users.
    Blocked,
    /// Users with do-not-disturb.
    DoNotDisturb,
    /// All users for whom something was ever set, by falling id. All positions have the same time.
    All,
}

/// The result after a [`Block`] changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockChange {
    /// The record as the change left it.
    pub block: Block,
    /// The last version of the follow that the block ended (`edge.to` follows `edge.from`); `None`: there was
    /// none.
    pub cut: Option<Version>,
}

/// Storage for [`Block`] records and their lists, which change in the same step.
#[async_trait]
pub trait BlockStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) records; each once, in any order. Records that never
    /// existed may be left out. Sees every change that was acknowledged before it began.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more edges.
    async fn blocks(&self, edges: &[Edge]) -> Result<Vec<(Edge, Stored<Block>)>, StoreError>;

    /// Changes only the fields that `patch` names, in one atomic step; creates the record if there is none. A
    /// user who is blocked by it no longer follows when the call returns. If the node dies in between,
    /// another node ends the follow.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if `write.expected` is not the version ([`Version::NONE`]: no record),
    /// [`StoreError::RequestMismatch`]: then nothing is changed. For other errors see
    /// [`StoreError::outcome`].
    async fn set_block(
        &self,
        edge: Edge,
        patch: BlockPatch,
        write: Write,
    ) -> Result<Applied<BlockChange>, StoreError>;

    /// Reads the records in a list of `user`, the newest first, after a position, at most `limit`: fewer only
    /// at its end.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn block_list(
        &self,
        user: UserId,
        list: BlockList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<Block>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bits_are_not_deserialized() {
        assert_eq!(serde_json::from_str::<Permissions>("63").unwrap(), Permissions::ALL);
        assert!(serde_json::from_str::<Permissions>("64").is_err());
    }

    #[test]
    fn permissions_are_sums_of_known_bits() {
        assert_eq!(Permissions::new(0), Ok(Permissions::NONE));
        assert_eq!(Permissions::new(63), Ok(Permissions::ALL));
        for bits in [64, 65, 128, 256, u32::MAX] {
            assert!(Permissions::new(bits).is_err(), "{bits}");
        }
    }

    #[test]
    fn permissions_allow_what_is_wholly_among_them() {
        let some = Permissions::new(5).unwrap();
        assert!(some.allow(Permissions::VIEW_POST) && some.allow(some) && some.allow(Permissions::NONE));
        assert!(!some.allow(Permissions::LOCATION) && !some.allow(Permissions::ALL));
    }

    #[test]
    fn what_is_set_already_keeps_its_moment() {
        let edge = Edge::new(UserId::new(1).unwrap(), UserId::new(2).unwrap()).unwrap();
        let block = BlockPatch { blocked: Some(true), ..BlockPatch::default() };
        let first = Block::unset(edge).patched(&block, Timestamp(5));
        let again = first.patched(&block, Timestamp(9));
        assert_eq!(
            (again.blocked, again.updated, again.version.get()),
            (Some(Timestamp(5)), Timestamp(9), 2)
        );
        let lifted = again.patched(&BlockPatch { blocked: Some(false), ..block }, Timestamp(10));
        assert_eq!((lifted.blocked, lifted.position_in(BlockList::Blocked)), (None, None));
    }

    #[test]
    fn remarks_are_short_and_plain() {
        assert!(Block::remark("").is_ok() && Block::remark(&"é".repeat(64)).is_ok());
        assert!(Block::remark(&"a".repeat(65)).is_err() && Block::remark("a\u{202E}b").is_err());
    }
}
