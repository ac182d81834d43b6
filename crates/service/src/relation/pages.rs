//! Lists of relations by pages: decode, one call, encode.

use kith_cache::Consistency;
use kith_proto::{relation::v1 as wire, r#type::v1 as types};
use kith_store::{BlockList, FollowList, GroupId, UserId};

use super::{
    RelationRpc,
    algebra::{Common, common},
    convert::{self, cursor_numbers, cursor_of, place_numbers, place_of},
    lists::ListOf,
};
use crate::{
    error::Error,
    rpc::call::{Call, own},
};

/// What every request for a page says: its size, its token, and how fresh it is to be.
type Asked = (i32, String, Option<types::Consistency>);

/// A page that is asked for.
struct PageOf {
    method: &'static str,
    /// Whose list it is, as bytes; the second is empty where it is of one user.
    users: [Vec<u8>; 2],
    size: i32,
    token: String,
    consistency: Option<types::Consistency>,
}

impl PageOf {
    /// Of the list that this method shows of one user or of two.
    fn new(method: &'static str, users: &[UserId], (size, token, consistency): Asked) -> Self {
        let bytes =
            |at| users.get(at).map_or_else(Vec::new, |user: &UserId| user.get().to_be_bytes().to_vec());
        Self { method, users: [bytes(0), bytes(1)], size, token, consistency }
    }

    /// What a token is bound to.
    fn query(&self) -> [&[u8]; 3] {
        [self.method.as_bytes(), &self.users[0], &self.users[1]]
    }
}

/// Entries of a list in the form of the wire, and the token of the next page.
type Entries<T> = (Vec<T>, String);

impl RelationRpc {
    pub(super) async fn following_page(
        &self,
        request: wire::ListFollowingRequest,
        _call: Call,
    ) -> Result<wire::ListFollowingResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let of = ListOf { list: FollowList::Following, user };
        let (follows, next_page_token) = self.follow_page("ListFollowing", of, asked).await?;
        Ok(wire::ListFollowingResponse { follows, next_page_token })
    }

    pub(super) async fn fans_page(
        &self,
        request: wire::ListFansRequest,
        _call: Call,
    ) -> Result<wire::ListFansResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let of = ListOf { list: FollowList::Fans, user };
        let (follows, next_page_token) = self.follow_page("ListFans", of, asked).await?;
        Ok(wire::ListFansResponse { follows, next_page_token })
    }

    pub(super) async fn friends_page(
        &self,
        request: wire::ListFriendsRequest,
        _call: Call,
    ) -> Result<wire::ListFriendsResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let page = PageOf::new("ListFriends", &[user], asked);
        let lists = [FollowList::Following, FollowList::Fans].map(|list| ListOf { list, user });
        let (user_ids, next_page_token, partial) = self.common_page(lists, &page).await?;
        Ok(wire::ListFriendsResponse { user_ids, next_page_token, partial })
    }

    /// A page of friends, of whom those are kept who are in the group.
    pub(super) async fn friends_in_group_page(
        &self,
        request: wire::ListFriendsInGroupRequest,
        call: Call,
    ) -> Result<wire::ListFriendsInGroupResponse, Error> {
        let user = own_list(request.user_id, call)?;
        let group = GroupId::new(request.group_id).map_err(|why| Error::invalid("group_id", &why))?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let page = PageOf::new("ListFriendsInGroup", &[user], asked);
        let consistency = self.consistency(page.consistency.as_ref())?;
        self.members.may_see(group, call.principal).await?;
        let lists = [FollowList::Following, FollowList::Fans].map(|list| ListOf { list, user });
        let (friends, next_page_token, partial) = self.common_page(lists, &page).await?;
        let users: Vec<UserId> = friends.iter().filter_map(|friend| UserId::new(*friend).ok()).collect();
        let among = self.members.users_among(group, &users, &consistency).await?;
        let user_ids: Vec<i64> = among.into_iter().map(UserId::get).collect();
        let partial = partial || user_ids.len() < friends.len();
        Ok(wire::ListFriendsInGroupResponse { user_ids, next_page_token, partial })
    }

    pub(super) async fn common_following_page(
        &self,
        request: wire::ListCommonFollowingRequest,
        _call: Call,
    ) -> Result<wire::ListCommonFollowingResponse, Error> {
        let edge = convert::edge(request.user_id, (request.other_id, "other_id"))?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let page = PageOf::new("ListCommonFollowing", &[edge.from, edge.to], asked);
        let lists = [edge.from, edge.to].map(|user| ListOf { list: FollowList::Following, user });
        let (user_ids, next_page_token, partial) = self.common_page(lists, &page).await?;
        Ok(wire::ListCommonFollowingResponse { user_ids, next_page_token, partial })
    }

    pub(super) async fn fans_i_follow_page(
        &self,
        request: wire::ListFansIFollowRequest,
        _call: Call,
    ) -> Result<wire::ListFansIFollowResponse, Error> {
        let edge = convert::edge(request.user_id, (request.other_id, "other_id"))?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let page = PageOf::new("ListFansIFollow", &[edge.from, edge.to], asked);
        let lists = [
            ListOf { list: FollowList::Following, user: edge.from },
            ListOf { list: FollowList::Fans, user: edge.to },
        ];
        let (user_ids, next_page_token, partial) = self.common_page(lists, &page).await?;
        Ok(wire::ListFansIFollowResponse { user_ids, next_page_token, partial })
    }

    pub(super) async fn blocks_page(
        &self,
        request: wire::ListBlocksRequest,
        call: Call,
    ) -> Result<wire::ListBlocksResponse, Error> {
        let user = own_list(request.user_id, call)?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let of = ListOf { list: BlockList::Blocked, user };
        let (settings, next_page_token) = self.settings_page("ListBlocks", of, asked).await?;
        Ok(wire::ListBlocksResponse { settings, next_page_token })
    }

    pub(super) async fn do_not_disturb_page(
        &self,
        request: wire::ListDoNotDisturbRequest,
        call: Call,
    ) -> Result<wire::ListDoNotDisturbResponse, Error> {
        let user = own_list(request.user_id, call)?;
        let asked = (request.page_size, request.page_token, request.consistency);
        let of = ListOf { list: BlockList::DoNotDisturb, user };
        let (settings, next_page_token) = self.settings_page("ListDoNotDisturb", of, asked).await?;
        Ok(wire::ListDoNotDisturbResponse { settings, next_page_token })
    }

    async fn follow_page(
        &self,
        method: &'static str,
        of: ListOf<FollowList>,
        asked: Asked,
    ) -> Result<Entries<wire::Follow>, Error> {
        let page = PageOf::new(method, &[of.user], asked);
        let (consistency, at) = self.begin(&page, place_of)?;
        let part = self.follows.list(of, at, &consistency).await?;
        let last = part.entries.last().filter(|_| part.more).map(|follow| follow.place_in(of.list));
        let next = self.next(&page, last.map(place_numbers));
        Ok((part.entries.iter().map(convert::follow_to_wire).collect(), next))
    }

    async fn settings_page(
        &self,
        method: &'static str,
        of: ListOf<BlockList>,
        asked: Asked,
    ) -> Result<Entries<wire::UserSettings>, Error> {
        let page = PageOf::new(method, &[of.user], asked);
        let (consistency, at) = self.begin(&page, place_of)?;
        let found = self.blocks.list(of, at, &consistency).await?;
        let settings = found.blocks.iter().map(|block| convert::user_settings(block, &self.blocks)).collect();
        Ok((settings, self.next(&page, found.next.map(place_numbers))))
    }

    async fn common_page(
        &self,
        lists: [ListOf<FollowList>; 2],
        page: &PageOf,
    ) -> Result<(Vec<i64>, String, bool), Error> {
        let (consistency, at) = self.begin(page, cursor_of)?;
        let Common { users, next, partial } = common(&self.follows, lists, at, &consistency).await?;
        let next = self.next(page, next.map(cursor_numbers));
        Ok((users.into_iter().map(UserId::get).collect(), next, partial))
    }

    /// How fresh the page is to be, where it begins, and its size.
    fn begin<P, const N: usize>(
        &self,
        page: &PageOf,
        of: fn([i64; N]) -> Option<P>,
    ) -> Result<(Consistency, (Option<P>, usize)), Error> {
        let consistency = self.consistency(page.consistency.as_ref())?;
        let size = self.limits.pages.of(page.size)?;
        let after = self.pages.open_all(&page.query(), &page.token)?.and_then(of);
        Ok((consistency, (after, size)))
    }

    /// The token of the page after this place; empty: there is none.
    fn next<const N: usize>(&self, page: &PageOf, after: Option<[i64; N]>) -> String {
        after.map(|after| self.pages.seal_all(&page.query(), after)).unwrap_or_default()
    }
}

/// What a user has set about others is for that user, and for services.
fn own_list(user_id: i64, call: Call) -> Result<UserId, Error> {
    let user = convert::user("user_id", user_id)?;
    own(user, call.principal)?;
    Ok(user)
}
