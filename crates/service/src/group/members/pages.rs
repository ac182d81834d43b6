//! Lists by pages: decode, one call, encode.

use kith_cache::Consistency;
use kith_proto::{member::v1 as wire, r#type::v1 as types};
use kith_store::{GroupId, Invalid, MemberChanged, MemberKey, Role, Roster, UserId, Version};

use super::{
    MemberRpc, convert,
    lists::{Asked, Part},
};
use crate::{
    error::Error,
    rpc::call::{Call, own},
};

/// Of a user whom no change names: after all changes of a version.
const AFTER_ALL: i64 = i64::MAX;

/// What a page is asked by: its size, its token and how fresh it is to be.
type Wanted<'a> = (i32, &'a str, Option<&'a types::Consistency>);

impl MemberRpc {
    pub(super) async fn members_page(
        &self,
        request: wire::ListMembersRequest,
        call: Call,
    ) -> Result<wire::ListMembersResponse, Error> {
        let id = convert::group(request.group_id)?;
        let least = convert::least_role(request.least_role)?;
        let query = [b"ListMembers", &[least as u8][..], &id.get().to_be_bytes()[..]];
        let wanted = (request.page_size, &*request.page_token, request.consistency.as_ref());
        let (consistency, asked) = self.asked(&query, least, wanted)?;
        self.members.may_see(id, call.principal).await?;
        let part = self.members.lists.members_of(id, asked, &consistency).await?;
        let keys: Vec<MemberKey> = part.ids.iter().map(|user| MemberKey { group: id, user: *user }).collect();
        let among = self.members.among(&keys, &consistency).await?;
        let listed = among.iter().filter(|entry| entry.value.role >= least);
        let members = listed.map(|entry| convert::member_to_wire(&entry.value)).collect();
        let next_page_token = self.next(&query, &part, UserId::get);
        Ok(wire::ListMembersResponse { members, next_page_token })
    }

    pub(super) async fn groups_page(
        &self,
        request: wire::ListMembershipsRequest,
        call: Call,
    ) -> Result<wire::ListMembershipsResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        own(user, call.principal)?;
        let query = [&b"ListMemberships"[..], &user.get().to_be_bytes()[..]];
        let wanted = (request.page_size, &*request.page_token, request.consistency.as_ref());
        let (consistency, asked) = self.asked(&query, Role::Member, wanted)?;
        let part = self.members.lists.groups_of(user, asked, &consistency).await?;
        let group_ids = self.of_these(user, &part.ids, &consistency).await?;
        let next_page_token = self.next(&query, &part, GroupId::get);
        Ok(wire::ListMembershipsResponse { group_ids, next_page_token })
    }

    pub(super) async fn bans_page(
        &self,
        request: wire::ListBansRequest,
        call: Call,
    ) -> Result<wire::ListBansResponse, Error> {
        let id = convert::group(request.group_id)?;
        let query = [&b"ListBans"[..], &id.get().to_be_bytes()[..]];
        let size = self.limits.pages.of(request.page_size)?;
        let after = self.pages.open(&query, &request.page_token)?.and_then(|id| UserId::new(id).ok());
        let mut bans = self.members.bans(id, call.principal, after, size.saturating_add(1)).await?;
        let more = bans.len() > size;
        bans.truncate(size);
        let last = bans.last().filter(|_| more);
        Ok(wire::ListBansResponse {
            next_page_token: last.map(|ban| self.pages.seal(&query, ban.key.user.get())).unwrap_or_default(),
            bans: bans.iter().map(convert::ban_to_wire).collect(),
        })
    }

    /// Walks the groups of one and looks which of them the other one is in.
    pub(super) async fn common_page(
        &self,
        request: wire::ListCommonGroupsRequest,
        call: Call,
    ) -> Result<wire::ListCommonGroupsResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let other = convert::user("other_id", request.other_id)?;
        if user == other {
            return Err(Error::invalid("other_id", &Invalid::new("must be another user")));
        }
        own(user, call.principal)?;
        let query = [&b"ListCommonGroups"[..], &user.get().to_be_bytes()[..], &other.get().to_be_bytes()[..]];
        let wanted = (request.page_size, &*request.page_token, request.consistency.as_ref());
        let (consistency, asked) = self.asked(&query, Role::Member, wanted)?;
        let part = self.members.lists.groups_of(user, asked, &consistency).await?;
        let (mine, theirs) = tokio::try_join!(
            self.of_these(user, &part.ids, &consistency),
            self.of_these(other, &part.ids, &consistency)
        )?;
        // Both by rising id, as the page is.
        let group_ids = mine.into_iter().filter(|group| theirs.binary_search(group).is_ok()).collect();
        let next_page_token = self.next(&query, &part, GroupId::get);
        Ok(wire::ListCommonGroupsResponse { group_ids, next_page_token })
    }

    /// The version to be known after the last page is that of the first one: what changes meanwhile is told the next time.
    pub(super) async fn sync(
        &self,
        request: wire::SyncMembersRequest,
        call: Call,
    ) -> Result<wire::SyncMembersResponse, Error> {
        let id = convert::group(request.group_id)?;
        let why = || Error::invalid("known_version", &Invalid::new("must not be below 0"));
        let known = Version::new(request.known_version).ok_or_else(why)?;
        self.members.may_see(id, call.principal).await?;
        let roster = self.members.roster(id, &Consistency::Strong).await?;
        let query = [&b"SyncMembers"[..], &id.get().to_be_bytes()[..], &known.get().to_be_bytes()[..]];
        let size = self.limits.pages.of(request.page_size)?;
        let place = self.pages.open_all(&query, &request.page_token)?;
        let [version, user, until] = place.unwrap_or([known.get(), AFTER_ALL, roster.version.get()]);
        let after = MemberChanged {
            version: Version::new(version).ok_or_else(why)?,
            user: convert::user("page_token", user)?,
        };
        let Some(mut found) = self.members.changes(id, after, size.saturating_add(1)).await? else {
            return Ok(full_list(&roster));
        };
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more).map(|one| [one.version.get(), one.user.get(), until]);
        let (members, left_user_ids) = self.as_they_are(id, found).await?;
        Ok(wire::SyncMembersResponse {
            members,
            left_user_ids,
            next_page_token: last.map(|last| self.pages.seal_all(&query, last)).unwrap_or_default(),
            version: until,
            full_list_needed: false,
        })
    }

    /// Those who are in the group, and those who are not.
    async fn as_they_are(
        &self,
        group: GroupId,
        changed: Vec<MemberChanged>,
    ) -> Result<(Vec<wire::Member>, Vec<i64>), Error> {
        let mut keys: Vec<MemberKey> =
            changed.into_iter().map(|one| MemberKey { group, user: one.user }).collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut members, mut left) = (Vec::new(), Vec::new());
        let found = self.members.get_many(&keys, &Consistency::Strong).await;
        for (key, found) in keys.iter().zip(found) {
            match found? {
                Some(entry) => members.push(convert::member_to_wire(&entry.value)),
                None => left.push(key.user.get()),
            }
        }
        Ok((members, left))
    }

    /// How fresh a page is to be, where it begins, and its size.
    fn asked(
        &self,
        query: &[&[u8]],
        least: Role,
        (size, token, consistency): Wanted<'_>,
    ) -> Result<(Consistency, Asked), Error> {
        let consistency = self.consistency(consistency)?;
        let size = self.limits.pages.of(size)?;
        let after = self.pages.open(query, token)?.unwrap_or_default();
        Ok((consistency, Asked { least, after, size }))
    }

    /// The token of the page after this one; empty: there is none.
    fn next<T: Copy>(&self, query: &[&[u8]], part: &Part<T>, id: fn(T) -> i64) -> String {
        let last = part.ids.last().filter(|_| part.more);
        last.map(|last| self.pages.seal(query, id(*last))).unwrap_or_default()
    }
}

fn full_list(roster: &Roster) -> wire::SyncMembersResponse {
    wire::SyncMembersResponse {
        version: roster.version.get(),
        full_list_needed: true,
        ..wire::SyncMembersResponse::default()
    }
}
