//! Sessions and gateways in Redis.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use kith_cache::remote::redis::{Reply, ScriptCall};
use kith_store::UserId;

use super::{
    RedisPresence, milliseconds,
    reply::{duration, gateways, left, list, number, parsed, text, users},
};
use crate::{
    Change, Changed, Claim, Claimed, GatewayState, Gateways, Incarnation, Instance, Lookup, Op,
    PresenceError, PresenceStore, Seen, Session, UserState,
};

/// Users of one call that schedules checks: the arguments that a script can pass to a command are limited.
const NOTED_AT_ONCE: usize = 1_000;

#[async_trait]
impl PresenceStore for RedisPresence {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, PresenceError> {
        let arguments = vec![
            claim.gateway.to_string(),
            claim.offered.map_or_else(|| "0".to_owned(), |offered| offered.get().to_string()),
            Incarnation::random().get().to_string(),
            milliseconds(claim.lasts),
            self.limits.gateways_max.to_string(),
            epoch(),
        ];
        let call = ScriptCall::new(&self.scripts.claim, self.names.gateways(), arguments);
        let reply = self.one(call).await?;
        if reply == Reply::Nothing {
            return Err(PresenceError::TooManyGateways);
        }
        match text(&reply)? {
            "" => Ok(Claimed::Denied),
            held => Incarnation::new(parsed(held)?).map(Claimed::Held).ok_or(PresenceError::Unexpected),
        }
    }

    async fn gateways(&self) -> Result<Gateways, PresenceError> {
        let replies = list(self.one(self.epoch_call(true)).await?)?;
        let [epoch, age, all @ ..] = &replies[..] else { return Err(PresenceError::Unexpected) };
        let state = |pair: &[Reply]| {
            let [instance, left] = pair else { return Err(PresenceError::Unexpected) };
            Ok(GatewayState { instance: parsed(text(instance)?)?, left: duration(left)? })
        };
        let all = all.chunks(2).map(state).collect::<Result<_, _>>()?;
        Ok(Gateways { epoch: parsed(text(epoch)?)?, age: duration(age)?, all })
    }

    async fn forget(&self, instance: &Instance) -> Result<(), PresenceError> {
        let Instance { gateway, incarnation } = instance;
        let arguments = vec![instance.to_string(), gateway.to_string(), incarnation.get().to_string()];
        let call = ScriptCall::new(&self.scripts.forget, self.names.gateways(), arguments);
        self.one(call).await.map(drop)
    }

    /// Checks of users are scheduled first: a death in between only leaves an unnecessary check.
    async fn change(&self, changes: &[Change]) -> Vec<Result<Changed, PresenceError>> {
        if let Some(why) = self.each(&self.notes(changes)).await.into_iter().find_map(Result::err) {
            return changes.iter().map(|_| Err(why)).collect();
        }
        let calls: Vec<_> = changes.iter().map(|change| self.change_call(change)).collect();
        self.each(&calls).await.into_iter().map(|reply| changed(reply?)).collect()
    }

    /// The epoch is read after them, so that an earlier loss is detected.
    async fn sessions(&self, users: &[UserId]) -> Result<Lookup, PresenceError> {
        let call = |user: &UserId| ScriptCall {
            script: &self.scripts.sessions,
            keys: vec![self.names.user(*user)],
            arguments: Vec::new(),
        };
        let calls: Vec<_> = users.iter().map(call).collect();
        let found = self.each(&calls).await;
        let users = found.into_iter().map(|reply| seen(reply?)).collect::<Result<_, _>>()?;
        let epoch = list(self.one(self.epoch_call(false)).await?)?;
        let age = epoch.get(1).ok_or(PresenceError::Unexpected).and_then(duration)?;
        Ok(Lookup { age, users })
    }

    async fn fanned(&self, user: UserId, version: i64) -> Result<i64, PresenceError> {
        let (keys, arguments) = (vec![self.names.user(user)], vec![version.to_string()]);
        number(&self.one(ScriptCall::new(&self.scripts.fanned, keys, arguments)).await?)
    }

    async fn due(&self, instance: &Instance, limit: usize, all: bool) -> Result<Vec<UserId>, PresenceError> {
        let keys = vec![self.names.of_gateway(instance)];
        let arguments = vec![limit.to_string(), u8::from(all).to_string()];
        users(self.one(ScriptCall::new(&self.scripts.due, keys, arguments)).await?)
    }

