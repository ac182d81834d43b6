//! Calls about relations in a history, and the relations at its end. A call whose outcome is
//! `RelationOutcome::Open` may have been applied or not; the checker allows both.

use serde::{Deserialize, Serialize};

use super::Level;

/// A call about relations, and its result. A client makes its calls in sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationCall {
    /// The calling client.
    pub client: u32,
    /// Whether the client stays with one node.
    pub pinned: bool,
    /// Which node was called.
    pub node: u32,
    /// When it was sent.
    pub began: u64,
    /// When its answer came; for [`RelationOutcome::Open`] when it was given up.
    pub ended: u64,
    /// The request that was sent.
    pub what: RelationRequest,
    /// A write's request id. A repeated write has the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The call's result.
    pub outcome: RelationOutcome,
}

/// An edge from one user (first) to another (second): the first follows the second, or has settings for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge(pub i64, pub i64);

impl Edge {
    /// The edge in the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self(self.1, self.0)
    }
}

/// A request about relations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationRequest {
    /// The first user follows the second.
    Follow(Edge),
    /// The first user stops following the second.
    Unfollow(Edge),
    /// The first user changes a setting for the second.
    Set(Edge, Setting),
    /// Both follows, and the first user's settings.
    Get(Edge, Level),
    /// Whether the first user's settings grant the second these permissions, and no block forbids all. Always
    /// a cached read.
    Check(Edge, u8),
    /// The user's whole list.
    List(i64, Side, Level),
    /// The lengths of both lists that the user has.
    Count(i64),
}

/// A list of follows that a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The users whom the user follows.
    Following,
    /// The users who follow the user.
    Fans,
}

impl Side {
    /// The edge that an entry in such a list stands for.
    #[must_use]
    pub const fn edge(self, owner: i64, other: i64) -> Edge {
        match self {
            Self::Following => Edge(owner, other),
            Self::Fans => Edge(other, owner),
        }
    }
}

/// A change to one user's settings for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The other user is blocked, and its follow of the blocking user ends.
    Block,
    /// The block ends.
    Unblock,
    /// The other user has these permissions.
    Permissions(u8),
}

/// One user's settings for another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The version. 0: nothing was ever set. Increases by 1 with each change.
    pub version: u64,
    /// Whether the other user is blocked.
    pub blocked: bool,
    /// The other user's permissions; `None`: never set, the default applies.
    pub permissions: Option<u8>,
}

impl Settings {
    /// Returns the settings after this change.
    #[must_use]
    pub const fn with(self, setting: Setting) -> Self {
        let version = self.version + 1;
        match setting {
            Setting::Block => Self { version, blocked: true, ..self },
            Setting::Unblock => Self { version, blocked: false, ..self },
            Setting::Permissions(permissions) => Self { version, permissions: Some(permissions), ..self },
        }
    }

    /// Which of these permissions the other user lacks; `None`: the default decides.
    #[must_use]
    pub const fn denied(self, asked: u8) -> Option<u8> {
        match self.permissions {
            _ if self.blocked => Some(asked),
            Some(permissions) => Some(asked & !permissions),
            None if asked == 0 => Some(0),
            None => None,
        }
    }
}

/// The result of a call about relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationOutcome {
    /// The first user follows the second, with this version.
    Follows(u64),
    /// The follow has ended with this version.
    Ended(u64),
    /// The settings after the change, and whether it ended the other user's follow.
    Set(Settings, bool),
    /// Both follows, and the first user's settings.
    Found {
        /// The version of the first user's follow; `None`: it does not follow.
        follow: Option<u64>,
        /// The version of the second user's follow; `None`: it does not follow.
        followed_by: Option<u64>,
        /// The first user's settings.
        settings: Settings,
    },
    /// Whether all requested permissions are granted, and which are not.
    Allows(bool, u8),
    /// The users in the list, each with the follow's version.
    Listed(Vec<(i64, u64)>),
    /// How many users it follows, and how many follow it.
    Counted(i64, i64),
    /// Certainly not done; the code is the reason.
    Refused(String),
    /// Done, or not, or still to be done; the code is the reason.
    Open(String),
}

/// One user's relation to another at the end, by strong reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeEnd {
    /// The edge's users.
    pub edge: Edge,
    /// The follow's version; `None`: there is no follow.
    pub follow: Option<u64>,
    /// The first user's settings.
    pub settings: Settings,
}

/// A user's lists at the end, by strong reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListsEnd {
    /// The user with these lists.
    pub user: i64,
    /// The users it follows, each with the follow's version.
    pub following: Vec<(i64, u64)>,
    /// The users who follow it, each with the follow's version.
    pub fans: Vec<(i64, u64)>,
    /// How many it follows, and how many follow it.
    pub counts: (i64, i64),
}
