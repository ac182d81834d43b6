//! Notifies receivers about changes besides messages: notes about relations, memberships and dialogs, and
//! peers' read marks. They may be lost.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_delivery::Note;
use kith_store::{
    ApplicationKey, ConversationId, DialogKey, Edge, GroupId, MemberKey, MemberStore, Receipt, Role, Seq,
    UserId,
};
use tokio::time::sleep;

use super::{
    Inboxes,
    deliver::inboxes_unavailable,
    group_changes::{NOTED_EVERY, NotedChanges},
    inboxes::ReceivingNodes,
    receive,
};
use crate::{
    application::ApplicationListener,
    dialog::DialogRecords,
    error::Error,
    group::{
        GroupListener,
        member::{MembershipEvent, MembershipListener},
    },
    metric::SIGNALS,
    relation::{DoNotDisturbListener, FollowListener},
};

/// Notifies users' receivers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Notes {
    pub(super) inboxes: Inboxes,
    dialogs: DialogRecords,
    members: Arc<dyn MemberStore>,
    /// The largest group whose changes are noted to its members.
    members_max: usize,
    noted: Arc<NotedChanges<GroupId>>,
}

impl Notes {
    /// Creates it over these inboxes. A group change is noted to all its `members`, if they are at most
    /// `members_max`.
    #[must_use]
    pub fn new(
        inboxes: Inboxes,
        dialogs: DialogRecords,
        members: Arc<dyn MemberStore>,
        members_max: usize,
    ) -> Self {
        Self { inboxes, dialogs, members, members_max, noted: Arc::default() }
    }

    /// A user has read up to this number, or has changed dialog settings.
    pub(super) fn dialog_changed(&self, key: DialogKey, read_seq: Seq) {
        self.inboxes.note(vec![key.user], Note::Dialog { conversation: key.conversation, read_seq });
    }

    /// The other user of a direct conversation has read up to this number.
    pub(super) fn peer_read(&self, key: DialogKey, peer: UserId, read_seq: Seq) {
        metrics::counter!(SIGNALS.name, "kind" => "read").increment(1);
        self.inboxes.signal(vec![key.user], &receive::read_to_bytes(key.conversation, peer, read_seq));
    }

    /// Which users receive now, for [`Self::receipts`].
    ///
    /// # Errors
    /// UNAVAILABLE if Redis does not answer.
    pub(crate) async fn receiving(&self, users: &[UserId]) -> Result<ReceivingNodes, Error> {
        self.inboxes.keeper.receiving(users).await.map_err(|_| inboxes_unavailable())
    }

    /// Tells senders, who receive at these nodes, how many users have read their messages.
    pub(crate) fn receipts(
        &self,
        conversation: ConversationId,
        of: &BTreeMap<UserId, Vec<Receipt>>,
        nodes: &ReceivingNodes,
    ) {
        metrics::counter!(SIGNALS.name, "kind" => "receipts")
            .increment(u64::try_from(of.len()).unwrap_or(u64::MAX));
        self.inboxes.signal_at(nodes, |sender| {
            of.get(&sender).map(|receipts| receive::receipts_to_bytes(conversation, sender, receipts))
        });
    }

    /// Notes a group change to its members, in the background, unless it has too many. If there are several
    /// changes, the first is noted at once, and the last soon.
    fn group_changed(&self, group: GroupId) {
        if !self.noted.changed(group) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            loop {
                this.note_members(group).await;
                sleep(NOTED_EVERY).await;
                if !this.noted.goes_on(&group) {
                    return;
                }
            }
        });
    }

    async fn note_members(&self, group: GroupId) {
        let most = self.members_max.saturating_add(1);
        match self.members.member_list(group, Role::Member, None, most).await {
            Ok(members) if members.len() < most => {
                let users = members.into_iter().map(|member| member.key.user).collect();
                self.inboxes.note(users, Note::GroupChanged { group });
            }
            Ok(_) => {}
            Err(_) => tracing::debug!("a change of a group is not noted: its members cannot be read"),
        }
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
            MembershipEvent::OwnerChanged { group, owner, former, .. } => {
                let users = former.iter().copied().chain([*owner]).collect();
                Some((users, Note::GroupChanged { group: *group }))
            }
            MembershipEvent::Demoted(members) | MembershipEvent::Changed(members) => {
                Self::of_members(members)
            }
            MembershipEvent::AllMuted(_) | MembershipEvent::Dismissed(_) => None,
        }
    }

    /// The members are one group's members.
    fn of_members(members: &[MemberKey]) -> Option<(Vec<UserId>, Note)> {
        let group = members.first()?.group;
        Some((members.iter().map(|member| member.user).collect(), Note::GroupChanged { group }))
    }
}

#[async_trait]
impl MembershipListener for Notes {
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error> {
        if let Some((users, note)) = Self::of(event) {
            self.inboxes.note(users, note);
        }
        if let MembershipEvent::AllMuted(group) = event {
            self.group_changed(*group);
        }
        Ok(())
    }
}

impl GroupListener for Notes {
    fn changed(&self, group: GroupId) {
        self.group_changed(group);
    }
}

impl ApplicationListener for Notes {
    fn changed(&self, users: Vec<UserId>, application: ApplicationKey) {
        self.inboxes.note(users, Note::Application(application));
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
    /// In a direct conversation, this is the setting that a group's dialog has.
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
