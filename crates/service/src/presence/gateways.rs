//! The gateways' state on this node: which are alive, and whether presence was lost recently.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use kith_presence::{GatewayId, Gateways, Instance};
use parking_lot::RwLock;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// The gateways at the last check.
#[derive(Debug, Default)]
pub(super) struct KnownGateways(RwLock<CheckedGateways>);

#[derive(Debug, Default)]
struct CheckedGateways {
    /// The epoch, when it was checked, and its age at that time.
    epoch: Option<(u64, Instant, Duration)>,
    /// A new epoch was seen, and not reported yet.
    lost: bool,
    dead: HashSet<Instance>,
    /// The time until which each gateway is alive, by the last check.
    living: BTreeMap<GatewayId, Instant>,
}

/// A page of live gateways.
#[derive(Clone, Debug)]
pub(super) struct GatewayPage {
    /// The gateways by rising id, each with the time for which it stays alive without a heartbeat.
    pub(super) gateways: Vec<(GatewayId, Duration)>,
    /// The next page's position; `None`: the last page.
    pub(super) next: Option<[i64; 3]>,
}

impl KnownGateways {
    /// Stores a check's result.
    pub(super) fn update(&self, seen: Gateways) {
        let now = Instant::now();
        let (mut dead, mut living) = (HashSet::new(), BTreeMap::new());
        for state in seen.all {
            if state.left.is_zero() {
                dead.insert(state.instance);
            } else {
                living.insert(state.instance.gateway, now + state.left);
            }
        }
        let mut known = self.0.write();
        let lost = known.lost || known.epoch.is_some_and(|(epoch, ..)| epoch != seen.epoch);
        *known = CheckedGateways { epoch: Some((seen.epoch, now, seen.age)), lost, dead, living };
    }

    /// Whether presence was lost since the last call.
    pub(super) fn was_lost(&self) -> bool {
        std::mem::take(&mut self.0.write().lost)
    }

    /// Whether the gateway was seen as dead. False if it appeared since.
    pub(super) fn is_dead(&self, instance: &Instance) -> bool {
        self.0.read().dead.contains(instance)
    }

    /// The gateways among these that are not dead, under any incarnation.
    pub(super) fn without_dead(&self, gateways: &[GatewayId]) -> Vec<GatewayId> {
        let known = self.0.read();
        if known.dead.is_empty() {
            return gateways.to_vec();
        }
        let is_dead = |id: &GatewayId| {
            !known.living.contains_key(id) && known.dead.iter().any(|instance| instance.gateway == *id)
        };
        gateways.iter().filter(|id| !is_dead(id)).cloned().collect()
    }

    /// Whether presence was not lost for this time, so that users who are not seen are offline.
    pub(super) fn is_settled(&self, unknown_for: Duration) -> bool {
        self.0.read().epoch.is_some_and(|(_, at, age)| age + at.elapsed() >= unknown_for)
    }

    /// The live gateways after this gateway, by rising id, each with its remaining time; at most this many.
    pub(super) fn living(&self, after: &str, limit: usize) -> Vec<(GatewayId, Duration)> {
        let now = Instant::now();
        let known = self.0.read();
        let living = known.living.iter().filter(|(id, until)| id.as_str() > after && **until > now);
        living.map(|(id, until)| (id.clone(), until.saturating_duration_since(now))).take(limit).collect()
    }

    /// A page of live gateways. A position contains the number of gateways before it, and the last gateway's
    /// shortened id: if that gateway died in between, the list continues from its position.
    pub(super) fn page(&self, position: Option<[i64; 3]>, size: usize) -> GatewayPage {
        let all = self.living("", usize::MAX);
        let from = position.map_or(0, |position| index_after(&all, position));
        let gateways: Vec<_> = all.iter().skip(from).take(size).cloned().collect();
        let until = from + gateways.len();
        let last = all.get(until.saturating_sub(1)).filter(|_| until < all.len());
        GatewayPage { gateways, next: last.map(|(last, _)| position_after(until, last)) }
    }

    pub(super) fn count(&self) -> usize {
        self.0.read().living.len()
    }

    /// The gateways that were seen as dead. They are forgotten after they are swept.
    pub(super) fn count_dead(&self) -> usize {
        self.0.read().dead.len()
    }
}

/// The number of earlier gateways, and 16 bytes that identify the last gateway.
fn position_after(before: usize, last: &GatewayId) -> [i64; 3] {
    let hash = Sha256::digest(last.as_str());
    let (numbers, _) = hash.as_chunks::<8>();
    let number = |at: usize| numbers.get(at).map_or(0, |bytes| i64::from_be_bytes(*bytes));
    [i64::try_from(before).unwrap_or(i64::MAX), number(0), number(1)]
}

/// Returns the index of the first gateway after this position.
fn index_after<T>(all: &[(GatewayId, T)], position: [i64; 3]) -> usize {
    let [before, ..] = position;
    let last = all.iter().position(|(id, _)| position_after(0, id)[1..] == position[1..]);
    last.map(|at| at + 1).unwrap_or_else(|| usize::try_from(before).unwrap_or(0).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use kith_presence::{GatewayState, Incarnation};

    use super::*;

    fn seen(epoch: u64, age: u64, all: &[(&str, i64, u64)]) -> Gateways {
        let state = |(id, incarnation, left): &(&str, i64, u64)| GatewayState {
            instance: Instance {
                gateway: id.parse().unwrap(),
                incarnation: Incarnation::new(*incarnation).unwrap(),
            },
            left: Duration::from_secs(*left),
        };
        Gateways { epoch, age: Duration::from_secs(age), all: all.iter().map(state).collect() }
    }

    #[test]
    fn returned_gateway_is_not_dead() {
        let known = KnownGateways::default();
        known.update(seen(1, 0, &[("a", 1, 0), ("a", 2, 9), ("b", 1, 0)]));
        let ids: Vec<GatewayId> = ["a", "b", "c"].map(|id| id.parse().unwrap()).to_vec();
        assert_eq!(known.without_dead(&ids), [ids[0].clone(), ids[2].clone()]);
        let living: Vec<_> = known.living("", 9).into_iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(living, ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn young_epoch_settles_and_a_new_one_is_a_loss() {
        let known = KnownGateways::default();
        let thirty = Duration::from_secs(30);
        assert!(!known.is_settled(thirty), "nothing is known yet");
        known.update(seen(1, 20, &[]));
        assert!(!known.is_settled(thirty) && !known.was_lost());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(known.is_settled(thirty));
        known.update(seen(2, 0, &[]));
        known.update(seen(2, 0, &[]));
        assert!(!known.is_settled(thirty));
        assert!(known.was_lost() && !known.was_lost());
    }

    fn all(ids: &[&str]) -> Vec<(GatewayId, ())> {
        ids.iter().map(|id| (id.parse().unwrap(), ())).collect()
    }

    #[test]
    fn list_continues_after_its_last_gateway() {
        let position = position_after(2, &"b".parse().unwrap());
        assert_eq!(index_after(&all(&["a", "b", "c"]), position), 2);
        assert_eq!(index_after(&all(&["0", "a", "b", "c"]), position), 3);
        assert_eq!(index_after(&all(&["b", "c"]), position), 1);
        assert_eq!(index_after(&all(&["a", "c"]), position), 1, "the last one is gone: from its position");
        assert_eq!(index_after(&all(&[]), position), 1);
    }
}
