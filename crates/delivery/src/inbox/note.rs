//! Notes: what an inbox holds in addition to messages.

use kith_store::{ApplicationKey, ConversationId, GroupId, Seq, UserId};

/// An entry of an inbox other than messages. Notes may be lost; the dialog, the lists and the relation log are
/// authoritative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Note {
    /// The user's read mark of a conversation rose.
    Dialog {
        /// The conversation.
        conversation: ConversationId,
        /// The mark.
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
        /// The group.
        group: GroupId,
    },
    /// The user left the group, or was removed from it.
    GroupLeft {
        /// The group.
        group: GroupId,
    },
    /// The role or the mute of the user in the group has changed, or the mute of all its members, or a
    /// setting of the group.
    GroupChanged {
        /// The group.
        group: GroupId,
    },
    /// An application of the user, or to it or a group that it leads, was made, decided or withdrawn.
    Application(ApplicationKey),
}
