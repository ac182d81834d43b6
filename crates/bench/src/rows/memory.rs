//! The memory tier over moka.

use std::{fmt, hint::black_box, process::Command, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use futures::future::try_join_all;
use kith_cache::{
    Consistency, Key, LoadError, LoadOptions, Loaded, Loader, Node, NodeConfig, Policy, Tier, TieredCache,
    Version,
};
use kith_lab_servers::people;
use kith_store::User;
use tokio::time::timeout;

use crate::{
    claims::{
        ABSENCE_BYTES, GROWTH_OVER_COUNTED, MEMBERSHIP_BYTES, MEMORY_ENTRY_BYTES, MEMORY_HIT, Plan,
        USER_BYTES,
    },
    ratio::{Claim, Pair, Pieces, Side, interleave},
    results::Results,
};

/// Keys in one call.
const BATCH: usize = 500;
/// How long memory may take to be filled after the last answer.
const PATIENCE: Duration = Duration::from_secs(30);
const CAPACITY_BYTES: u64 = 4 << 30;
/// Longer than any run: nothing expires or is refreshed meanwhile.
const KEPT: Duration = Duration::from_hours(24);

/// moka as Kith uses it, and nothing around it.
pub(crate) type Moka = moka::sync::Cache<i64, Arc<User>, ahash::RandomState>;

/// Runs the requested rows.
pub(crate) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    results.row(&MEMORY_HIT, hit(plan)).await?;
    results.row(&MEMORY_ENTRY_BYTES, entry_bytes(plan)).await?;
    made_bytes(plan, results).await
}

/// An empty moka cache.
pub(crate) fn moka_cache() -> Moka {
    let weigh = |_: &i64, user: &Arc<User>| u32::try_from(user.weight()).unwrap_or(u32::MAX);
    moka::sync::Cache::builder()
        .max_capacity(CAPACITY_BYTES)
        .weigher(weigh)
        .build_with_hasher(ahash::RandomState::new())
}

/// An empty memory tier over a loader.
pub(crate) fn kith_cache(loader: SameValueLoader<User>) -> (Node, TieredCache<i64, User>) {
    let node = Node::new(NodeConfig { memory_bytes: CAPACITY_BYTES, ..NodeConfig::local(1) });
    let policy = Policy { ttl: KEPT, ..Policy::new("user", User::weight) };
    let cache = TieredCache::new(&node, policy, Arc::new(loader));
    (node, cache)
}

/// Like `kith_cache`, but over another loader.
pub(crate) fn made_cache<K: Key, V: fmt::Debug + Send + Sync + 'static, F>(
    loader: MadeLoader<F>,
    weight: fn(&V) -> usize,
) -> (Node, TieredCache<K, V>)
where
    F: Fn(&K) -> Loaded<V> + Send + Sync + 'static,
{
    let node = Node::new(NodeConfig { memory_bytes: CAPACITY_BYTES, ..NodeConfig::local(1) });
    let policy = Policy { ttl: KEPT, ..Policy::new("made", weight) };
    let cache = TieredCache::new(&node, policy, Arc::new(loader));
    (node, cache)
}

/// Makes a record for every key, or finds none.
pub(crate) struct MadeLoader<F>(pub(crate) F);

impl<F> fmt::Debug for MadeLoader<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MadeLoader")
    }
}

#[async_trait]
impl<K: Key, V: fmt::Debug + Send + Sync + 'static, F> Loader<K, V> for MadeLoader<F>
where
    F: Fn(&K) -> Loaded<V> + Send + Sync + 'static,
{
    async fn load(&self, key: &K, _options: LoadOptions) -> Result<Loaded<V>, LoadError> {
        Ok(self.0(key))
    }

    async fn load_many(&self, keys: &[K], _options: LoadOptions) -> Result<Vec<(K, Loaded<V>)>, LoadError> {
        Ok(keys.iter().map(|key| (key.clone(), self.0(key))).collect())
    }
}

/// Finds one record under every key.
#[derive(Debug)]
pub(crate) struct SameValueLoader<V>(pub(crate) Arc<V>);

#[async_trait]
impl<V: fmt::Debug + Send + Sync + 'static> Loader<i64, V> for SameValueLoader<V> {
    async fn load(&self, _key: &i64, _options: LoadOptions) -> Result<Loaded<V>, LoadError> {
        Ok(Loaded::Found { value: Arc::clone(&self.0), version: Version::new(1) })
    }

    async fn load_many(
        &self,
        keys: &[i64],
        options: LoadOptions,
    ) -> Result<Vec<(i64, Loaded<V>)>, LoadError> {
        try_join_all(keys.iter().map(async |key: &i64| Ok((*key, self.load(key, options).await?)))).await
    }
}

