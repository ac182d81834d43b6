//! A conversation's recipients.

use std::{collections::HashMap, fmt::Debug, sync::Arc};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{ConversationId, GroupId, MemberStore, Role, Roster, UserId, Version};
use parking_lot::Mutex;

use crate::{error::Error, group::member::Roles};

/// Most groups whose members are cached.
const LISTS_MAX: usize = 10_000;

/// A message's recipients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeliveryTargets {
    /// The inboxes for these users, each once.
    Users(Arc<[UserId]>),
    /// The nodes that read the conversation.
    Registered,
}

/// The group members.
#[async_trait]
pub(super) trait GroupMembers: Debug + Send + Sync {
    /// The roster. Sees every acknowledged change.
    async fn roster(&self, group: GroupId) -> Result<Roster, Error>;

    /// Reads the members from the store, at most `most`.
    async fn members(&self, group: GroupId, most: usize) -> Result<Vec<UserId>, Error>;

    /// The members among these users. Sees every acknowledged change.
    async fn members_among(&self, group: GroupId, users: Vec<UserId>) -> Result<Vec<UserId>, Error>;
}

/// Members by their strict rosters and the store.
#[derive(Debug)]
struct StoredMembers {
    roles: Roles,
    store: Arc<dyn MemberStore>,
}

/// Determines each conversation's recipients.
#[derive(Debug)]
pub struct Recipients {
    groups: Arc<dyn GroupMembers>,
    /// The largest group whose messages go to inboxes.
    members_max: u32,
    lists: Mutex<HashMap<GroupId, GroupRecipients>>,
}

/// A group's members. Has all members at its roster version.
#[derive(Clone, Debug)]
struct GroupRecipients {
    roster: Version,
    users: Arc<[UserId]>,
}

impl Recipients {
    /// Creates it over these strict rosters and this store. Messages in groups with more than `members_max`
    /// members go to no inbox: nodes that read their conversations are woken.
    #[must_use]
    pub fn stored(roles: Roles, members: Arc<dyn MemberStore>, members_max: u32) -> Self {
        Self::new(Arc::new(StoredMembers { roles, store: members }), members_max)
    }

    pub(super) fn new(groups: Arc<dyn GroupMembers>, members_max: u32) -> Self {
        Self { groups, members_max, lists: Mutex::default() }
    }

    /// The recipients of messages that were appended before this call. A group's members are read from the
    /// store when its roster has changed.
    pub(super) async fn of(&self, conversation: ConversationId) -> Result<DeliveryTargets, Error> {
        match conversation {
            ConversationId::Direct(one, other) if one == other => Ok(DeliveryTargets::Users([one].into())),
            ConversationId::Direct(one, other) => Ok(DeliveryTargets::Users([one, other].into())),
            ConversationId::Group(group) => self.of_group(group).await,
            ConversationId::Offline(_) => Ok(DeliveryTargets::Users([].into())),
        }
    }

    /// Returns how many members a group has.
    pub(super) async fn count(&self, group: GroupId) -> Result<u32, Error> {
        Ok(self.groups.roster(group).await?.count)
    }

    /// Returns who among these users receives a group's messages.
    pub(super) async fn members_among(
        &self,
        conversation: ConversationId,
        users: Vec<UserId>,
    ) -> Result<Vec<UserId>, Error> {
        match conversation {
            ConversationId::Group(group) if !users.is_empty() => {
                self.groups.members_among(group, users).await
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn of_group(&self, group: GroupId) -> Result<DeliveryTargets, Error> {
        // The roster first: who joins after it is in a list that is read after it.
        let roster = self.groups.roster(group).await?;
        if roster.count > self.members_max {
            return Ok(DeliveryTargets::Registered);
        }
        if let Some(users) = self.known(group, roster.version) {
            return Ok(DeliveryTargets::Users(users));
        }
        // A few more than the limit: some may join in between.
        let most = usize::try_from(self.members_max).unwrap_or(usize::MAX).saturating_mul(2);
        let users: Arc<[UserId]> = self.groups.members(group, most).await?.into();
        self.keep(group, GroupRecipients { roster: roster.version, users: Arc::clone(&users) });
        Ok(DeliveryTargets::Users(users))
    }

    fn known(&self, group: GroupId, roster: Version) -> Option<Arc<[UserId]>> {
        let lists = self.lists.lock();
        lists.get(&group).filter(|list| list.roster == roster).map(|list| Arc::clone(&list.users))
    }

    fn keep(&self, group: GroupId, list: GroupRecipients) {
        let mut lists = self.lists.lock();
        if lists.len() >= LISTS_MAX && !lists.contains_key(&group) {
            // Drops an arbitrary group: it is read again if necessary.
            let other = lists.keys().next().copied();
            other.map(|other| lists.remove(&other));
        }
        lists.insert(group, list);
    }
}

#[async_trait]
impl GroupMembers for StoredMembers {
    async fn roster(&self, group: GroupId) -> Result<Roster, Error> {
        self.roles.roster(group, &Consistency::Cached).await
    }

    async fn members(&self, group: GroupId, most: usize) -> Result<Vec<UserId>, Error> {
        let members = self.store.member_list(group, Role::Member, None, most).await;
        let members = members.map_err(|error| Error::store("member", &error))?;
        Ok(members.into_iter().map(|member| member.key.user).collect())
    }

    async fn members_among(&self, group: GroupId, users: Vec<UserId>) -> Result<Vec<UserId>, Error> {
        self.roles.members_among(group, users).await
    }
}
