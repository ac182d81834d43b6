//! Re-sync: comparison of copies with their originals, to measure staleness. No bound depends on it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use super::{
    inner::CacheState,
    resync_rounds::{AgingCopy, SUSPECTS_MAX, SuspectCopy},
};
use crate::{
    CacheError, Key, Node, Tier, Version,
    remote::{Header, address},
    source::read::LoadRequest,
};

/// One in this many copies that are compared with the shared tier is also compared with the store.
const STORE_EVERY: usize = 25;
/// Most copies of memory in one round. A larger memory takes several rounds.
const ROUND_MAX: usize = 50_000;

/// The configuration of [`Resyncer::run`].
#[derive(Clone, Copy, Debug)]
pub struct Resyncer {
    /// Copies compared in one step.
    pub step: usize,
    /// Largest ratio between a step's duration, including waits for answers, and the pause after it.
    pub share: f64,
    /// Shortest and longest pause between two steps.
    pub pause: (Duration, Duration),
    /// Shortest time between a namespace's rounds, and how many times as long as the walk over memory that
    /// found its copies. Each step asks Redis and the store, so that a node with little in memory would ask
    /// them ten times a second for the same copies; each walk passes all namespaces' copies.
    pub round_pause: (Duration, u32),
}

impl Default for Resyncer {
    /// 500; a fiftieth; 100 ms and 10 s; 5 s, and a thousand times.
    fn default() -> Self {
        Self {
            step: 500,
            share: 0.02,
            pause: (Duration::from_millis(100), Duration::from_secs(10)),
            round_pause: (Duration::from_secs(5), 1_000),
        }
    }
}

impl Resyncer {
    /// Compares the memories of all the node's namespaces, round after round, until it is dropped.
    pub async fn run(&self, node: &Node) {
        let mut rests: HashMap<&'static str, Instant> = HashMap::new();
        loop {
            let mut pause = self.pause.0;
            for namespace in node.namespaces() {
                let began = Instant::now();
                let name = namespace.name();
                if rests.get(name).is_some_and(|until| began < *until) {
                    continue;
                }
                // Copies that cannot be compared now are compared in a later round.
                let rest = match namespace.resync(self.step).await {
                    Ok(report) if !report.round_ended => None,
                    Ok(report) => {
                        Some(self.round_pause.0.max(report.walked_for.saturating_mul(self.round_pause.1)))
                    }
                    Err(_) => Some(self.round_pause.0),
                };
                match rest {
                    Some(rest) => rests.insert(name, Instant::now() + rest),
                    None => rests.remove(name),
                };
                pause = pause.max(began.elapsed().div_f64(self.share.max(0.001)).min(self.pause.1));
            }
            tokio::time::sleep(pause).await;
        }
    }
}

/// The result of a re-sync step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResyncReport {
    /// Pairs of copies that were compared.
    pub checked: u64,
    /// Copies that were wrong, or kept, for longer than their bound; they were dropped.
    pub stale: u64,
    /// Copies with a known newer version. They are compared again after their bound.
    pub suspects: u64,
    /// Whether all copies that the round took from memory have been compared.
    pub round_ended: bool,
    /// How long the walk over memory took that found the copies of the round.
    pub walked_for: Duration,
}

