//! Writes in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};

use kith_cache::{LoadError, LoadOptions, Loaded, Loader, Policy, Version};
use tokio::{sync::oneshot, time::sleep};
use tonic::Status;
use tonic_types::StatusExt as _;

use super::*;
use crate::error::Reason;

const SECOND: Duration = Duration::from_secs(1);

/// One record; its value is its version.
#[derive(Default)]
struct Record(AtomicU64);

impl Record {
    fn loaded(&self) -> Loaded<u64> {
        let version = self.0.load(Ordering::SeqCst);
        Loaded::Found { value: Arc::new(version), version: Version::new(version) }
    }
}

#[async_trait::async_trait]
impl<K: Key + Copy> Loader<K, u64> for Record {
    async fn load(&self, _key: &K, _options: LoadOptions) -> Result<Loaded<u64>, LoadError> {
        Ok(self.loaded())
    }

    async fn load_many(&self, keys: &[K], _options: LoadOptions) -> Result<Vec<(K, Loaded<u64>)>, LoadError> {
        Ok(keys.iter().map(|key| (*key, self.loaded())).collect())
    }
}

#[tokio::test(start_paused = true)]
async fn write_that_lands_very_late_is_seen() {
    let node = Node::local(1);
    let record = Arc::new(Record(AtomicU64::new(1)));
    let policy = Policy { ttl: Policy::<u64>::UNTIL_CHANGED, ..Policy::new("thing", |_| 8) };
    let loader: Arc<dyn Loader<u64, u64>> = Arc::<Record>::clone(&record);
    let cache = TieredCache::new(&node, policy, loader);
    let limits = WriteLimits { at_once: 1, wait: SECOND, takes: 10 * SECOND, answer: 2 * SECOND };
    let mutations = Mutations::new(node, &limits);
    let write = async move {
        tokio::time::sleep(200 * SECOND).await;
        record.0.store(2, Ordering::SeqCst);
        Ok(Applied { record: 2, replayed: false })
    };
    let change = |_: &Arc<u64>| Change::Invalidate { version: None };
    let job = RecordWrite { key: 7, write: Box::pin(write), change };
    let unknown = mutations.write(&cache, job).await.unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Unknown);
    tokio::time::sleep(150 * SECOND).await;
    assert_eq!(*cache.get(&7).await.unwrap().unwrap().value, 1, "the write has not landed");
    assert!(mutations.drain(100 * SECOND).await);
    assert_eq!(*cache.get(&7).await.unwrap().unwrap().value, 2);
}

#[tokio::test(start_paused = true)]
async fn hundred_joins_of_a_group_take_one_permit() {
    let limits = WriteLimits { at_once: 2, wait: SECOND, takes: 10 * SECOND, answer: 2 * SECOND };
    let node = Node::local(1);
    let mutations = Mutations::new(node.clone(), &limits);
    let cache = members(&node);
    let rosters = rosters(&node);
    let group = GroupId::new(1).unwrap();
    let joins = (1..=100).map(|user| {
        let key = MemberKey { group, user: kith_store::UserId::new(user).unwrap() };
        let write = Box::pin(async {
            sleep(5 * SECOND).await;
            Ok(Applied { record: (), replayed: false })
        });
        let (mutations, cache, rosters) = (&mutations, &cache, &rosters);
        async move {
            let roster = rosters.begin_write(&[group]).await;
            let changes = |_: &Applied<()>| MembersChanges {
                members: Vec::new(),
                roster: Change::Invalidate { version: None },
            };
            let job = MembersWrite { group, keys: vec![key], roster, write, changes };
            mutations.write_members(cache, job, Vec::new()).await
        }
    });
    let other = async {
        sleep(SECOND).await;
        let begun = Instant::now();
        mutations.run_uncached(Box::pin(async { Ok(()) })).await.unwrap();
        begun.elapsed()
    };
    let (joined, other) = tokio::join!(futures::future::join_all(joins), other);
    assert!(joined.iter().all(Result::is_ok), "none is turned away");
    assert_eq!((other, mutations.shed()), (Duration::ZERO, 0));
}

fn members(node: &Node) -> TieredCache<MemberKey, u64> {
    let loader: Arc<dyn Loader<MemberKey, u64>> = Arc::new(Record::default());
    TieredCache::new(node, Policy::new("member", |_| 8), loader)
}

fn rosters(node: &Node) -> TieredCache<GroupId, u64> {
    let loader: Arc<dyn Loader<GroupId, u64>> = Arc::new(Record::default());
    TieredCache::new(node, Policy::new("roster", |_| 8), loader)
}

#[tokio::test]
async fn written_members_and_their_roster_are_put() {
    let (node, group) = (Node::local(1), GroupId::new(1).unwrap());
    let (cache, rosters) = (members(&node), rosters(&node));
    let [put, dropped] = [1, 2].map(|user| MemberKey { group, user: kith_store::UserId::new(user).unwrap() });
    let limits = WriteLimits { at_once: 1, wait: SECOND, takes: 10 * SECOND, answer: 2 * SECOND };
    let of = async |key| *cache.get(&key).await.unwrap().unwrap().value;
    assert_eq!((of(put).await, of(dropped).await), (0, 0));
    let changes = |applied: &Applied<MemberKey>| {
        let put = |value| Change::Put { value: Arc::new(value), version: Version::new(value) };
        MembersChanges { members: vec![(applied.record, put(5))], roster: put(6) }
    };
    let write = Box::pin(async move { Ok(Applied { record: put, replayed: false }) });
    let roster = rosters.begin_write(&[group]).await;
    let job = MembersWrite { group, keys: vec![dropped], roster, write, changes };
    Mutations::new(node, &limits).write_members(&cache, job, Vec::new()).await.unwrap();
    let count = *rosters.get(&group).await.unwrap().unwrap().value;
    assert_eq!((of(put).await, of(dropped).await, count), (5, 0, 6), "the store has 0 for all");
}

#[test]
fn answer_wait_is_below_half_of_long_deadline() {
    assert_eq!(answer_wait(2 * SECOND, SECOND), 2 * SECOND);
    assert_eq!(answer_wait(2 * SECOND, 5 * SECOND), 2 * SECOND);
    assert_eq!(answer_wait(2 * SECOND, 10 * SECOND), 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn slow_write_is_answered_and_runs_on() {
    let limits = WriteLimits { at_once: 1, wait: SECOND, takes: 10 * SECOND, answer: 2 * SECOND };
    let (mutations, begun) = (Mutations::new(Node::local(1), &limits), Instant::now());
    let (ended, end) = oneshot::channel();
    let work = async move {
        sleep(8 * SECOND).await;
        ended.send(()).ok();
        Ok(())
    };
    let error = mutations.call(begun + 5 * SECOND, work).await.unwrap_err();
    assert_eq!((error.reason(), begun.elapsed()), (Reason::StoreUnavailable, 2 * SECOND));
    let details = Status::from(error).get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["outcome"], "unknown");
    end.await.unwrap();
    assert_eq!(begun.elapsed(), 8 * SECOND);
}
