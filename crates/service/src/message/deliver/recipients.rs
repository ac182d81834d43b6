//! Who gets the messages of a conversation.

use std::{collections::HashMap, fmt::Debug, sync::Arc};

use async_trait::async_trait;
use kith_cache::Consistency;
use kith_store::{ConversationId, GroupId, MemberStore, Role, Roster, UserId, Version};
use parking_lot::Mutex;

use crate::{error::Error, group::members::Roles};

/// Most groups whose members are kept in memory.
const LISTS_MAX: usize = 10_000;

/// To whom a message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// To the inboxes of these users, without doubles.
    Users(Arc<[UserId]>),
    /// To the nodes that read the conversation.
    Registered,
}

/// Who is in groups.
#[async_trait]
pub(super) trait GroupMembers: Debug + Send + Sync {
    /// What is true of all members. Never older than what was acknowledged.
    ///
    /// # Errors
    /// Those of a failing store.
    async fn roster(&self, group: GroupId) -> Result<Roster, Error>;

    /// Reads the members from the store, at most `most`.
    ///
    /// # Errors
    /// Those of a failing store.
    async fn members(&self, group: GroupId, most: usize) -> Result<Vec<UserId>, Error>;

    /// Those of these users who are members. Never older than what was acknowledged.
    ///
    /// # Errors
    /// Those of a failing store.
    async fn members_among(&self, group: GroupId, users: Vec<UserId>) -> Result<Vec<UserId>, Error>;
}

/// Members by their strict rosters and the store.
#[derive(Debug)]
struct StoredMembers {
    roles: Roles,
    store: Arc<dyn MemberStore>,
}

/// Knows the recipients of each conversation.
#[derive(Debug)]
pub struct Recipients {
    groups: Arc<dyn GroupMembers>,
    /// Most members of a group whose messages go to inboxes.
    members_max: u32,
    lists: Mutex<HashMap<GroupId, List>>,
}

/// The members of a group. Has all of those of its version of the roster.
#[derive(Clone, Debug)]
struct List {
    roster: Version,
    users: Arc<[UserId]>,
}

impl Recipients {
    /// By these strict rosters and this store. Messages of groups with more than `members_max` members go to no inbox: nodes that
    /// read their conversations are woken.
    #[must_use]
    pub fn stored(roles: Roles, members: Arc<dyn MemberStore>, members_max: u32) -> Self {
        Self::new(Arc::new(StoredMembers { roles, store: members }), members_max)
    }

    pub(super) fn new(groups: Arc<dyn GroupMembers>, members_max: u32) -> Self {
        Self { groups, members_max, lists: Mutex::default() }
    }

    /// The recipients of messages that were appended before this call. The members of a group are read from the store when its
    /// roster has changed.
    ///
    /// # Errors
    /// Those of a failing store.
    pub(super) async fn of(&self, conversation: ConversationId) -> Result<To, Error> {
        match conversation {
            ConversationId::Direct(one, other) if one == other => Ok(To::Users([one].into())),
            ConversationId::Direct(one, other) => Ok(To::Users([one, other].into())),
            ConversationId::Group(group) => self.of_group(group).await,
            ConversationId::Offline(_) => Ok(To::Users([].into())),
        }
    }

    /// How many members a group has.
    ///
    /// # Errors
    /// Those of a failing store.
    pub(super) async fn count(&self, group: GroupId) -> Result<u32, Error> {
        Ok(self.groups.roster(group).await?.count)
    }

    /// Those of these users who are recipients of messages of a group.
    ///
    /// # Errors
    /// Those of a failing store.
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

    async fn of_group(&self, group: GroupId) -> Result<To, Error> {
        // The roster first: who joins after it is in a list that is read after it.
        let roster = self.groups.roster(group).await?;
        if roster.count > self.members_max {
            return Ok(To::Registered);
        }
        if let Some(users) = self.known(group, roster.version) {
            return Ok(To::Users(users));
        }
        // A few more than there may be: some join meanwhile.
        let most = usize::try_from(self.members_max).unwrap_or(usize::MAX).saturating_mul(2);
        let users: Arc<[UserId]> = self.groups.members(group, most).await?.into();
        self.keep(group, List { roster: roster.version, users: Arc::clone(&users) });
        Ok(To::Users(users))
    }

    fn known(&self, group: GroupId, roster: Version) -> Option<Arc<[UserId]>> {
        let lists = self.lists.lock();
        lists.get(&group).filter(|list| list.roster == roster).map(|list| Arc::clone(&list.users))
    }

    fn keep(&self, group: GroupId, list: List) {
        let mut lists = self.lists.lock();
        if lists.len() >= LISTS_MAX && !lists.contains_key(&group) {
            // Any one of them: it is read again if it is needed.
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
