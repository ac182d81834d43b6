//! Calls about relations in a history, and the relations at its end. A call whose outcome is `RelationOutcome::Open`
//! may have been applied or not; the checker allows both.

use serde::{Deserialize, Serialize};

use super::Level;

/// One call about relations, and its result. A client makes one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationCall {
    /// The caller.
    pub client: u32,
    /// Whether the client stays with one node.
    pub pinned: bool,
    /// Which node was called.
    pub node: u32,
    /// When it was sent.
    pub began: u64,
    /// When its answer came; for [`RelationOutcome::Open`] when it was given up.
    pub ended: u64,
    /// The request.
    pub what: RelationRequest,
    /// The request id of a write; the same for one that is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The result.
    pub outcome: RelationOutcome,
}

/// From one user (first) to another one (second): the first follows the second, or has settings for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge(pub i64, pub i64);

impl Edge {
    /// The edge in the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self(self.1, self.0)
    }
}

/// What a call about relations requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationRequest {
    /// The first user follows the second one.
    Follow(Edge),
    /// The first user stops following the second one.
    Unfollow(Edge),
    /// The first user changes a setting for the second one.
    Set(Edge, Setting),
    /// Both follows, and the settings of the first user.
    Get(Edge, Level),
    /// Whether the settings of the first user grant the second one these permissions, and no block forbids all. Always a
    /// cached read.
    Check(Edge, u8),
    /// A whole list of the user.
    List(i64, Side, Level),
    /// The lengths of both lists of the user.
    Count(i64),
}

/// A list of follows that a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Whom the user follows.
    Following,
    /// Who follows the user.
    Fans,
}

impl Side {
    /// The edge of an entry of such a list.
    #[must_use]
    pub const fn edge(self, owner: i64, other: i64) -> Edge {
        match self {
            Self::Following => Edge(owner, other),
            Self::Fans => Edge(other, owner),
        }
    }
}

/// A change of the settings of one user for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The other one is blocked, and what it follows of the one who blocks ends.
    Block,
    /// The block ends.
    Unblock,
    /// The other one may do these.
    Permissions(u8),
}

/// The settings of one user for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// 0: nothing was ever set. Increases by one with each change.
    pub version: u64,
    /// Whether the other one is blocked.
    pub blocked: bool,
    /// The permissions of the other user; `None`: never set, the default applies.
    pub permissions: Option<u8>,
}

impl Settings {
    /// After this change.
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
    /// The first user follows the second one, with this version.
    Follows(u64),
    /// The follow has ended with this version.
    Ended(u64),
    /// The settings after the change, and whether it ended a follow of the other user.
    Set(Settings, bool),
    /// Both follows, and the settings of the first user.
    Found {
        /// The version of the follow of the first user; `None`: it does not follow.
        follow: Option<u64>,
        /// The same of the second one.
        followed_by: Option<u64>,
        /// The settings of the first user.
        settings: Settings,
    },
    /// Whether all requested permissions are granted, and which are not.
    Allows(bool, u8),
    /// The users in the list, each with the version of the follow.
    Listed(Vec<(i64, u64)>),
    /// How many users it follows, and how many follow it.
    Counted(i64, i64),
    /// Certainly not done; the code is the reason.
    Refused(String),
    /// Done, or not, or still to be done; the code is the reason.
    Open(String),
}

/// The relation of one user to another one at the end, by strong reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeEnd {
    /// Both users.
    pub edge: Edge,
    /// The version of the follow; `None`: there is none.
    pub follow: Option<u64>,
    /// The settings of the first user.
    pub settings: Settings,
}

/// The lists of a user at the end, by strong reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListsEnd {
    /// Whose.
    pub user: i64,
    /// Whom it follows, each with the version of the follow.
    pub following: Vec<(i64, u64)>,
    /// Who follows it.
    pub fans: Vec<(i64, u64)>,
    /// How many it follows, and how many follow it.
    pub counts: (i64, i64),
}
