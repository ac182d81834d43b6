//! Follows, their lists and counts, and their store.

use std::{fmt, str::FromStr, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Applied, Invalid, StoreError, Stored, Timestamp, UserId, Version, Write};

/// The most follows in one import call.
pub const IMPORT_FOLLOWS_MAX: usize = 1000;

/// A pair: from one user to another. Written as `7,8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge {
    /// The user who follows the other user, or has settings for it.
    pub from: UserId,
    /// The user who is followed, or whom the settings are for.
    pub to: UserId,
}

impl Edge {
    /// Creates the edge from `from` to `to`.
    ///
    /// # Errors
    /// If both are the same user.
    pub fn new(from: UserId, to: UserId) -> Result<Self, Invalid> {
        if from == to {
            return Err(Invalid::new("must be another user"));
        }
        Ok(Self { from, to })
    }

    /// The edge in the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.from, self.to)
    }
}

impl FromStr for Edge {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let both = text.split_once(',');
        let (from, to) = both.ok_or_else(|| Invalid::new("must be two user ids with a comma between"))?;
        Self::new(from.parse()?, to.parse()?)
    }
}

/// A user follows another user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// The pair of users.
    pub edge: Edge,
    /// This state's version.
    pub version: Version,
    /// When the follow began.
    pub since: Timestamp,
    /// The time that decides its place in both lists: not later than its write. A follow that is ended and
    /// soon made again keeps its place, see [`FollowStore::follow`].
    pub placed: Timestamp,
}

impl Follow {
    /// The position in a list: in the list of users whom `edge.from` follows, or the list of `edge.to`'s
    /// fans.
    #[must_use]
    pub const fn position_in(&self, list: FollowList) -> ListPosition {
        let user = match list {
            FollowList::Following => self.edge.to,
            FollowList::Fans => self.edge.from,
        };
        ListPosition { at: self.placed, user }
    }

    /// Bytes that the record takes in memory.
    #[must_use]
    pub const fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

/// An entry's position in a list that begins with the newest: by falling time, for equal times by falling id.
/// Valid for one list only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ListPosition {
    /// The time that decides the place.
    pub at: Timestamp,
    /// The user that it names, besides the list's owner.
    pub user: UserId,
}

/// A list with a user's follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FollowList {
    /// Followed users.
    Following,
    /// The user's fans.
    Fans,
}

impl FollowList {
    /// The edge that the entry `other` stands for in this list of `owner`.
    #[must_use]
    pub const fn edge(self, owner: UserId, other: UserId) -> Edge {
        match self {
            Self::Following => Edge { from: owner, to: other },
            Self::Fans => Edge { from: other, to: owner },
        }
    }
}

/// The lengths of a user's lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowCounts {
    /// Followed users.
    pub following: u64,
    /// How many fans it has.
    pub fans: u64,
}

/// A follow to be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedFollow {
    /// The pair of users.
    pub edge: Edge,
    /// When the follow began.
    pub since: Timestamp,
}

/// Storage for [`Follow`] records and the two lists that show each. A follow and its entries in both lists
/// change together: soon after the last change both lists and the record agree, also after concurrent changes
/// and node deaths.
///
/// An edge's versions rise with each change to it and outlive its end, like those in
/// [`UserStore`](crate::UserStore); they need not be consecutive. Among concurrent changes, the highest
/// version wins.
#[async_trait]
pub trait FollowStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) edges; each once, in any order. Edges that never existed
    /// may be left out.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more edges.
    async fn follows(&self, edges: &[Edge]) -> Result<Vec<(Edge, Stored<Follow>)>, StoreError>;

    /// Makes `edge.from` follow `edge.to`. If it does already, nothing changes and its record is returned. It
    /// becomes the first entry in both lists; but if it ended less than `kept` ago, it gets its former
    /// position. Ignores `write.expected`.
    ///
    /// # Errors
    /// [`StoreError::Blocked`] if `edge.to` has blocked `edge.from`, [`StoreError::RequestMismatch`]; then
    /// this write does not create the follow. For other errors see [`StoreError::outcome`].
    async fn follow(&self, edge: Edge, kept: Duration, write: Write) -> Result<Applied<Follow>, StoreError>;

    /// Ends the follow and returns its last version. Ignores `write.expected`.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not active, [`StoreError::RequestMismatch`]. For other errors see
    /// [`StoreError::outcome`].
    async fn unfollow(&self, edge: Edge, write: Write) -> Result<Applied<Version>, StoreError>;

    /// Reads the active follows in a list of `user`, the newest first, after a position, at most `limit`:
    /// fewer only at its end. Costs the same at any depth.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn follow_list(
        &self,
        user: UserId,
        list: FollowList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<Follow>, StoreError>;

    /// Reads only the positions of the same follows, in the same order: less data, for list comparisons.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn follow_positions(
        &self,
        user: UserId,
        list: FollowList,
        after: Option<ListPosition>,
        limit: usize,
    ) -> Result<Vec<ListPosition>, StoreError> {
        let follows = self.follow_list(user, list, after, limit).await?;
        Ok(follows.iter().map(|follow| follow.position_in(list)).collect())
    }

    /// The list lengths for up to [`BATCH_MAX`](crate::BATCH_MAX) users, in their order. Exact if the lists
    /// have not changed for some seconds.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more users.
    async fn follow_counts(&self, users: &[UserId]) -> Result<Vec<FollowCounts>, StoreError>;

    /// Imports up to [`IMPORT_FOLLOWS_MAX`] follows, with their position at `now`. An edge that exists, or
    /// has existed, is not changed; blocks are not checked. May be repeated: the same call completes what
    /// failed in the middle.
    ///
    /// # Errors
    /// Fails if the store cannot answer; some follows may exist then. [`StoreError::Overloaded`] for more
    /// follows.
    async fn import_follows(&self, follows: &[ImportedFollow], now: Timestamp) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(number: i64) -> UserId {
        UserId::new(number).unwrap()
    }

    #[test]
    fn an_edge_joins_two_users() {
        let edge = Edge::new(user(7), user(8)).unwrap();
        assert_eq!(edge.reversed(), Edge { from: user(8), to: user(7) });
        assert!(Edge::new(user(7), user(7)).is_err());
    }

    #[test]
    fn an_edge_is_read_as_it_is_written() {
        for (from, to) in [(7, 8), (1, i64::MAX)] {
            let edge = Edge::new(user(from), user(to)).unwrap();
            assert_eq!(edge.to_string().parse::<Edge>().unwrap(), edge);
        }
        for text in ["", "7", "7,", ",7", "7,7", "7,8,9", "7, 8", "0,1", "a,b", "7;8"] {
            assert!(text.parse::<Edge>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn positions_of_both_lists_name_the_other_user() {
        let edge = Edge::new(user(7), user(8)).unwrap();
        let at = Timestamp(5);
        let follow = Follow { edge, version: Version::FIRST, since: at, placed: at };
        for (list, owner, other) in [(FollowList::Following, 7, 8), (FollowList::Fans, 8, 7)] {
            assert_eq!(follow.position_in(list), ListPosition { at, user: user(other) });
            assert_eq!(list.edge(user(owner), user(other)), edge);
        }
    }
}
