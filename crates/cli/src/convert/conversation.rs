//! The names of conversations.

use super::{Conversion, groups::ConvertedGroups, ids::IdKind, people::People};

/// A conversation that is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ConvertedConversation {
    Direct(i64, i64),
    Group(i64),
}

impl ConvertedConversation {
    /// Reads `si_ANN_BOB` or `sg_GROUP`; `None`: it has other members, or is of notifications.
    pub(super) fn of(
        all: &Conversion,
        people: &People,
        groups: &ConvertedGroups,
        name: &str,
    ) -> Option<Self> {
        if let Some(group) = name.strip_prefix("sg_") {
            return all.ids.of(IdKind::Group, group).filter(|group| groups.has(*group)).map(Self::Group);
        }
        let users = name.strip_prefix("si_")?;
        let user = |id: &str| all.ids.of(IdKind::User, id).filter(|user| people.has(*user));
        // An id may have an underscore.
        let both = |at: usize| Some((user(&users[..at])?, user(&users[at + 1..])?));
        let (one, other) = users.match_indices('_').find_map(|(at, _)| both(at))?;
        Some(Self::Direct(one.min(other), one.max(other)))
    }

    /// The name in Kith.
    pub(super) fn id(self) -> String {
        match self {
            Self::Direct(one, other) => format!("d{one}-{other}"),
            Self::Group(group) => format!("g{group}"),
        }
    }

    /// Whether the user takes part.
    pub(super) fn has(self, groups: &ConvertedGroups, user: i64) -> bool {
        match self {
            Self::Direct(one, other) => user == one || user == other,
            Self::Group(group) => groups.has_member(group, user),
        }
    }
}
