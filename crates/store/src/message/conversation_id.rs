//! Conversation ids.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{GroupId, Invalid, UserId};

const FORM: Invalid =
    Invalid::fixed("must be d, two user ids with a hyphen between, as d7-8, or g and a group id, as g9");

/// Identifies a conversation. It is derived from the participants, so nothing has to be looked up or created.
///
/// The text form is `d7-8` (two users, smaller id first; `d7-7` is notes to oneself) or `g9` (a group). It
/// has at most 40 characters and exactly one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ConversationId {
    /// Belongs to two users; the first id is not above the second. Made by [`ConversationId::direct`].
    Direct(UserId, UserId),
    /// Belongs to a group.
    Group(GroupId),
    /// A log of Kith's own, which lists users who had no receiver when a message was delivered: `o0` to `o3`.
    /// It is parsed by [`ConversationId::stored`] alone, so that no caller can name it.
    Offline(u8),
}

impl ConversationId {
    /// All logs that list users without a receiver.
    pub const OFFLINE: [Self; 4] = [Self::Offline(0), Self::Offline(1), Self::Offline(2), Self::Offline(3)];

    /// The direct conversation between two users, in any order.
    #[must_use]
    pub fn direct(one: UserId, other: UserId) -> Self {
        Self::Direct(one.min(other), one.max(other))
    }

    /// Whether it is a direct conversation with this user in it.
    #[must_use]
    pub fn is_direct_of(self, user: UserId) -> bool {
        matches!(self, Self::Direct(one, other) if one == user || other == user)
    }

    /// The log that lists users without a receiver for messages in this conversation: always the same log.
    #[must_use]
    pub const fn offline_log(self) -> Self {
        let id = match self {
            Self::Group(group) => group.get(),
            Self::Direct(one, other) => one.get() ^ other.get(),
            Self::Offline(_) => return self,
        };
        match id & 3 {
            0 => Self::OFFLINE[0],
            1 => Self::OFFLINE[1],
            2 => Self::OFFLINE[2],
            _ => Self::OFFLINE[3],
        }
    }

    /// The conversation that a store has under this text.
    ///
    /// # Errors
    /// The text is no id.
    pub fn stored(text: &str) -> Result<Self, Invalid> {
        let is_text_of = |log: &&Self| log.to_string() == text;
        Self::OFFLINE.iter().find(is_text_of).map_or_else(|| text.parse(), |log| Ok(*log))
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(one, other) => write!(f, "d{one}-{other}"),
            Self::Group(group) => write!(f, "g{group}"),
            Self::Offline(log) => write!(f, "o{log}"),
        }
    }
}

impl FromStr for ConversationId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Ok(match text.split_at_checked(1) {
            Some(("d", users)) => {
                let (one, other) = users.split_once('-').ok_or(FORM)?;
                let (one, other) = (one.parse().map_err(|_| FORM)?, other.parse().map_err(|_| FORM)?);
                if one > other {
                    return Err(Invalid::fixed("must have the smaller user id first"));
                }
                Self::Direct(one, other)
            }
            Some(("g", group)) => Self::Group(group.parse().map_err(|_| FORM)?),
            _ => return Err(FORM),
        })
    }
}

impl TryFrom<String> for ConversationId {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<ConversationId> for String {
    fn from(id: ConversationId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_spelling() {
        for text in ["d7-8", "d7-7", "g9", "d1-9223372036854775807"] {
            assert_eq!(text.parse::<ConversationId>().unwrap().to_string(), text);
        }
        for text in ["", "d", "g", "d7", "d8-7", "d7-", "d-7", "d0-7", "d7--8", "d7-8-9", "g0", "g-9", "g9 "]
        {
            assert!(text.parse::<ConversationId>().is_err(), "{text}");
        }
        for text in ["d+7-8", "d07-8", "g+9", "g09", "D7-8", "x9", "o0", "ö7", "9", "g9223372036854775808"] {
            assert!(text.parse::<ConversationId>().is_err(), "{text}");
        }
    }

    #[test]
    fn logs_of_kith_are_read_from_stores_alone() {
        for log in ConversationId::OFFLINE {
            let text = log.to_string();
            assert_eq!(ConversationId::stored(&text).unwrap(), log);
            assert!(text.parse::<ConversationId>().is_err(), "{text}");
        }
        assert_eq!(ConversationId::stored("g9").unwrap().to_string(), "g9");
        assert!(ConversationId::stored("o4").is_err());
        let logs: Vec<_> =
            ["g4", "g5", "d2-4", "d1-4"].map(|id| id.parse::<ConversationId>().unwrap().offline_log()).into();
        assert_eq!(logs.iter().map(ToString::to_string).collect::<Vec<_>>(), ["o0", "o1", "o2", "o1"]);
    }

    #[test]
    fn direct_conversation_is_the_same_for_both() {
        let (ann, bea) = (UserId::new(8).unwrap(), UserId::new(7).unwrap());
        assert_eq!(ConversationId::direct(ann, bea), ConversationId::direct(bea, ann));
        assert_eq!(ConversationId::direct(ann, bea).to_string(), "d7-8");
        assert!(ConversationId::direct(ann, bea).is_direct_of(ann));
    }
}
