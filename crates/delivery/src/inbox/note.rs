//! Notes: what an inbox holds in addition to messages.

use kith_store::{ApplicationKey, ConversationId, GroupId, Seq, UserId};

/// An inbox entry other than messages. Notes may be lost; the dialog, the lists and the relation log are
/// authoritative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Note {
    /// The user's read mark in a conversation rose.
    Dialog {
        /// The conversation.
        conversation: ConversationId,
        /// The read mark's number.
        read_seq: Seq,
    },
    /// The other user became a contact.
    ContactAdded {
        /// The other user.
        user: UserId,
    },
    /// The other user is no contact any more.
    ContactEnded {
        /// The other user.
        user: UserId,
    },
    /// The user joined the group, or was added to it.
    GroupJoined {
        /// The group joined.
        group: GroupId,
    },
    /// The user left the group, or was removed from it.
    GroupLeft {
        /// The group left.
        group: GroupId,
    },
    /// The user's role or mute in the group has changed, or the mute for all its members, or a group setting.
    GroupChanged {
        /// The changed group.
        group: GroupId,
    },
    /// An application by the user, or to it or a group that it leads, was made, decided or withdrawn.
    Application(ApplicationKey),
}
