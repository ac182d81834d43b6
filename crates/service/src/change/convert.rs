//! Changes between wire and store.

use kith_proto::change::v1 as wire;
use kith_store::{DOCUMENT, Edge, FeedChange, FeedRecord, SeqRange, Version};

use crate::{
    error::{Error, Reason},
    rpc::rights::{Rights, Scope, scope_missing},
};

/// The most changes in a page.
const LIMIT: usize = 1_000;

/// All kinds, with the scope to read each.
const KINDS: [(wire::ChangeKind, Scope); 12] = [
    (wire::ChangeKind::User, Scope::UserRead),
    (wire::ChangeKind::Group, Scope::GroupRead),
    (wire::ChangeKind::Member, Scope::MemberRead),
    (wire::ChangeKind::Roster, Scope::MemberRead),
    (wire::ChangeKind::Follow, Scope::RelationRead),
    (wire::ChangeKind::Block, Scope::RelationRead),
    (wire::ChangeKind::Messages, Scope::MessageRead),
    (wire::ChangeKind::Conversation, Scope::MessageRead),
    (wire::ChangeKind::Dialog, Scope::MessageRead),
    (wire::ChangeKind::Audience, Scope::NoticeRead),
    (wire::ChangeKind::Notice, Scope::NoticeRead),
    (wire::ChangeKind::Reaction, Scope::MessageRead),
];

/// The kinds that a reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kinds {
    bits: u32,
    /// Whether the reader named dialogs: they may not be kept.
    pub(super) names_dialogs: bool,
}

impl Kinds {
    /// The kinds that a caller with these rights asks for; all that it may read if it names none.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for an unknown kind; PERMISSION_DENIED with the scope that is missing.
    pub(super) fn asked(kinds: &[i32], rights: Rights) -> Result<Self, Error> {
        if kinds.is_empty() {
            return Self::readable(rights);
        }
        let mut asked = Self { bits: 0, names_dialogs: false };
        for kind in kinds {
            let known = KINDS.iter().find(|(known, _)| *known as i32 == *kind);
            let (kind, scope) =
                known.ok_or_else(|| Error::invalid("kinds", "must be kinds of ChangeKind"))?;
            if !rights.has(*scope) {
                return Err(scope_missing(*scope));
            }
            asked.bits |= bit(*kind);
            asked.names_dialogs |= *kind == wire::ChangeKind::Dialog;
        }
        Ok(asked)
    }

    /// The kinds of these changes.
    pub(super) fn of(changes: &[FeedChange]) -> Self {
        let bits = changes.iter().fold(0, |bits, change| bits | bit(kind(&change.record)));
        Self { bits, names_dialogs: false }
    }

    /// Whether a kind is in both.
    pub(super) const fn has_any(self, other: Self) -> bool {
        self.bits & other.bits != 0
    }

    pub(super) const fn has(self, kind: wire::ChangeKind) -> bool {
        self.bits & bit(kind) != 0
    }

    fn readable(rights: Rights) -> Result<Self, Error> {
        let readable = KINDS.iter().filter(|(_, scope)| rights.has(*scope));
        let bits = readable.fold(0, |bits, (kind, _)| bits | bit(*kind));
        if bits == 0 {
            let text = "the caller may read no kind: it needs a scope such as user:read";
            return Err(Error::new(Reason::ScopeMissing, text).with("scope", Scope::UserRead.text()));
        }
        Ok(Self { bits, names_dialogs: false })
    }
}

/// The page's size.
///
/// # Errors
/// INVALID_ARGUMENT outside its limits.
pub(super) fn limit(asked: i32) -> Result<usize, Error> {
    match usize::try_from(asked) {
        Ok(0) => Ok(LIMIT),
        Ok(limit) if limit <= LIMIT => Ok(limit),
        _ => Err(Error::invalid("limit", &format!("must be from 0 to {LIMIT}; 0 means {LIMIT}"))),
    }
}

