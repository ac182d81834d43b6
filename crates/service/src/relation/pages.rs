//! The common part of relation lists: pages and tokens.

use kith_cache::Consistency;
use kith_proto::{relation::v1 as wire, r#type::v1 as types};
use kith_store::{BlockList, FollowList, UserId};

use super::{
    RelationRpc,
    convert::{self, cursor_numbers, cursor_of, position_numbers, position_of},
    lists::{ListPage, UserList},
    set_operations::{CommonUsers, common},
};
use crate::{
    error::Error,
    rpc::{call::Call, record_quota::PageQuota},
};

/// A requested page.
pub(super) struct ListQuery {
    pub(super) call: Call,
    method: &'static str,
    /// The list's users, as bytes; the second is empty for one user's list.
    users: [Vec<u8>; 2],
    size: i32,
    token: String,
    pub(super) consistency: Option<types::Consistency>,
}

impl ListQuery {
    /// A page from the list that this method returns for one user or for two.
    pub(super) fn new(
        call: Call,
        method: &'static str,
        users: &[UserId],
        size: i32,
        token: String,
        consistency: Option<types::Consistency>,
    ) -> Self {
        let bytes =
            |at| users.get(at).map_or_else(Vec::new, |user: &UserId| user.get().to_be_bytes().to_vec());
        Self { call, method, users: [bytes(0), bytes(1)], size, token, consistency }
    }

    /// The query that a token is bound to.
    fn query(&self) -> [&[u8]; 3] {
        [self.method.as_bytes(), &self.users[0], &self.users[1]]
    }
}

/// List entries as wire types, and the next page's token.
type ListEntries<T> = (Vec<T>, String);

impl RelationRpc {
    pub(super) async fn follow_page(
        &self,
        of: UserList<FollowList>,
        page: &ListQuery,
    ) -> Result<ListEntries<wire::Follow>, Error> {
        let (consistency, at, mut quota) = self.begin(page, position_of)?;
        let part = self.follows.lists.part(of, at, &consistency).await?;
        quota.answered(part.entries.len());
        let last = part.entries.last().filter(|_| part.more).map(|follow| follow.position_in(of.list));
        let next = self.next(page, last.map(position_numbers));
        Ok((part.entries.iter().map(convert::follow_to_wire).collect(), next))
    }

    pub(super) async fn settings_page(
        &self,
        of: UserList<BlockList>,
        page: &ListQuery,
    ) -> Result<ListEntries<wire::UserSettings>, Error> {
        let (consistency, at, mut quota) = self.begin(page, position_of)?;
        let found = self.blocks.list(of, at, &consistency).await?;
        quota.answered(found.blocks.len());
        let settings = found.blocks.iter().map(|block| convert::user_settings(block, &self.blocks)).collect();
        Ok((settings, self.next(page, found.next.map(position_numbers))))
    }

    pub(super) async fn common_page(
        &self,
        lists: [UserList<FollowList>; 2],
        page: &ListQuery,
    ) -> Result<(Vec<i64>, String, bool), Error> {
        let (consistency, at, mut quota) = self.begin(page, cursor_of)?;
        let CommonUsers { users, next, partial } = common(&self.follows, lists, at, &consistency).await?;
        quota.answered(users.len());
        let next = self.next(page, next.map(cursor_numbers));
        Ok((users.into_iter().map(UserId::get).collect(), next, partial))
    }

    /// The freshness, the beginning and the page's size, and its quota.
    fn begin<P, const N: usize>(
        &self,
        page: &ListQuery,
        of: fn([i64; N]) -> Option<P>,
    ) -> Result<(Consistency, ListPage<P>, PageQuota), Error> {
        let consistency = self.limits.consistency(page.call, page.consistency.as_ref())?;
        let quota = self.limits.page(page.call, page.size)?;
        let after = self.pages.of(page.call).verify_numbers(&page.query(), &page.token)?.and_then(of);
        Ok((consistency, ListPage { after, size: quota.size }, quota))
    }

    /// The page's token after this position; empty: there is none.
    fn next<const N: usize>(&self, page: &ListQuery, after: Option<[i64; N]>) -> String {
        after.map(|after| self.pages.of(page.call).issue_numbers(&page.query(), after)).unwrap_or_default()
    }
}
