//! User roles in groups, by which rights are checked.

use std::sync::Arc;

use futures::FutureExt as _;
use kith_cache::{Consistency, Entry, LoadError, Policy, TieredCache};
use kith_store::{Group, GroupId, Member, MemberKey, Role, Roster, Stored, UserId, Version};

use crate::{
    domain_context::DomainContext,
    error::Error,
    rpc::{
        call::Principal,
        versions::{loaded, loaded_all},
    },
    user::{Users, account_begins},
    write::record_codec::RecordCodec,
};

/// Members and rosters through this node's tiers; both namespaces are strict. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Roles {
    pub(super) members: TieredCache<MemberKey, Member>,
    pub(super) rosters: TieredCache<GroupId, Roster>,
    users: Users,
}

impl Roles {
    /// Creates it with its own namespaces in the caches.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        members: Policy<Member>,
        rosters: Policy<Roster>,
        users: &Users,
    ) -> Self {
        let DomainContext { stores, caches, .. } = context;
        let store = &stores.members;
        // Every read of the store sees all changes that were acknowledged before it, not only a strong one.
        Self {
            members: caches.records(members, RecordCodec::MEMBER, store, |store, keys, _| {
                async move { loaded_all(store.members(keys).await) }.boxed()
            }),
            rosters: caches.records(rosters, RecordCodec::ROSTER, store, |store, groups, _| {
                async move {
                    let found = store.rosters(groups).await.map_err(LoadError::new)?;
                    Ok(groups.iter().copied().zip(found.into_iter().map(stored).map(loaded)).collect())
                }
                .boxed()
            }),
            users: users.clone(),
        }
    }

    /// A group's roster. Sees every acknowledged change.
    pub(crate) async fn roster(&self, group: GroupId, consistency: &Consistency) -> Result<Roster, Error> {
        let entry = self.rosters.get_with(&group, consistency).await;
        let entry = entry.map_err(|error| Error::cache("roster", &error))?;
        Ok(entry.map(|entry| *entry.value).unwrap_or_default())
    }

    /// The members among these users, in their order. Sees every acknowledged change.
    pub(crate) async fn members_among(
        &self,
        group: GroupId,
        users: Vec<UserId>,
    ) -> Result<Vec<UserId>, Error> {
        let keys: Vec<MemberKey> = users.into_iter().map(|user| MemberKey { group, user }).collect();
        let found = self.members.get_many(&keys, &Consistency::Cached).await;
        let member = |(found, key): (Result<Option<Entry<Member>>, _>, &MemberKey)| match found {
            Ok(member) => member.map(|_| Ok(key.user)),
            Err(error) => Some(Err(Error::cache("member", &error))),
        };
        found.into_iter().zip(&keys).filter_map(member).collect()
    }

    /// Returns a user's role in a group; `None`: not a member. Sees every acknowledged change.
    ///
    /// # Errors
    /// Returns the store's errors.
    pub async fn of(&self, group: &Group, user: UserId) -> Result<Option<Role>, Error> {
        let key = MemberKey { group: group.id, user };
        let member = self.members.get_with(&key, &Consistency::Cached).await;
        if let Some(member) = member.map_err(|error| Error::cache("member", &error))? {
            return Ok(Some(member.value.role));
        }
        let owns = group.creator == Some(user) && self.provisional_owner(group).await?.is_some();
        Ok(owns.then_some(Role::Owner))
    }

    /// The creator, if the group has neither members nor an owner: it counts as the owner then.
    pub(super) async fn provisional_owner(&self, group: &Group) -> Result<Option<UserId>, Error> {
        if group.creator.is_none() || self.was_founded(group.id).await? {
            return Ok(None);
        }
        self.creator(group).await
    }

    /// A group's creator; `None`: it has none, or another account has the creator's id now.
    pub(super) async fn creator(&self, group: &Group) -> Result<Option<UserId>, Error> {
        let Some(creator) = group.creator else { return Ok(None) };
        let account = self.users.created(creator, &Consistency::Cached).await?;
        let is_other = account.is_some_and(|created| account_begins(created) > group.created);
        Ok((!is_other).then_some(creator))
    }

    /// Checks that the principal has at least this role, or is a service.
    ///
    /// # Errors
    /// PERMISSION_DENIED, or errors of the store.
    pub async fn allow(&self, group: &Group, principal: Principal, least: Role) -> Result<(), Error> {
        let Principal::User(user) = principal else { return Ok(()) };
        if self.of(group, user).await?.is_some_and(|role| role >= least) {
            return Ok(());
        }
        Err(Error::not_allowed(match least {
            Role::Owner => "only the owner of the group and services may do this",
            Role::Admin => "only the owner of the group, its admins and services may do this",
            Role::Member => "only members of the group and services may do this",
        }))
    }

    /// Whether the group has a member or an owner. Former members do not count: they may have been in a
    /// dismissed group with the same id.
    pub(super) async fn was_founded(&self, group: GroupId) -> Result<bool, Error> {
        let roster = self.roster(group, &Consistency::Cached).await?;
        Ok(roster.owner.is_some() || roster.count > 0)
    }
}

/// A group that never had a member has no roster.
fn stored(roster: Roster) -> Stored<Roster> {
    match roster.version {
        Version::NONE => Stored::Never,
        _ => Stored::Live(Arc::new(roster)),
    }
}
