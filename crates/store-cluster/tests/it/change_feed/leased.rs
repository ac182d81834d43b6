//! Several readers, where only a lease's holder sets the mark.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::{Instant, sleep};

use super::{BOUND, Reader, Stage, of_user, version};

const NAME: &str = "feed";
const LASTS: Duration = Duration::from_secs(1);

impl Stage {
    async fn takes_lease(&self, holder: &str) -> bool {
        self.stores.coordination.lease(NAME, holder, LASTS).await.unwrap()
    }

    async fn sets_mark(&self, holder: &str, mark: &[u8]) -> bool {
        self.stores.coordination.set_mark(NAME, holder, mark).await.unwrap()
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn next_lease_holder_resumes_at_the_mark() {
    let stage = Stage::open().await;
    assert!(stage.takes_lease("a").await && !stage.takes_lease("b").await);
    let mut first = Reader::open(&stage.feed, None).await;
    stage.create(1).await;
    let mut delivered = first.take(1).await;
    assert!(stage.sets_mark("a", &first.mark).await);
    // Read, but its mark is not set: the reader stops here.
    stage.create(2).await;
    first.take(1).await;
    stage.create(3).await;
    let give_up = Instant::now() + BOUND;
    while !stage.takes_lease("b").await {
        assert!(Instant::now() < give_up, "the lease does not run out");
        sleep(Duration::from_millis(20)).await;
    }
    let mark = stage.stores.coordination.mark(NAME).await.unwrap().unwrap();
    let mut second = Reader::open(&stage.feed, Some(&mark)).await;
    delivered.extend(second.take(2).await);
    assert!(!stage.sets_mark("a", &first.mark).await, "a late holder has set its mark");
    assert_eq!(stage.stores.coordination.mark(NAME).await.unwrap().unwrap(), mark);
    assert_eq!(delivered, [1, 2, 3].map(|id| of_user(id, version(1))));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn concurrent_readers_each_get_all_changes() {
    let stage = Stage::open().await;
    let mut readers = [Reader::open(&stage.feed, None).await, Reader::open(&stage.feed, None).await];
    stage.create(1).await;
    let edit = mongodb::bson::doc! { "$set": { "nick": "edited" } };
    stage.documents("users").update_one(mongodb::bson::doc! { "_id": 1 }, edit).await.unwrap();
    stage.create(2).await;
    let mut versions = Vec::new();
    for reader in &mut readers {
        let delivered = reader.take_until(of_user(2, version(1))).await;
        versions.push(delivered.iter().filter_map(|change| change.version).collect::<BTreeSet<_>>());
    }
    let current = stage.user(1).await.version;
    assert!(
        versions.iter().all(|of_reader| of_reader.iter().any(|version| *version > self::version(1))),
        "{versions:?}"
    );
    assert!(current == version(2) || current == version(3), "{current}");
}
