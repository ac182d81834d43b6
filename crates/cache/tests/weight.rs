//! Memory counts as many bytes as the process uses.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

use std::{fs, sync::Arc};

use async_trait::async_trait;
use kith_cache::{
    Consistency, LoadError, LoadOptions, Loaded, Loader, Node, NodeConfig, Policy, TieredCache, Version,
    load_each,
};

/// The product uses the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ENTRIES: u64 = 200_000;
const BATCH: usize = 500;
const PAGE_BYTES: u64 = 4096;
/// A record's bytes, like for a user with a few texts.
const VALUE_BYTES: usize = 300;

/// A third of the keys have a large record, a third a small record, and a third no record.
#[derive(Debug)]
struct Thirds;

/// A record of this many bytes.
type Record = Box<[u8]>;

#[async_trait]
impl Loader<u64, Record> for Thirds {
    async fn load(&self, key: &u64, _: LoadOptions) -> Result<Loaded<Record>, LoadError> {
        let version = Version::new(1);
        Ok(match key % 3 {
            0 => Loaded::Absent { version },
            1 => Loaded::Found { value: Arc::new(vec![1; 80].into()), version },
            _ => Loaded::Found { value: Arc::new(vec![1; VALUE_BYTES].into()), version },
        })
    }

    async fn load_many(
        &self,
        keys: &[u64],
        options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<Record>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * PAGE_BYTES
}

async fn fill(node: &Node, cache: &TieredCache<u64, Record>, keys: std::ops::Range<u64>) -> (u64, u64) {
    let (before, keys) = (resident(), keys.collect::<Vec<_>>());
    let counted = || node.namespaces()[0].stats();
    let start = counted();
    for (number, keys) in keys.chunks(BATCH).enumerate() {
        cache.get_many(keys, &Consistency::Cached).await;
        // Loads that have not filled memory take some, too.
        while counted().entries < start.entries + (number * BATCH + keys.len()) as u64 {
            tokio::task::yield_now().await;
        }
    }
    (resident() - before, counted().weight_bytes - start.weight_bytes)
}

#[tokio::test]
async fn counted_bytes_are_used_bytes() {
    let node = Node::new(NodeConfig { memory_bytes: 1 << 30, ..NodeConfig::local(1) });
    let policy = Policy::new("thing", |record: &Record| size_of_val(record) + record.len());
    let cache = TieredCache::new(&node, policy, Arc::new(Thirds));
    // The first copies bring tables, threads and the reserves of the allocator.
    fill(&node, &cache, 0..ENTRIES / 4).await;
    let (used, counted) = fill(&node, &cache, ENTRIES / 4..ENTRIES).await;
    let parts = used * 100 / counted;
    assert!((85..=115).contains(&parts), "{used} bytes are used where {counted} are counted");
}
