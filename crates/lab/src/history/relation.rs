//! Calls about relations in a history, and the relations at its end. A call whose outcome is `RelationOutcome::Open`
//! may have been applied or not; the checker allows both.

use serde::{Deserialize, Serialize};

use super::Level;

/// One call about relations, and what came of it. A client makes one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationCall {
    /// Who called.
    pub client: u32,
    /// Whether the client stays with one node.
    pub pinned: bool,
    /// Which node was called.
    pub node: u32,
    /// When it was sent.
    pub began: u64,
    /// When its answer came; for [`RelationOutcome::Open`] when it was given up.
    pub ended: u64,
    /// What was asked for.
    pub what: RelationRequest,
    /// By which a write is known when it is sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// What came of it.
    pub outcome: RelationOutcome,
}

/// From one user to another one: who follows whom, or has set something about whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Edge(pub i64, pub i64);

impl Edge {
    /// The edge the other way.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self(self.1, self.0)
    }
}

/// What a call about relations asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationRequest {
    /// The first user follows the second one from now on.
    Follow(Edge),
    /// The follow is taken back.
    Unfollow(Edge),
    /// The first user sets this about the second one.
    Set(Edge, Setting),
    /// All that is between both, as the first one sees it.
    Get(Edge, Level),
    /// Whether what the first user has set about the second one allows the second one these, and whatever needs no
    /// permission; always a cached read.
    Check(Edge, u8),
    /// A whole list of the user.
    List(i64, Side, Level),
    /// How long both lists of the user are.
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

/// What a user sets about another one.
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

/// What one user has set about another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// 0: nothing was ever set; else one above the one before.
    pub version: u64,
    /// Whether the other one is blocked.
    pub blocked: bool,
    /// What was set that the other one may do; `None`: nothing was, and what is so by default holds.
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

    /// What of these the other one may not do; `None`: what is so by default decides.
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

/// What came of a call about relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelationOutcome {
    /// It follows, by a follow of this version.
    Follows(u64),
    /// The follow has ended with this version.
    Ended(u64),
    /// What is set now, and whether a follow of the other one was ended by it.
    Set(Settings, bool),
    /// What is between both.
    Found {
        /// The version of the follow of the first one; `None`: it does not follow.
        follow: Option<u64>,
        /// The same of the second one.
        followed_by: Option<u64>,
        /// What the first one has set.
        settings: Settings,
    },
    /// Whether all that was asked is allowed, and what of it is not.
    Allows(bool, u8),
    /// Who is in the list, each with the version of the follow.
    Listed(Vec<(i64, u64)>),
    /// How many the user follows, and how many follow it.
    Counted(i64, i64),
    /// Certainly not done: the code says why.
    Refused(String),
    /// Done or not, or yet to be done: the code says why.
    Open(String),
}

/// What is from one user to another one at the end, by strong reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeEnd {
    /// From whom to whom.
    pub edge: Edge,
    /// The version of the follow; `None`: there is none.
    pub follow: Option<u64>,
    /// What is set.
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
