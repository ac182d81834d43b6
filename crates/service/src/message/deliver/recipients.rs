//! Who gets the messages of a conversation.

use std::{collections::HashMap, sync::Arc};

use kith_cache::Consistency;
use kith_store::{ConversationId, GroupId, MemberStore, Role, UserId, Version};
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

/// Knows the recipients of each conversation.
#[derive(Debug)]
pub(super) struct Recipients {
    roles: Roles,
    store: Arc<dyn MemberStore>,
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
    pub(super) fn new(roles: Roles, store: Arc<dyn MemberStore>, members_max: u32) -> Self {
        Self { roles, store, members_max, lists: Mutex::default() }
    }

    /// The recipients of messages that were appended before this call. The members of a group are read from the store when its
    /// roster has changed.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn of(&self, conversation: ConversationId) -> Result<To, Error> {
        match conversation {
            ConversationId::Direct(one, other) if one == other => Ok(To::Users([one].into())),
            ConversationId::Direct(one, other) => Ok(To::Users([one, other].into())),
            ConversationId::Group(group) => self.of_group(group).await,
        }
    }

    async fn of_group(&self, group: GroupId) -> Result<To, Error> {
        // The roster first: who joins after it is in a list that is read after it.
        let roster = self.roles.roster(group, &Consistency::Cached).await?;
        if roster.count > self.members_max {
            return Ok(To::Registered);
        }
        if let Some(users) = self.known(group, roster.version) {
            return Ok(To::Users(users));
        }
        let users = self.read(group).await?;
        self.keep(group, List { roster: roster.version, users: Arc::clone(&users) });
        Ok(To::Users(users))
    }

    fn known(&self, group: GroupId, roster: Version) -> Option<Arc<[UserId]>> {
        let lists = self.lists.lock();
        lists.get(&group).filter(|list| list.roster == roster).map(|list| Arc::clone(&list.users))
    }

    async fn read(&self, group: GroupId) -> Result<Arc<[UserId]>, Error> {
        // A few more than there may be: some join meanwhile.
        let most = usize::try_from(self.members_max).unwrap_or(usize::MAX).saturating_mul(2);
        let members = self.store.member_list(group, Role::Member, None, most).await;
        let members = members.map_err(|error| Error::store("member", &error))?;
        Ok(members.into_iter().map(|member| member.key.user).collect())
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
