//! Lists of relations by pages: decode, one call, encode.

use kith_proto::{relation::v1 as wire, r#type::v1::Consistency as Asked};
use kith_store::{BlockList, FollowList, Place, UserId};

use super::{
    RelationRpc,
    algebra::{Common, common},
    convert::{self, cursor_numbers, cursor_of, place_numbers, place_of},
    follows::own,
    lists::ListOf,
};
use crate::{call::Call, error::Error};

/// What every request for a page says.
struct PageOf<'a> {
    /// The method and whose list it is: what a token is bound to.
    query: [&'a [u8]; 3],
    size: i32,
    token: &'a str,
    consistency: Option<&'a Asked>,
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
        let bytes = user.get().to_be_bytes();
        let page = PageOf {
            query: [b"ListFollowing", &bytes, b""],
            size: request.page_size,
            token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let of = ListOf { list: FollowList::Following, user };
        let (follows, next_page_token) = self.follow_page(of, &page).await?;
        Ok(wire::ListFollowingResponse { follows, next_page_token })
    }

    pub(super) async fn fans_page(
        &self,
        request: wire::ListFansRequest,
        _call: Call,
    ) -> Result<wire::ListFansResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let bytes = user.get().to_be_bytes();
        let page = PageOf {
            query: [b"ListFans", &bytes, b""],
            size: request.page_size,
            token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let of = ListOf { list: FollowList::Fans, user };
        let (follows, next_page_token) = self.follow_page(of, &page).await?;
        Ok(wire::ListFansResponse { follows, next_page_token })
    }

    pub(super) async fn friends_page(
        &self,
        request: wire::ListFriendsRequest,
        _call: Call,
    ) -> Result<wire::ListFriendsResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let bytes = user.get().to_be_bytes();
        let page = PageOf {
            query: [b"ListFriends", &bytes, b""],
            size: request.page_size,
            token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let lists = [FollowList::Following, FollowList::Fans].map(|list| ListOf { list, user });
        let (user_ids, next_page_token, partial) = self.common_page(lists, &page).await?;
        Ok(wire::ListFriendsResponse { user_ids, next_page_token, partial })
    }

    pub(super) async fn common_following_page(
        &self,
        request: wire::ListCommonFollowingRequest,
        _call: Call,
    ) -> Result<wire::ListCommonFollowingResponse, Error> {
        let edge = convert::edge(request.user_id, (request.other_id, "other_id"))?;
        let bytes = [edge.from, edge.to].map(|user| user.get().to_be_bytes());
        let page = PageOf {
            query: [b"ListCommonFollowing", &bytes[0], &bytes[1]],
            size: request.page_size,
            token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
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
        let bytes = [edge.from, edge.to].map(|user| user.get().to_be_bytes());
        let page = PageOf {
            query: [b"ListFansIFollow", &bytes[0], &bytes[1]],
            size: request.page_size,
            token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
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
        let bytes = user.get().to_be_bytes();
        let page = PageOf {
            query: [b"ListBlocks", &bytes, b""],
            size: request.page_size,
            token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let of = ListOf { list: BlockList::Blocked, user };
        let (settings, next_page_token) = self.settings_page(of, &page).await?;
        Ok(wire::ListBlocksResponse { settings, next_page_token })
    }

    pub(super) async fn do_not_disturb_page(
        &self,
        request: wire::ListDoNotDisturbRequest,
        call: Call,
    ) -> Result<wire::ListDoNotDisturbResponse, Error> {
        let user = own_list(request.user_id, call)?;
        let bytes = user.get().to_be_bytes();
        let page = PageOf {
            query: [b"ListDoNotDisturb", &bytes, b""],
            size: request.page_size,
            token: &request.page_token,
            consistency: request.consistency.as_ref(),
        };
        let of = ListOf { list: BlockList::DoNotDisturb, user };
        let (settings, next_page_token) = self.settings_page(of, &page).await?;
        Ok(wire::ListDoNotDisturbResponse { settings, next_page_token })
    }

    async fn follow_page(
        &self,
        of: ListOf<FollowList>,
        page: &PageOf<'_>,
    ) -> Result<Entries<wire::Follow>, Error> {
        let consistency = self.consistency(page.consistency)?;
        let size = self.limits.pages.of(page.size)?;
        let part = self.follows.list(of, (self.after(page)?, size), &consistency).await?;
        let last = part.entries.last().filter(|_| part.more).map(|follow| follow.place_in(of.list));
        let next = last.map(|last| self.pages.seal_all(&page.query, place_numbers(last)));
        Ok((part.entries.iter().map(convert::follow_to_wire).collect(), next.unwrap_or_default()))
    }

    async fn settings_page(
        &self,
        of: ListOf<BlockList>,
        page: &PageOf<'_>,
    ) -> Result<Entries<wire::UserSettings>, Error> {
        let consistency = self.consistency(page.consistency)?;
        let size = self.limits.pages.of(page.size)?;
        let found = self.blocks.list(of, (self.after(page)?, size), &consistency).await?;
        let next = found.next.map(|last| self.pages.seal_all(&page.query, place_numbers(last)));
        let settings = found.blocks.iter().map(|block| convert::user_settings(block, &self.blocks)).collect();
        Ok((settings, next.unwrap_or_default()))
    }

    async fn common_page(
        &self,
        lists: [ListOf<FollowList>; 2],
        page: &PageOf<'_>,
    ) -> Result<(Vec<i64>, String, bool), Error> {
        let consistency = self.consistency(page.consistency)?;
        let size = self.limits.pages.of(page.size)?;
        let after = self.pages.open_all(&page.query, page.token)?.and_then(cursor_of);
        let Common { users, next, partial } =
            common(&self.follows, lists, (after, size), &consistency).await?;
        let next = next.map(|next| self.pages.seal_all(&page.query, cursor_numbers(next)));
        Ok((users.into_iter().map(UserId::get).collect(), next.unwrap_or_default(), partial))
    }

    fn after(&self, page: &PageOf<'_>) -> Result<Option<Place>, Error> {
        Ok(self.pages.open_all(&page.query, page.token)?.and_then(place_of))
    }
}

/// What a user has set about others is for that user, and for services.
fn own_list(user_id: i64, call: Call) -> Result<UserId, Error> {
    let user = convert::user("user_id", user_id)?;
    own(user, call.acting)?;
    Ok(user)
}
