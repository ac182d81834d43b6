//! Which messages of groups a user may read.

use std::collections::HashMap;

use kith_cache::{Consistency, Entry};
use kith_store::{BATCH_MAX, FormerMember, GroupId, Member, MemberKey, Seq, UserId};

use super::{Members, service::store_error};
use crate::error::Error;

/// The messages of a group that a user may read by its membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageRange {
    /// The lowest number; 0 counts as 1.
    pub(crate) from: Seq,
    /// The highest number; `None`: up to the end, as the user is a member.
    pub(crate) to: Option<Seq>,
}

/// What is known of a user in a group before former members are read.
enum Seen {
    NoGroup,
    Member(Entry<Member>),
    /// It may be a former member.
    Absent(MemberKey),
}

impl Members {
    /// Returns which messages of these groups a user may read: an answer for each, in their order. `None` for a group that does
    /// not exist, and for one whose messages the user may not read. Decided by the strict members. Former members are read
    /// from the store, which costs a read for each group that the user is not in.
    ///
    /// # Errors
    /// What a failing store makes, if former members cannot be read.
    pub(crate) async fn message_ranges(
        &self,
        user: UserId,
        groups: &[GroupId],
    ) -> Result<Vec<Result<Option<MessageRange>, Error>>, Error> {
        let seen = self.seen(user, groups).await;
        let absent: Vec<MemberKey> = seen.iter().filter_map(absent).collect();
        let former = self.former(&absent).await?;
        let range = |seen| match seen {
            Seen::NoGroup => None,
            Seen::Member(member) => Some(MessageRange { from: member.value.from_seq, to: None }),
            Seen::Absent(key) => {
                let left = former.get(&key)?;
                Some(MessageRange { from: left.from_seq, to: Some(left.left_seq) })
            }
        };
        Ok(seen.into_iter().map(|seen| seen.map(range)).collect())
    }

    /// Whether each of these groups exists, in their order. One that `creator` created is founded, if it is not yet.
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

    async fn seen(&self, user: UserId, groups: &[GroupId]) -> Vec<Result<Seen, Error>> {
        let exist = self.exist(groups, Some(user)).await;
        let keys: Vec<MemberKey> = groups.iter().map(|group| MemberKey { group: *group, user }).collect();
        let members = self.get_many(&keys, &Consistency::Cached).await;
        let seen = |((exists, member), key): ((Result<bool, Error>, Result<_, Error>), &MemberKey)| {
            if !exists? {
                return Ok(Seen::NoGroup);
            }
            let member: Option<Entry<Member>> = member?;
            Ok(member.map_or(Seen::Absent(*key), Seen::Member))
        };
        exist.into_iter().zip(members).zip(&keys).map(seen).collect()
    }

    async fn former(&self, keys: &[MemberKey]) -> Result<HashMap<MemberKey, FormerMember>, Error> {
        let mut former = HashMap::new();
        for keys in keys.chunks(BATCH_MAX) {
            let found = self.store.former(keys).await.map_err(store_error)?;
            former.extend(keys.iter().copied().zip(found).filter_map(|(key, left)| Some((key, left?))));
        }
        Ok(former)
    }
}

fn absent(seen: &Result<Seen, Error>) -> Option<MemberKey> {
    match seen {
        Ok(Seen::Absent(key)) => Some(*key),
        Ok(Seen::NoGroup | Seen::Member(_)) | Err(_) => None,
    }
}