/// The kind of a record. Changed documents are their messages.
pub(super) const fn kind(record: &FeedRecord) -> wire::ChangeKind {
    match record {
        FeedRecord::User(_) => wire::ChangeKind::User,
        FeedRecord::Group(_) => wire::ChangeKind::Group,
        FeedRecord::Follow(_) => wire::ChangeKind::Follow,
        FeedRecord::Block(_) => wire::ChangeKind::Block,
        FeedRecord::Member(_) => wire::ChangeKind::Member,
        FeedRecord::Roster(_) => wire::ChangeKind::Roster,
        FeedRecord::Dialog(_) => wire::ChangeKind::Dialog,
        FeedRecord::Conversation(_) => wire::ChangeKind::Conversation,
        FeedRecord::Document(_) | FeedRecord::Messages(..) => wire::ChangeKind::Messages,
        FeedRecord::Audience(_) => wire::ChangeKind::Audience,
        FeedRecord::Notice(_) => wire::ChangeKind::Notice,
        FeedRecord::Reactions(_) => wire::ChangeKind::Reaction,
    }
}

pub(super) fn to_wire(position: String, change: &FeedChange) -> wire::Change {
    let base = wire::Change {
        position,
        kind: kind(&change.record).into(),
        version: change.version.map_or(0, Version::get),
        by_hand: change.by_hand,
        ..wire::Change::default()
    };
    match change.record {
        FeedRecord::User(user) => wire::Change { user_id: user.get(), ..base },
        FeedRecord::Group(group) | FeedRecord::Roster(group) => {
            wire::Change { group_id: group.get(), ..base }
        }
        FeedRecord::Follow(Edge { from, to }) | FeedRecord::Block(Edge { from, to }) => {
            wire::Change { user_id: from.get(), other_user_id: to.get(), ..base }
        }
        FeedRecord::Member(key) => {
            wire::Change { group_id: key.group.get(), user_id: key.user.get(), ..base }
        }
        FeedRecord::Dialog(key) => {
            wire::Change { user_id: key.user.get(), conversation_id: key.conversation.to_string(), ..base }
        }
        FeedRecord::Conversation(id) => wire::Change { conversation_id: id.to_string(), ..base },
        FeedRecord::Document(key) | FeedRecord::Reactions(key) => {
            let first = key.document * DOCUMENT + 1;
            let conversation_id = key.conversation.to_string();
            // A document's version is no version of a message.
            wire::Change {
                conversation_id,
                first_seq: first,
                last_seq: first + DOCUMENT - 1,
                version: 0,
                ..base
            }
        }
        FeedRecord::Messages(id, SeqRange { first, last }) => {
            wire::Change { conversation_id: id.to_string(), first_seq: first, last_seq: last, ..base }
        }
        FeedRecord::Audience(id) => wire::Change { audience_id: id.get(), ..base },
        FeedRecord::Notice(id) => wire::Change { notice_id: id.get(), ..base },
    }
}

const fn bit(kind: wire::ChangeKind) -> u32 {
    1 << kind as i32
}

#[cfg(test)]
mod tests {
    use kith_store::{ConversationId, DocumentKey};

    use super::*;
    use crate::sample::{group_id, user};

    #[test]
    fn changed_document_is_its_messages() {
        let conversation = ConversationId::Group(group_id(9));
        let record = FeedRecord::Document(DocumentKey { conversation, document: 2 });
        let change = FeedChange { record, version: Version::new(5), by_hand: true };
        let wire = to_wire("p".into(), &change);
        assert_eq!((wire.kind(), wire.by_hand, wire.version), (wire::ChangeKind::Messages, true, 0));
        assert_eq!((wire.conversation_id.as_str(), wire.first_seq, wire.last_seq), ("g9", 201, 300));
    }

    #[test]
    fn edge_names_both_users() {
        let record = FeedRecord::Follow(Edge { from: user(8), to: user(7) });
        let wire = to_wire("p".into(), &FeedChange { record, version: None, by_hand: false });
        assert_eq!((wire.user_id, wire.other_user_id, wire.version), (8, 7, 0));
    }
}
