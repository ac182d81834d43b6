//! The group messages that a user may read.

use std::collections::HashMap;

use kith_cache::{Consistency, Entry};
use kith_store::{BATCH_MAX, FormerMember, GroupId, Member, MemberKey, MemberRow, Seq, SeqRange, UserId};

use super::{Members, service::store_error};
use crate::{error::Error, user::account_begins};

/// The group messages that a membership lets its user read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageRange {
    /// The lowest number; 0 counts as 1.
    pub(crate) from: Seq,
    /// The highest number; `None`: up to the end, as the user is a member.
    pub(crate) to: Option<Seq>,
    /// The first number of the last stay, at least 1.
    pub(crate) stay: Seq,
}

/// A user's stays in a group, as message numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownStays {
    /// The first number of the last stay, at least 1.
    pub(crate) joined: Seq,
    /// The earlier stays, by rising number.
    pub(crate) earlier: Vec<SeqRange>,
}

/// A user's known state in a group before former members are read.
enum KnownMembership {
    NoGroup,
    Member(Entry<Member>),
    /// Unknown: it may be a former member.
    Absent(MemberKey),
}

impl Members {
    /// Returns which messages a user may read in each of these groups, in their order. `None` if the group
    /// does not exist, or if the user may not read its messages. Decided by the strict member records. Former
    /// members are read from the store, which costs a read for each group that the user is not in.
    ///
    /// # Errors
    /// The store's errors, if former members cannot be read.
    pub(crate) async fn message_ranges(
        &self,
        user: UserId,
        groups: &[GroupId],
    ) -> Result<Vec<Result<Option<MessageRange>, Error>>, Error> {
        let seen = self.known_memberships(user, groups).await;
        let absent: Vec<MemberKey> = seen.iter().filter_map(absent).collect();
        let former = self.former_members(user, &absent).await?;
        let range = |seen| match seen {
            KnownMembership::NoGroup => None,
            KnownMembership::Member(member) => {
                let Member { from_seq, joined_seq, .. } = *member.value;
                Some(MessageRange { from: from_seq, to: None, stay: joined_seq.max(1) })
            }
            KnownMembership::Absent(key) => {
                let (left, joined_seq) = *former.get(&key)?;
                Some(MessageRange { from: left.from_seq, to: Some(left.left_seq), stay: joined_seq.max(1) })
            }
        };
        Ok(seen.into_iter().map(|seen| seen.map(range)).collect())
    }

    /// Reads the stays from the store for present and former members among these users: one read for each
    /// group.
    pub(crate) async fn stays(&self, keys: &[MemberKey]) -> Result<HashMap<MemberKey, KnownStays>, Error> {
        let mut stays = HashMap::with_capacity(keys.len());
        for keys in keys.chunks(BATCH_MAX) {
            let found = self.store.stored_members(keys).await.map_err(store_error)?;
            stays.extend(found.into_iter().flatten().map(|row| (row.member.key, KnownStays::of(&row))));
        }
        Ok(stays)
    }

    /// Whether each group exists, in their order. A group that `creator` created is founded if necessary.
    pub(crate) async fn exist(
        &self,
        groups: &[GroupId],
        creator: Option<UserId>,
    ) -> Vec<Result<bool, Error>> {
        let mut exist = Vec::with_capacity(groups.len());
        for found in self.groups.get_many(groups, &Consistency::Cached).await {
            let exists = match found {
                Ok(Some(group)) if creator.is_some() && group.value.creator == creator => {
                    self.group(group.value.id).await.map(|_| true)
                }
                found => found.map(|group| group.is_some()),
            };
            exist.push(exists);
        }
        exist
    }

    async fn known_memberships(
        &self,
        user: UserId,
        groups: &[GroupId],
    ) -> Vec<Result<KnownMembership, Error>> {
        let exist = self.exist(groups, Some(user)).await;
        let keys: Vec<MemberKey> = groups.iter().map(|group| MemberKey { group: *group, user }).collect();
        let members = self.get_many(&keys, &Consistency::Cached).await;
        let seen = |((exists, member), key): ((Result<bool, Error>, Result<_, Error>), &MemberKey)| {
            if !exists? {
                return Ok(KnownMembership::NoGroup);
            }
            let member: Option<Entry<Member>> = member?;
            Ok(member.map_or(KnownMembership::Absent(*key), KnownMembership::Member))
        };
        exist.into_iter().zip(members).zip(&keys).map(seen).collect()
    }

    /// The ranges that a user may read in groups that it has left, and where its last stays began. A stay
    /// that began before the account was created belongs to an earlier user with the same id.
    async fn former_members(
        &self,
        user: UserId,
        keys: &[MemberKey],
    ) -> Result<HashMap<MemberKey, (FormerMember, Seq)>, Error> {
        let mut former = HashMap::new();
        if keys.is_empty() {
            return Ok(former);
        }
        let Some(created) = self.users.created(user, &Consistency::Cached).await? else { return Ok(former) };
        let begins = account_begins(created);
        for keys in keys.chunks(BATCH_MAX) {
            let found = self.store.stored_members(keys).await.map_err(store_error)?;
            let own = found.into_iter().flatten().filter(|row| row.member.joined >= begins);
            former
                .extend(own.filter_map(|row| Some((row.member.key, (row.former()?, row.member.joined_seq)))));
        }
        Ok(former)
    }
}

impl KnownStays {
    fn of(row: &MemberRow) -> Self {
        let joined = row.member.joined_seq.max(1);
        let earlier = row.stays.earlier.iter().map(|stay| SeqRange::from(*stay));
        Self { joined, earlier: earlier.collect() }
    }

    /// The earlier stays that ended below `joined`. A stay that begins there may no longer be last.
    pub(crate) fn below(&self, joined: Seq) -> Vec<SeqRange> {
        self.earlier.iter().copied().filter(|stay| stay.last < joined).collect()
    }
}

fn absent(seen: &Result<KnownMembership, Error>) -> Option<MemberKey> {
    match seen {
        Ok(KnownMembership::Absent(key)) => Some(*key),
        Ok(KnownMembership::NoGroup | KnownMembership::Member(_)) | Err(_) => None,
    }
}
