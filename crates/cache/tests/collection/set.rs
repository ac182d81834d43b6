//! A small set is one record.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kith_cache::{
    Change, LoadError, LoadOptions, Loaded, Loader, Node, Policy, SmallSet, TieredCache, Version, load_each,
};
use parking_lot::Mutex;

type Members = SmallSet<u64>;

fn set(members: impl IntoIterator<Item = u64>) -> Arc<Members> {
    Arc::new(SmallSet::new(members, |_| 8))
}

/// Group members, and the version of each member list.
#[derive(Default)]
struct Groups {
    members: Mutex<(Vec<u64>, u64)>,
    loads: AtomicUsize,
}

#[async_trait::async_trait]
impl Loader<u64, Members> for Groups {
    async fn load(&self, _group: &u64, _options: LoadOptions) -> Result<Loaded<Members>, LoadError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let (members, version) = self.members.lock().clone();
        Ok(Loaded::Found { value: set(members), version: Version::new(version) })
    }

    async fn load_many(
        &self,
        keys: &[u64],
        options: LoadOptions,
    ) -> Result<Vec<(u64, Loaded<Members>)>, LoadError> {
        load_each(self, keys, options).await
    }
}

fn stage() -> (Arc<Groups>, TieredCache<u64, Members>) {
    let groups = Arc::new(Groups::default());
    let policy = Policy::new("members", Members::weight);
    let cache = TieredCache::new(&Node::local(1), policy, Arc::<Groups>::clone(&groups) as _);
    (groups, cache)
}

#[tokio::test]
async fn set_is_written_through_with_its_version() {
    let (groups, cache) = stage();
    *groups.members.lock() = (vec![3, 1, 2], 4);
    let read = cache.get(&1).await.unwrap().unwrap();
    assert_eq!((read.value.members(), read.version.get()), (Some(&[1, 2, 3][..]), 4));
    let guard = cache.begin_write(&[1]).await;
    *groups.members.lock() = (vec![1, 3], 5);
    let change = Change::Put { value: set([1, 3]), version: Version::new(5) };
    guard.committed(vec![(1, change)]).await.unwrap();
    let read = cache.get(&1).await.unwrap().unwrap();
    assert_eq!((read.value.contains(&2), read.version.get()), (Some(false), 5));
    assert_eq!(groups.loads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn oversized_set_is_remembered_as_oversized() {
    let (groups, cache) = stage();
    *groups.members.lock() = ((0..3_000).collect(), 1);
    for _ in 0..3 {
        let read = cache.get(&1).await.unwrap().unwrap();
        assert_eq!((read.value.members(), read.value.contains(&5)), (None, None));
    }
    assert_eq!(groups.loads.load(Ordering::SeqCst), 1);
}