impl<K: Key, V: Send + Sync + 'static> CacheState<K, V> {
    /// Compares up to `most` copies in memory with the shared tier, and some with the store. Compares copies
    /// again that were found older before.
    pub(crate) async fn resync_step(&self, most: usize) -> Result<ResyncReport, CacheError> {
        let stale = self.recheck_suspects().await? + self.recheck_aging().await?;
        let chunk = self.next_chunk(most.max(1)).await;
        let checked = self.compare(&chunk).await?;
        let state = self.resync_rounds.0.lock();
        let suspects = u64::try_from(state.suspects.len()).unwrap_or(u64::MAX);
        self.counters.resync_checked.add(checked);
        let (round_ended, walked_for) = (state.left.is_empty(), state.walked_for);
        Ok(ResyncReport { checked, stale, suspects, round_ended, walked_for })
    }

    /// The next copies of the round; when it has ended, a new one begins.
    async fn next_chunk(&self, most: usize) -> Vec<(Arc<K>, Version)> {
        if self.resync_rounds.0.lock().left.is_empty() {
            let walk = self.memory.versions(ROUND_MAX, self.node.random_unit());
            let began = Instant::now();
            let copies = tokio::task::spawn_blocking(walk).await.unwrap_or_default();
            let mut state = self.resync_rounds.0.lock();
            (state.left, state.walked_for) = (copies, began.elapsed());
        }
        let mut state = self.resync_rounds.0.lock();
        let from = state.left.len().saturating_sub(most);
        state.left.split_off(from)
    }

    /// Finds copies with a known newer version. Returns the number of compared pairs.
    async fn compare(&self, chunk: &[(Arc<K>, Version)]) -> Result<u64, CacheError> {
        let heads = self.heads(chunk.iter().map(|(key, _)| &**key)).await?;
        self.watch_ages(chunk, &heads);
        let mut suspects = Vec::new();
        for ((key, version), head) in chunk.iter().zip(&heads) {
            let Some(head) = head else { continue };
            if *version < head.version {
                suspects.push((key, Tier::Memory, *version));
            } else if head.is_copy() && head.version < *version {
                suspects.push((key, Tier::Redis, head.version));
            }
        }
        let pairs = heads.iter().flatten().count();
        let sampled: Vec<usize> = (0..chunk.len()).step_by(STORE_EVERY).collect();
        let keys: Vec<&K> = sampled.iter().map(|at| &*chunk[*at].0).collect();
        for (at, store_version) in sampled.iter().zip(self.store_versions(&keys).await?) {
            let (key, version) = &chunk[*at];
            if *version < store_version {
                suspects.push((key, Tier::Memory, *version));
            }
            if let Some(Some(head)) = heads.get(*at)
                && head.is_copy()
                && head.version < store_version
            {
                suspects.push((key, Tier::Redis, head.version));
            }
        }
        self.add_suspects(suspects);
        Ok(u64::try_from(pairs + sampled.len()).unwrap_or(u64::MAX))
    }

    /// Remembers copies that have an age limit, to look at them again when it has passed.
    fn watch_ages(&self, chunk: &[(Arc<K>, Version)], heads: &[Option<Header>]) {
        if self.policy.age_max.is_none() {
            return;
        }
        let mut state = self.resync_rounds.0.lock();
        for ((key, _), head) in chunk.iter().zip(heads) {
            let Some(head) = head.filter(Header::is_copy) else { continue };
            let is_known = state.aging.iter().any(|one| one.key == **key);
            if !is_known && state.aging.len() < SUSPECTS_MAX {
                state.aging.push(AgingCopy { key: (**key).clone(), head, since: Instant::now() });
            }
        }
    }

    /// Counts and drops the copies that are still there after the longest age of a copy. Returns their
    /// number.
    async fn recheck_aging(&self) -> Result<u64, CacheError> {
        let Some(age_max) = self.policy.age_max else { return Ok(0) };
        let connected_for = self.connected_for();
        let due: Vec<AgingCopy<K>> = {
            let mut state = self.resync_rounds.0.lock();
            let is_due = |aging: &mut AgingCopy<K>| aging.since.elapsed().min(connected_for) >= age_max;
            state.aging.extract_if(.., is_due).collect()
        };
        let heads = self.heads(due.iter().map(|aging| &aging.key)).await?;
        let is_same = |(aging, head): &(&AgingCopy<K>, &Option<Header>)| **head == Some(aging.head);
        let stale: Vec<&K> = due.iter().zip(&heads).filter(is_same).map(|(aging, _)| &aging.key).collect();
        if stale.is_empty() {
            return Ok(0);
        }
        let count = u64::try_from(stale.len()).unwrap_or(u64::MAX);
        tracing::error!(
            namespace = self.policy.name,
            tier = Tier::Redis.as_str(),
            count,
            "copies were kept for longer than their bound; dropped"
        );
        self.counters.resync_stale_redis.add(count);
        let changes = self.invalidate_here(stale.into_iter().map(|key| (key, None)));
        self.publish(&changes).await?;
        Ok(count)
    }

    fn add_suspects(&self, found: Vec<(&Arc<K>, Tier, Version)>) {
        let mut state = self.resync_rounds.0.lock();
        for (key, tier, version) in found {
            let known = state.suspects.iter().any(|one| one.key == **key && one.tier == tier);
            if !known && version.is_versioned() && state.suspects.len() < SUSPECTS_MAX {
                state.suspects.push(SuspectCopy {
                    key: (**key).clone(),
                    tier,
                    version,
                    since: Instant::now(),
                });
            }
        }
    }

    /// Compares suspects again whose bound has passed. Those that are still older than the store are wrong:
    /// they are counted and dropped. Returns their number.
    async fn recheck_suspects(&self) -> Result<u64, CacheError> {
        let connected_for = self.connected_for();
        let due: Vec<SuspectCopy<K>> = {
            let mut state = self.resync_rounds.0.lock();
            let is_due = |suspect: &mut SuspectCopy<K>| suspect.is_due(self.policy.age_max, connected_for);
            state.suspects.extract_if(.., is_due).collect()
        };
        if due.is_empty() {
            return Ok(0);
        }
        let keys: Vec<&K> = due.iter().map(|suspect| &suspect.key).collect();
        let heads = self.heads(keys.iter().copied()).await?;
        // A key may be due twice, in memory and in the shared tier; the store answers it once.
        let distinct: Vec<&K> = keys.iter().copied().collect::<HashSet<_>>().into_iter().collect();
        let store_versions = self.store_versions(&distinct).await?;
        let store_versions: HashMap<&K, Version> = distinct.into_iter().zip(store_versions).collect();
        let mut stale = 0;
        for (at, suspect) in due.iter().enumerate() {
            let Some(store_version) = store_versions.get(&suspect.key) else { continue };
            let head = heads.get(at).copied().flatten();
            stale += u64::from(self.drop_if_stale(suspect, *store_version, head).await?);
        }
        Ok(stale)
    }

    /// How long this node has received changes and published its own. Before that, an old copy is the effect
    /// of an outage and not a defect: what the outage leaves behind is repaired within the bound after its
    /// end.
    fn connected_for(&self) -> Duration {
        let published = self.shared.as_ref().map_or(Duration::MAX, |side| side.sharing.queue.empty_for());
        self.node.trusted_for().min(published)
    }

    async fn drop_if_stale(
        &self,
        suspect: &SuspectCopy<K>,
        store_version: Version,
        head: Option<Header>,
    ) -> Result<bool, CacheError> {
        if suspect.version >= store_version {
            return Ok(false);
        }
        let is_unchanged = match suspect.tier {
            Tier::Memory => self.memory.slot(&suspect.key).map(|slot| slot.version),
            Tier::Redis | Tier::Store => head.filter(Header::is_copy).map(|head| head.version),
        } == Some(suspect.version);
        if !is_unchanged {
            return Ok(false);
        }
        tracing::error!(
            namespace = self.policy.name,
            tier = suspect.tier.as_str(),
            "a copy was wrong for longer than its bound; dropped"
        );
        if suspect.tier == Tier::Memory {
            self.counters.resync_stale_memory.add(1);
            self.invalidate_one(&suspect.key, Some(store_version));
        } else {
            self.counters.resync_stale_redis.add(1);
            let changes = self.invalidate_here(std::iter::once((&suspect.key, Some(store_version))));
            self.publish(&changes).await?;
        }
        Ok(true)
    }

    /// The shared tier's copies for these keys, if there is a shared tier.
    async fn heads(&self, keys: impl Iterator<Item = &K>) -> Result<Vec<Option<Header>>, CacheError> {
        let Some(side) = &self.shared else { return Ok(Vec::new()) };
        let epoch = self.node.epoch();
        let addresses: Vec<String> = keys.map(|key| address(epoch, self.policy.name, key)).collect();
        if addresses.is_empty() {
            return Ok(Vec::new());
        }
        let heads = side.sharing.backend.heads(&addresses).await;
        heads.map_err(|error| CacheError::Bus(crate::BusError::new(error)))
    }

    async fn store_versions(&self, keys: &[&K]) -> Result<Vec<Version>, CacheError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let outcomes = self.fetch(keys, LoadRequest::STRONG).await;
        outcomes.into_iter().map(|outcome| outcome.result.map(|loaded| loaded.version())).collect()
    }
}
