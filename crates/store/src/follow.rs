use std::{fmt, str::FromStr, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{Applied, Invalid, StoreError, Stored, Timestamp, UserId, Version, Write};

/// Most follows in one call of an import.
pub const IMPORT_FOLLOWS_MAX: usize = 1000;

/// From one user to another one. Written as `7,8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge {
    /// Who follows, or says something of the other one.
    pub from: UserId,
    /// Who is followed, or spoken of.
    pub to: UserId,
}

impl Edge {
    /// From `from` to `to`.
    ///
    /// # Errors
    /// When they are one user.
    pub fn new(from: UserId, to: UserId) -> Result<Self, Invalid> {
        if from == to {
            return Err(Invalid::new("must be another user"));
        }
        Ok(Self { from, to })
    }

    /// The edge the other way.
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

/// One user follows another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follow {
    /// Who follows whom.
    pub edge: Edge,
    /// Of this state.
    pub version: Version,
    /// Since when, without a break.
    pub since: Timestamp,
    /// When it took its place in the lists of both: not later than what it was written at. A follow that is taken back and
    /// made again soon keeps its place, see [`FollowStore::follow`].
    pub placed: Timestamp,
}

impl Follow {
    /// The position in a list: that of the users whom `edge.from` follows, or that of the fans of `edge.to`.
    #[must_use]
    pub const fn place_in(&self, list: FollowList) -> Place {
        let user = match list {
            FollowList::Following => self.edge.to,
            FollowList::Fans => self.edge.from,
        };
        Place { at: self.placed, user }
    }

    /// Bytes that the record takes in memory.
    #[must_use]
    pub const fn weight(&self) -> usize {
        size_of::<Self>()
    }
}

/// The position of an entry in a list that begins with the newest: by falling time, for equal times by falling id. Of
/// no other list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Place {
    /// When the entry took its place.
    pub at: Timestamp,
    /// The user that it names, besides the owner of the list.
    pub user: UserId,
}

/// A list of follows that a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FollowList {
    /// Whom the user follows.
    Following,
    /// Who follows the user.
    Fans,
}

impl FollowList {
    /// The edge of the entry `other` in this list of `owner`.
    #[must_use]
    pub const fn edge(self, owner: UserId, other: UserId) -> Edge {
        match self {
            Self::Following => Edge { from: owner, to: other },
            Self::Fans => Edge { from: other, to: owner },
        }
    }
}

/// How long the lists of a user are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowCounts {
    /// Whom the user follows.
    pub following: u64,
    /// Who follows the user.
    pub fans: u64,
}

/// A follow that is brought in from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportedFollow {
    /// Who follows whom.
    pub edge: Edge,
    /// Since when.
    pub since: Timestamp,
}

/// Storage of [`Follow`] records and of the two lists of each. A follow and its entries in both lists change together:
/// soon after the last change both lists and the record agree, under any concurrency and whichever node died in
/// between.
///
/// Versions of an edge rise with each change of it and outlive its end, as those of [`UserStore`](crate::UserStore);
/// they need not be consecutive. Of concurrent changes, the highest version wins.
#[async_trait]
pub trait FollowStore: Send + Sync + fmt::Debug + 'static {
    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) edges; each once, in any order. Those that never were may be left out.
    ///
    /// # Errors
    /// When the store cannot answer; [`StoreError::Overloaded`] for more edges.
    async fn follows(&self, edges: &[Edge]) -> Result<Vec<(Edge, Stored<Follow>)>, StoreError>;

    /// Makes `edge.from` follow `edge.to`. If it does already, nothing changes and its record is returned. It becomes
    /// the first of both lists; but if it ended less than `kept` ago, it gets its former position. Ignores
    /// `write.expected`.
    ///
    /// # Errors
    /// [`StoreError::Blocked`] if `edge.to` has blocked `edge.from`, [`StoreError::RequestMismatch`]; then this write
    /// does not create the follow. Else see [`StoreError::outcome`].
    async fn follow(&self, edge: Edge, kept: Duration, write: Write) -> Result<Applied<Follow>, StoreError>;

    /// Takes the follow back and answers its last version. `write.expected` is not looked at.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] where it does not live, [`StoreError::RequestMismatch`]. Else see [`StoreError::outcome`].
    async fn unfollow(&self, edge: Edge, write: Write) -> Result<Applied<Version>, StoreError>;

    /// Reads the living follows of a list of `user`, the newest first, after a place, at most `limit`: fewer only at its
    /// end. Costs the same at any depth.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn follow_list(
        &self,
        user: UserId,
        list: FollowList,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Follow>, StoreError>;

    /// Reads of the same follows only where they stand, in the same order: less to read, for who compares lists.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn follow_places(
        &self,
        user: UserId,
        list: FollowList,
        after: Option<Place>,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        let follows = self.follow_list(user, list, after, limit).await?;
        Ok(follows.iter().map(|follow| follow.place_in(list)).collect())
    }

    /// How many living follows the lists of each of up to [`BATCH_MAX`](crate::BATCH_MAX) users have, in the order of the
    /// users: exact once nothing of them has changed for some seconds.
    ///
    /// # Errors
    /// When the store cannot answer; [`StoreError::Overloaded`] for more users.
    async fn follow_counts(&self, users: &[UserId]) -> Result<Vec<FollowCounts>, StoreError>;

    /// Imports up to [`IMPORT_FOLLOWS_MAX`] follows, with their position at `now`. An edge that exists, or has existed,
    /// is not changed; blocks are not checked. May be repeated: the same call completes what failed in the middle.
    ///
    /// # Errors
    /// If the store cannot answer, some of the follows may exist. [`StoreError::Overloaded`] for more follows.
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
    fn places_of_both_lists_name_the_other_user() {
        let edge = Edge::new(user(7), user(8)).unwrap();
        let at = Timestamp(5);
        let follow = Follow { edge, version: Version::FIRST, since: at, placed: at };
        for (list, owner, other) in [(FollowList::Following, 7, 8), (FollowList::Fans, 8, 7)] {
            assert_eq!(follow.place_in(list), Place { at, user: user(other) });
            assert_eq!(list.edge(user(owner), user(other)), edge);
        }
    }
}
