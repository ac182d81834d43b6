//! Online group members, in memory.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Bound,
    time::Duration,
};

use kith_store::{GroupId, UserId};
use tokio::time::Instant;

use crate::{ActiveMember, Distribution, GatewayId, UserState};

/// Each change forgets this many users who went offline long ago.
const FORGOTTEN_AT_ONCE: usize = 10;

/// Holds the online members of groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: HashMap<GroupId, Group>,
    /// Users who went offline, with times, about the earliest first. Each at most once, however often it
    /// toggles.
    gone: VecDeque<(Instant, GroupId, UserId)>,
}

#[derive(Debug, Default)]
struct Group {
    version: i64,
    total: u32,
    /// Online users, and for a while those who went offline.
    users: BTreeMap<UserId, Entry>,
    gateways: BTreeMap<GatewayId, u32>,
}

#[derive(Debug, Default)]
struct Entry {
    version: i64,
    gateways: Vec<GatewayId>,
    /// The time since which it is offline: it may have returned and gone again since it was recorded.
    offline_since: Option<Instant>,
    /// Whether it is in [`Groups::gone`].
    is_queued: bool,
}

impl Groups {
    /// `version`: the group's version, if this changes it.
    pub(super) fn apply(
        &mut self,
        group: GroupId,
        user: UserId,
        state: &UserState,
        version: i64,
        kept: Duration,
    ) -> bool {
        self.forget(kept);
        let known = self.groups.get(&group).and_then(|known| known.users.get(&user));
        if known.is_some_and(|known| known.version > state.version) {
            return false;
        }
        self.put(group, user, (state.version, state.gateways.clone()), version)
    }

    pub(super) fn leave(&mut self, group: GroupId, user: UserId, version: i64) -> bool {
        let known = self.groups.get(&group).and_then(|known| known.users.get(&user));
        let Some(known) = known.map(|known| known.version) else { return false };
        self.put(group, user, (known, Vec::new()), version)
    }

    pub(super) fn distribution(&self, group: GroupId) -> Distribution {
        let Some(group) = self.groups.get(&group) else { return Distribution::default() };
        let gateways = group.gateways.iter().map(|(gateway, count)| (gateway.clone(), *count)).collect();
        Distribution { version: group.version, total: group.total, gateways }
    }

    pub(super) fn active(&self, group: GroupId, after: Option<UserId>, limit: usize) -> Vec<ActiveMember> {
        let Some(group) = self.groups.get(&group) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let users = group.users.range((from, Bound::Unbounded));
        let online = users.filter(|(_, entry)| !entry.gateways.is_empty());
        let member =
            |(user, entry): (&UserId, &Entry)| ActiveMember { user: *user, gateways: entry.gateways.clone() };
        online.map(member).take(limit).collect()
    }

    /// `of_user`: the user's version and gateways.
    fn put(&mut self, id: GroupId, user: UserId, of_user: (i64, Vec<GatewayId>), version: i64) -> bool {
        let group = self.groups.entry(id).or_default();
        let entry = group.users.entry(user).or_default();
        let (user_version, gateways) = of_user;
        entry.version = user_version;
        let before = std::mem::replace(&mut entry.gateways, gateways.clone());
        entry.offline_since = gateways.is_empty().then(Instant::now);
        if let Some(offline_since) = entry.offline_since
            && !std::mem::replace(&mut entry.is_queued, true)
        {
            self.gone.push_back((offline_since, id, user));
        }
        if before == gateways {
            return false;
        }
        group.version = version;
        group.total += u32::from(before.is_empty());
        group.total -= u32::from(gateways.is_empty());
        for gateway in gateways.iter().filter(|gateway| !before.contains(gateway)) {
            *group.gateways.entry(gateway.clone()).or_default() += 1;
        }
        for gateway in before.iter().filter(|gateway| !gateways.contains(gateway)) {
            if let Some(count) = group.gateways.get_mut(gateway) {
                *count -= 1;
            }
        }
        group.gateways.retain(|_, count| *count > 0);
        true
    }

    #[cfg(test)]
    pub(super) fn queued(&self) -> usize {
        self.gone.len()
    }

    fn forget(&mut self, kept: Duration) {
        for _ in 0..FORGOTTEN_AT_ONCE {
            let Some((_, id, user)) = self.gone.pop_front_if(|(at, ..)| at.elapsed() >= kept) else { return };
            let Some(group) = self.groups.get_mut(&id) else { continue };
            let Some(entry) = group.users.get_mut(&user) else { continue };
            entry.is_queued = false;
            match entry.offline_since {
                Some(offline_since) if offline_since.elapsed() >= kept => drop(group.users.remove(&user)),
                // It went again meanwhile.
                Some(offline_since) => {
                    entry.is_queued = true;
                    self.gone.push_back((offline_since, id, user));
                }
                None => {}
            }
            if group.users.is_empty() {
                self.groups.remove(&id);
            }
        }
    }
}