    async fn settle(
        &self,
        instance: &Instance,
        users: &[(UserId, Option<Duration>)],
        all: bool,
    ) -> Result<(), PresenceError> {
        let keys = vec![self.names.of_gateway(instance)];
        let mut arguments = vec![u8::from(all).to_string()];
        for (user, left) in users {
            arguments.push(user.to_string());
            arguments.push(left.map_or_else(|| "-1".to_owned(), milliseconds));
        }
        self.one(ScriptCall::new(&self.scripts.settle, keys, arguments)).await.map(drop)
    }
}

impl RedisPresence {
    fn epoch_call(&self, all: bool) -> ScriptCall<'_> {
        let arguments = vec![epoch(), u8::from(all).to_string()];
        ScriptCall::new(&self.scripts.gateways, self.names.gateways(), arguments)
    }

    fn notes(&self, changes: &[Change]) -> Vec<ScriptCall<'_>> {
        let mut noted: BTreeMap<(&Instance, &str, Duration), Vec<String>> = BTreeMap::new();
        for Change { user, instance, op } in changes {
            let (how, within) = match op {
                Op::Open(_, lasts) | Op::Renew(_, lasts) => ("replace", *lasts),
                Op::Close(_) => ("sooner", self.limits.look_again),
                Op::End | Op::Look => continue,
            };
            noted.entry((instance, how, within)).or_default().push(user.to_string());
        }
        let mut calls = Vec::new();
        for ((instance, how, within), users) in noted {
            for users in users.chunks(NOTED_AT_ONCE) {
                let mut arguments =
                    vec![how.to_owned(), milliseconds(within), milliseconds(self.limits.kept)];
                arguments.extend_from_slice(users);
                let keys = vec![self.names.of_gateway(instance)];
                calls.push(ScriptCall::new(&self.scripts.note, keys, arguments));
            }
        }
        calls
    }

    fn change_call(&self, Change { user, instance, op }: &Change) -> ScriptCall<'_> {
        let (what, device, lasts) = match op {
            Op::Open(device, lasts) => ("open", device.as_str(), *lasts),
            Op::Renew(device, lasts) => ("renew", device.as_str(), *lasts),
            Op::Close(device) => ("close", device.as_str(), Duration::ZERO),
            Op::End => ("end", "", Duration::ZERO),
            Op::Look => ("look", "", Duration::ZERO),
        };
        let arguments = vec![
            what.to_owned(),
            user.to_string(),
            self.names.channel(),
            device.to_owned(),
            instance.to_string(),
            milliseconds(lasts),
            self.limits.sessions_max.to_string(),
            milliseconds(self.limits.kept),
        ];
        ScriptCall::new(&self.scripts.change, vec![self.names.user(*user)], arguments)
    }
}

fn epoch() -> String {
    rand::random::<u64>().to_string()
}

fn changed(reply: Reply) -> Result<Changed, PresenceError> {
    if reply == Reply::Number(-1) {
        return Err(PresenceError::TooManySessions);
    }
    let replies = list(reply)?;
    let [known, version, fanned, now, at_instance, published] = &replies[..] else {
        return Err(PresenceError::Unexpected);
    };
    Ok(Changed {
        known: number(known)? > 0,
        state: UserState {
            version: number(version)?,
            fanned: number(fanned)?,
            gateways: gateways(text(now)?)?,
        },
        left: left(at_instance)?,
        published: number(published)? > 0,
    })
}

fn seen(reply: Reply) -> Result<Seen, PresenceError> {
    let replies = list(reply)?;
    let [version, fanned, sessions @ ..] = &replies[..] else { return Err(PresenceError::Unexpected) };
    let sessions = sessions.chunks(2).map(session).collect::<Result<_, _>>()?;
    Ok(Seen { version: number(version)?, fanned: number(fanned)?, sessions })
}

fn session(pair: &[Reply]) -> Result<Session, PresenceError> {
    let [name, left] = pair else { return Err(PresenceError::Unexpected) };
    let (device, instance) = text(name)?.split_once('|').ok_or(PresenceError::Unexpected)?;
    Ok(Session { device: parsed(device)?, instance: parsed(instance)?, left: duration(left)? })
}
