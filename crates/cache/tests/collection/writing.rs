use std::time::Duration;

use kith_cache::{CacheError, Consistency, Invalidation, WriteParts};

use crate::{stage::Stage, until::until};

impl Stage {
    async fn write(&self) -> WriteParts {
        self.list.begin_write(&[1]).await
    }

    /// The first page is in memory, and a write to the list that has removed 2 from the store is in progress.
    async fn writing() -> (Self, WriteParts) {
        let stage = Self::new().warm().await;
        let write = stage.write().await;
        stage.store.remove(1, 2);
        (stage, write)
    }

    /// Receives from another node that the list 1 changed.
    fn receive_change(&self) {
        let change =
            Invalidation { namespace: "things_epoch", key: "1".to_owned(), version: None, copy: None };
        self.node.apply(self.node.applied() + 1, &[change]);
    }
}

#[tokio::test]
async fn a_committed_change_is_in_the_next_read() {
    let (stage, write) = Stage::writing().await;
    write.committed().await.unwrap();
    assert_eq!(stage.first().await, [1, 3, 4]);
    assert_eq!(stage.first().await, [1, 3, 4]);
    assert_eq!(stage.store.loads(), 2, "the new page is kept");
}

#[tokio::test]
async fn one_publish_covers_all_its_lists() {
    let stage = Stage::new().warm().await;
    let write = stage.list.begin_write(&[8, 9]).await;
    write.committed().await.unwrap();
    let change = |list: u64| Invalidation {
        namespace: "things_epoch",
        key: list.to_string(),
        version: None,
        copy: None,
    };
    let mut published = stage.bus.published();
    published.sort_by(|one, other| one.key.cmp(&other.key));
    assert_eq!(published, [change(8), change(9)]);
    assert_eq!(stage.node.applied(), 1, "one number for both");
    stage.first().await;
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test]
async fn list_reads_during_write_keep_nothing() {
    let stage = Stage::new().warm().await;
    let write = stage.write().await;
    let (kept, epochs) = (stage.stats("things_page").entries, stage.stats("things_epoch").entries);
    assert_eq!(stage.first().await, [1, 2, 3]);
    stage.store.remove(1, 2);
    assert_eq!(stage.first().await, [1, 3, 4]);
    assert_eq!(stage.store.loads(), 3);
    assert_eq!((stage.stats("things_page").entries, stage.stats("things_epoch").entries), (kept, epochs));
    write.aborted();
    assert_eq!(stage.first().await, [1, 3, 4]);
    assert!(stage.bus.published().is_empty(), "an aborted write is not published");
}

#[tokio::test]
async fn page_loaded_during_write_is_not_kept() {
    let (stage, gate, reader) = Stage::loading().await;
    let write = stage.write().await;
    stage.store.remove(1, 2);
    write.committed().await.unwrap();
    assert_eq!(stage.first().await, [1, 3, 4], "it joins no load of before the write");
    assert!(gate.open());
    assert_eq!(reader.await.unwrap(), [1, 3, 4], "the epoch of its page is over: it loads again");
    assert_eq!(stage.first().await, [1, 3, 4]);
}

#[tokio::test]
async fn page_loaded_during_change_is_not_kept() {
    let (stage, gate, reader) = Stage::loading().await;
    stage.store.remove(1, 2);
    stage.receive_change();
    assert!(gate.open());
    assert_eq!(reader.await.unwrap(), [1, 3, 4]);
    assert_eq!(stage.first().await, [1, 3, 4]);
}

#[tokio::test]
async fn busy_list_is_read_from_the_store() {
    let stage = Stage::new();
    let mut gate = stage.store.gate();
    let reader = stage.spawn_first();
    for _ in 0..3 {
        gate.entered().await;
        let next = stage.store.gate();
        stage.receive_change();
        assert!(gate.open());
        gate = next;
    }
    assert!(gate.open());
    assert_eq!(reader.await.unwrap(), [1, 2, 3]);
    assert_eq!(stage.store.loads(), 4);
}

#[tokio::test(start_paused = true)]
async fn repeat_shows_a_late_list_write() {
    let stage = Stage::new().warm().await;
    stage.write().await.unknown().await.unwrap();
    assert_eq!(stage.first().await, [1, 2, 3]);
    stage.store.remove(1, 2);
    assert_eq!(stage.first().await, [1, 2, 3], "it landed after the first invalidation");
    tokio::time::sleep(Duration::from_millis(5_001)).await;
    assert_eq!(stage.first().await, [1, 3, 4]);
}

#[tokio::test]
async fn unknown_list_write_is_in_the_next_read() {
    let (stage, write) = Stage::writing().await;
    write.unknown().await.unwrap();
    assert_eq!(stage.first().await, [1, 3, 4]);
}

#[tokio::test]
async fn a_write_that_was_dropped_counts_as_unknown() {
    let (stage, write) = Stage::writing().await;
    drop(write);
    assert_eq!(stage.first().await, [1, 3, 4]);
    until(|| stage.bus.published().len() == 1).await;
}

#[tokio::test]
async fn unpublished_list_change_is_seen_locally() {
    let (stage, write) = Stage::writing().await;
    stage.bus.fail(true);
    assert!(matches!(write.committed().await, Err(CacheError::Bus(_))));
    assert_eq!(stage.first().await, [1, 3, 4]);
    stage.store.remove(1, 3);
    assert!(matches!(stage.list.invalidate(&[1]).await, Err(CacheError::Bus(_))));
    assert_eq!(stage.first().await, [1, 4, 5]);
}

#[tokio::test]
async fn change_token_shows_the_change() {
    let (stage, write) = Stage::writing().await;
    let token = write.committed().await.unwrap();
    assert_eq!(stage.read(&Consistency::AtLeast(vec![token])).await.entry.value.items, [1, 3, 4]);
}
