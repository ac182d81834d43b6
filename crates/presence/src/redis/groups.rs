//! Online group members in Redis.

use async_trait::async_trait;
use kith_cache::remote::redis::{Reply, ScriptCall};
use kith_store::{GroupId, UserId};

use super::{
    RedisPresence, milliseconds,
    names::padded,
    reply::{gateways, list, number, parsed, text},
};
use crate::{ActiveMember, ActiveStore, Distribution, PresenceError, UserState};

#[async_trait]
impl ActiveStore for RedisPresence {
    async fn apply(
        &self,
        user: UserId,
        state: &UserState,
        groups: &[GroupId],
    ) -> Vec<Result<bool, PresenceError>> {
        let calls: Vec<_> = groups.iter().map(|group| self.apply_call(*group, user, Some(state))).collect();
        self.each(&calls).await.into_iter().map(|reply| Ok(number(&reply?)? > 0)).collect()
    }

    async fn leave(&self, group: GroupId, users: &[UserId]) -> Vec<Result<bool, PresenceError>> {
        let calls: Vec<_> = users.iter().map(|user| self.apply_call(group, *user, None)).collect();
        self.each(&calls).await.into_iter().map(|reply| Ok(number(&reply?)? > 0)).collect()
    }

    async fn distributions(&self, groups: &[GroupId]) -> Vec<Result<Distribution, PresenceError>> {
        let call = |group: &GroupId| ScriptCall {
            script: &self.scripts.distribution,
            keys: self.names.group(*group),
            arguments: Vec::new(),
        };
        let calls: Vec<_> = groups.iter().map(call).collect();
        self.each(&calls).await.into_iter().map(|reply| distribution(reply?)).collect()
    }

    async fn active(
        &self,
        group: GroupId,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<ActiveMember>, PresenceError> {
        let arguments = vec![after.map(padded).unwrap_or_default(), limit.to_string()];
        let call = ScriptCall::new(&self.scripts.active, self.names.group(group), arguments);
        Ok(list(self.one(call).await?)?.chunks(2).filter_map(|pair| member(pair).ok()).collect())
    }
}

impl RedisPresence {
    /// `None`: it left the group.
    fn apply_call(&self, group: GroupId, user: UserId, state: Option<&UserState>) -> ScriptCall<'_> {
        let ids = |state: &UserState| {
            let ids: Vec<&str> = state.gateways.iter().map(|gateway| gateway.as_str()).collect();
            ids.join(",")
        };
        let arguments = vec![
            if state.is_some() { "apply" } else { "leave" }.to_owned(),
            user.to_string(),
            padded(user),
            state.map_or(0, |state| state.version).to_string(),
            state.map(ids).unwrap_or_default(),
            milliseconds(self.limits.kept),
        ];
        ScriptCall::new(&self.scripts.apply, self.names.group(group), arguments)
    }
}

fn distribution(reply: Reply) -> Result<Distribution, PresenceError> {
    let replies = list(reply)?;
    let [total, version, all @ ..] = &replies[..] else { return Err(PresenceError::Unexpected) };
    let count = |reply: &Reply| u32::try_from(number(reply)?).map_err(|_| PresenceError::Unexpected);
    let gateway = |pair: &[Reply]| {
        let [gateway, number] = pair else { return Err(PresenceError::Unexpected) };
        Ok((parsed(text(gateway)?)?, count(number)?))
    };
    let mut gateways = all.chunks(2).map(gateway).collect::<Result<Vec<_>, _>>()?;
    gateways.sort_unstable();
    Ok(Distribution { version: number(version)?, total: count(total)?, gateways })
}

/// A member whose entry is missing or invalid is at no gateway: it is still counted in the page.
fn member(pair: &[Reply]) -> Result<ActiveMember, PresenceError> {
    let [user, entry] = pair else { return Err(PresenceError::Unexpected) };
    let at = text(entry).ok().and_then(|entry| gateways(entry.split_once(':')?.1).ok());
    Ok(ActiveMember { user: parsed(text(user)?)?, gateways: at.unwrap_or_default() })
}
