//! Lists of gateways, and of who of a group is online: decode, one call, encode.

use std::{collections::HashSet, sync::Arc};

use kith_cache::Consistency;
use kith_presence::{Distribution, GatewayId};
use kith_proto::{presence::v1 as wire, r#type::v1::Consistency as Asked};
use kith_store::UserId;
use sha2::{Digest as _, Sha256};

use super::{
    convert::{self, ids},
    rpc::PresenceRpc,
};
use crate::{
    error::Error,
    rpc::{
        answer_size::fitting, batch::only_services, call::Call, request::consistency, versions::wire_duration,
    },
};

impl PresenceRpc {
    /// The token of a page holds how many gateways stood before it and what the last one was called, shortened: where that
    /// one died meanwhile the list goes on from its place.
    pub(super) async fn gateways_page(
        &self,
        request: &wire::ListGatewaysRequest,
        call: Call,
    ) -> Result<wire::ListGatewaysResponse, Error> {
        only_services(call.principal)?;
        let size = self.limits.pages.of(request.page_size)?;
        let query = [&b"ListGateways"[..]];
        let place = self.pages.open_all::<3>(&query, &request.page_token)?;
        self.sessions.look().await?;
        let all = self.sessions.gateways.living("", usize::MAX);
        let from = place.map_or(0, |place| after(&all, place));
        let page = all.iter().skip(from).take(size);
        let gateways: Vec<_> = page
            .map(|(id, left)| wire::Gateway { gateway_id: id.to_string(), ttl: Some(wire_duration(*left)) })
            .collect();
        let until = from + gateways.len();
        let next_page_token = match all.get(until.saturating_sub(1)).filter(|_| until < all.len()) {
            Some((last, _)) => self.pages.seal_all(&query, place_of(until, last)),
            None => String::new(),
        };
        Ok(wire::ListGatewaysResponse { gateways, next_page_token })
    }

    pub(super) async fn active_gateways(
        &self,
        request: wire::ListActiveGatewaysRequest,
        call: Call,
    ) -> Result<wire::ListActiveGatewaysResponse, Error> {
        let found = self.distribution(request.group_id, request.consistency.as_ref(), call).await?;
        let gateways = self.living(&found).into_iter();
        let gateway = |(id, count): (GatewayId, u32)| wire::ActiveGateway {
            gateway_id: id.to_string(),
            count: i64::from(count),
        };
        let incomplete = !self.sessions.is_settled();
        Ok(wire::ListActiveGatewaysResponse { gateways: gateways.map(gateway).collect(), incomplete })
    }

    /// Until a dead gateway is swept, those who were at it alone are left out by how many are at the others.
    pub(super) async fn active_count(
        &self,
        request: wire::CountActiveMembersRequest,
        call: Call,
    ) -> Result<wire::CountActiveMembersResponse, Error> {
        let found = self.distribution(request.group_id, request.consistency.as_ref(), call).await?;
        let at_living: i64 = self.living(&found).into_iter().map(|(_, count)| i64::from(count)).sum();
        let count = i64::from(found.total).min(at_living);
        Ok(wire::CountActiveMembersResponse { count, incomplete: !self.sessions.is_settled() })
    }

    pub(super) async fn active_members(
        &self,
        request: wire::ListActiveMembersRequest,
        call: Call,
    ) -> Result<wire::ListActiveMembersResponse, Error> {
        let group = convert::group(request.group_id)?;
        let query = [&b"ListActiveMembers"[..], &group.get().to_be_bytes()[..]];
        let size = self.limits.pages.of(request.page_size)?;
        let after = self.pages.open(&query, &request.page_token)?;
        let after = after.map(|id| convert::user("page_token", id)).transpose()?;
        self.members.may_see(group, call.principal).await?;
        // One more tells whether there is more.
        let found = self.active.store.active(group, after, size.saturating_add(1)).await;
        let mut found = found.map_err(Error::presence)?;
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more).map(|member| member.user.get());
        let users: Vec<UserId> = found.iter().map(|one| one.user).collect();
        let among = self.members.users_among(group, &users, &Consistency::Cached).await?;
        let among: HashSet<UserId> = among.into_iter().collect();
        let strangers = users.into_iter().filter(|user| !among.contains(user));
        self.sessions.fan_out.left(group, strangers.collect());
        let members = found.into_iter().filter(|member| among.contains(&member.user)).filter_map(|member| {
            let living = self.sessions.gateways.without_dead(&member.gateways);
            let shown = || wire::ActiveMember {
                user_id: member.user.get(),
                gateway_ids: ids(&living, call.principal),
            };
            (!living.is_empty()).then(shown)
        });
        let members: Vec<_> = members.collect();
        let all = members.len();
        let members = fitting(members);
        let cut = members.last().filter(|_| members.len() < all).map(|member| member.user_id);
        let next_page_token = cut.or(last).map(|id| self.pages.seal(&query, id)).unwrap_or_default();
        let incomplete = !self.sessions.is_settled();
        Ok(wire::ListActiveMembersResponse { members, next_page_token, incomplete })
    }

    async fn distribution(
        &self,
        group: i64,
        asked: Option<&Asked>,
        call: Call,
    ) -> Result<Arc<Distribution>, Error> {
        let group = convert::group(group)?;
        let consistency = consistency(asked, self.limits.tokens)?;
        self.members.may_see(group, call.principal).await?;
        self.active.of(group, &consistency).await
    }

    /// Without the gateways that are dead.
    fn living(&self, found: &Distribution) -> Vec<(GatewayId, u32)> {
        let ids: Vec<GatewayId> = found.gateways.iter().map(|(id, _)| id.clone()).collect();
        let living = self.sessions.gateways.without_dead(&ids);
        found.gateways.iter().filter(|(id, _)| living.contains(id)).cloned().collect()
    }
}

/// How many stood before, and 16 bytes that stand for the last of them.
fn place_of(before: usize, last: &GatewayId) -> [i64; 3] {
    let hash = Sha256::digest(last.as_str());
    let (numbers, _) = hash.as_chunks::<8>();
    let number = |at: usize| numbers.get(at).map_or(0, |bytes| i64::from_be_bytes(*bytes));
    [i64::try_from(before).unwrap_or(i64::MAX), number(0), number(1)]
}

/// How many stand before what comes after this place.
fn after<T>(all: &[(GatewayId, T)], place: [i64; 3]) -> usize {
    let [before, ..] = place;
    let is_last = |(id, _): &&(GatewayId, T)| place_of(0, id)[1..] == place[1..];
    let at = all.iter().enumerate().find(|(_, one)| is_last(one)).map(|(at, _)| at + 1);
    at.unwrap_or_else(|| usize::try_from(before).unwrap_or(0).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ids: &[&str]) -> Vec<(GatewayId, ())> {
        ids.iter().map(|id| (id.parse().unwrap(), ())).collect()
    }

    #[test]
    fn a_list_goes_on_after_its_last_one_whoever_came_and_went() {
        let place = place_of(2, &"b".parse().unwrap());
        assert_eq!(after(&all(&["a", "b", "c"]), place), 2);
        assert_eq!(after(&all(&["0", "a", "b", "c"]), place), 3);
        assert_eq!(after(&all(&["b", "c"]), place), 1);
        assert_eq!(after(&all(&["a", "c"]), place), 1, "the last one is gone: from its place");
        assert_eq!(after(&all(&[]), place), 1);
    }
}
