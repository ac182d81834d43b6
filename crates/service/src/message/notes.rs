//! Notifications of receivers besides messages: notes about relations, memberships and dialogs, and read marks of
//! peers. They may be lost.

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_delivery::Note;
use kith_store::{ConversationId, DialogKey, Edge, Receipt, Seq, UserId};

use super::{Inboxes, receive};
use crate::{
    dialog::DialogRecords,
    error::Error,
    group::members::{MembershipEvent, MembershipListener},
    metric::SIGNALS,
    relation::{DoNotDisturbListener, FollowListener},
};

/// Notifies the receivers of users. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Notes {
    inboxes: Inboxes,
    dialogs: DialogRecords,
}

impl Notes {
    /// Creates it over these inboxes.
    #[must_use]
    pub const fn new(inboxes: Inboxes, dialogs: DialogRecords) -> Self {
        Self { inboxes, dialogs }
    }

    /// A user has read up to this number, or has changed settings of a dialog.
    pub(super) fn dialog_changed(&self, key: DialogKey, read_seq: Seq) {
        self.inboxes.note(vec![key.user], Note::Dialog { conversation: key.conversation, read_seq });
    }

    /// The other user of a direct conversation has read up to this number.
    pub(super) fn peer_read(&self, key: DialogKey, peer: UserId, read_seq: Seq) {
        metrics::counter!(SIGNALS.name, "kind" => "read").increment(1);
        self.inboxes.signal(vec![key.user], receive::read_to_bytes(key.conversation, peer, read_seq));
    }

    /// This many users have read these messages of a user.
    pub(crate) fn receipts(&self, sender: UserId, conversation: ConversationId, receipts: &[Receipt]) {
        metrics::counter!(SIGNALS.name, "kind" => "receipts").increment(1);
        self.inboxes.signal(vec![sender], receive::receipts_to_bytes(conversation, sender, receipts));
    }

    fn of(event: &MembershipEvent) -> Option<(Vec<UserId>, Note)> {
        match event {
            MembershipEvent::Joined { group, members, .. } => {
                let users = members.iter().map(|member| member.key.user).collect();
                Some((users, Note::GroupJoined { group: *group }))
            }
            MembershipEvent::Left { group, users, .. } => {
                Some((users.clone(), Note::GroupLeft { group: *group }))
            }
            MembershipEvent::OwnerChanged { .. }
            | MembershipEvent::Demoted(_)
            | MembershipEvent::Dismissed(_) => None,
        }
    }
}

#[async_trait]
impl MembershipListener for Notes {
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error> {
        if let Some((users, note)) = Self::of(event) {
            self.inboxes.note(users, note);
        }
        Ok(())
    }
}

impl FollowListener for Notes {
    fn followed(&self, edge: Edge) {
        self.inboxes.note(vec![edge.to], Note::ContactAdded { user: edge.from });
    }

    fn unfollowed(&self, edge: Edge) {
        self.inboxes.note(vec![edge.to], Note::ContactEnded { user: edge.from });
    }
}

impl DoNotDisturbListener for Notes {
    /// In a direct conversation this is what the dialog of a group has.
    fn do_not_disturb_changed(&self, edge: Edge) {
        let key = DialogKey { user: edge.from, conversation: ConversationId::direct(edge.from, edge.to) };
        let this = self.clone();
        tokio::spawn(async move {
            if let Ok(dialog) = this.dialogs.get(key, &Consistency::Cached).await {
                this.dialog_changed(key, dialog.read.read_seq());
            }
        });
    }
}