/// Reads these keys into an empty memory tier. A large batch is answered before memory is filled: this waits
/// until it is.
///
/// # Errors
/// If a read fails, or memory does not hold every key in time.
pub(crate) async fn fill<K: Key, V: fmt::Debug + Send + Sync + 'static>(
    node: &Node,
    cache: &TieredCache<K, V>,
    keys: &[K],
) -> Result<()> {
    for keys in keys.chunks(BATCH) {
        for found in cache.get_many(keys, &Consistency::Cached).await {
            found?;
        }
    }
    let held = || node.namespaces().iter().map(|namespace| namespace.stats().entries).sum::<u64>();
    let filled = async {
        while usize::try_from(held()).is_ok_and(|held| held < keys.len()) {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, filled).await.with_context(|| format!("the memory tier holds {} entries", held()))
}

async fn hit(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let records = plan.size(100_000, 1_000);
    let keys = people::shuffled(records, 1);
    let value = Arc::new(people::user(1)?);
    let moka = moka_cache();
    keys.iter().for_each(|key| moka.insert(*key, Arc::clone(&value)));
    moka.run_pending_tasks();
    let (node, cache) = kith_cache(SameValueLoader(value));
    fill(&node, &cache, &keys).await?;
    for key in &keys {
        let entry = cache.get(key).await?.context("a key was lost")?;
        ensure!(entry.tier == Tier::Memory, "a key is not in memory");
    }
    // Records are read in another order than they were inserted in: consecutive allocations are adjacent in
    // memory, and the processor reads ahead. Real requests have no such order.
    let asked = people::shuffled(records, 2);
    let passes = plan.size(20, 1);
    interleave(plan.rounds, async |side| match side {
        Side::Baseline => Ok(time_moka(&moka, &asked, passes)),
        Side::Kith => Ok(time_kith(&cache, &asked, passes).await),
    })
    .await
}

fn time_moka(cache: &Moka, keys: &[i64], passes: usize) -> f64 {
    let mut pieces = Pieces::begin();
    for _ in 0..passes {
        for key in keys {
            black_box(cache.get(black_box(key)));
        }
        pieces.end_piece(keys.len());
    }
    pieces.nanos_an_operation()
}

async fn time_kith(cache: &TieredCache<i64, User>, keys: &[i64], passes: usize) -> f64 {
    let mut pieces = Pieces::begin();
    for _ in 0..passes {
        for key in keys {
            // A failure would be a miss, which shows in the time; the keys were checked before.
            drop(black_box(cache.get(black_box(key)).await));
        }
        pieces.end_piece(keys.len());
    }
    pieces.nanos_an_operation()
}

async fn entry_bytes(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    interleave(rounds(plan), async |side| Ok(in_a_process(plan, side.of("moka", "kith"))?.0)).await
}

/// Measures distinct records; the baseline is what the memory tier counts for them.
async fn made_bytes(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let claims: [(&Claim, &str); 3] =
        [(&USER_BYTES, "user"), (&MEMBERSHIP_BYTES, "membership"), (&ABSENCE_BYTES, "absence")];
    let mut users = Vec::new();
    for (claim, kind) in claims {
        let is_asked = plan.wants(claim) || (kind == "user" && plan.wants(&GROWTH_OVER_COUNTED));
        if !is_asked {
            continue;
        }
        let measured = (0..rounds(plan)).map(|_| in_a_process(plan, kind));
        let pairs: Vec<_> = measured
            .map(|bytes| bytes.map(|(kith, baseline)| Pair { baseline, kith }))
            .collect::<Result<_>>()?;
        results.add(claim, &pairs)?;
        if kind == "user" {
            users = pairs;
        }
    }
    if users.is_empty() { Ok(()) } else { results.add(&GROWTH_OVER_COUNTED, &users) }
}

fn rounds(plan: &Plan) -> usize {
    plan.rounds.min(plan.size(5, 1))
}

/// Returns how many bytes a process grows for an entry, and how many are counted.
fn in_a_process(plan: &Plan, kind: &str) -> Result<(f64, f64)> {
    let entries = plan.size("1000000", "50000");
    let output = Command::new(std::env::current_exe()?).args(["entry-bytes", kind, entries]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout)?;
    let (grown, counted) = printed.trim().split_once(' ').context("two numbers are printed")?;
    Ok((grown.parse()?, counted.parse()?))
}
