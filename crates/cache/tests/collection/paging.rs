use std::time::Duration;

use kith_cache::{CacheError, Consistency, Depth, Position, Tier, Token};

use crate::stage::{Span, Stage};

const CACHED: Consistency = Consistency::Cached;

#[tokio::test]
async fn next_page_starts_after_last_item() {
    let stage = Stage::new();
    let (mut span, mut items) = (Span { after: 0, size: 3 }, Vec::new());
    loop {
        let page = stage.list.page(&1, &span, &CACHED).await.unwrap().entry.value;
        items.extend_from_slice(&page.items);
        let Some(last) = page.items.last().filter(|_| page.more) else { break };
        span.after = *last;
    }
    assert_eq!(items, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(stage.store.loads(), 3);
}

#[tokio::test]
async fn a_page_is_loaded_once_for_all_who_read_it() {
    let stage = Stage::new();
    let mut gate = stage.store.gate();
    let readers: Vec<_> = (0..100).map(|_| stage.spawn_first()).collect();
    gate.entered().await;
    assert!(gate.open());
    for reader in readers {
        assert_eq!(reader.await.unwrap(), [1, 2, 3]);
    }
    let again = stage.read(&CACHED).await;
    assert_eq!((again.entry.tier, stage.store.loads()), (Tier::Memory, 1));
}

#[tokio::test]
async fn missing_list_is_empty_and_cached() {
    let stage = Stage::new();
    for _ in 0..2 {
        let page = stage.list.page(&9, &Span { after: 0, size: 3 }, &CACHED).await.unwrap();
        assert!(page.entry.value.items.is_empty() && !page.entry.value.more);
    }
    assert_eq!(stage.store.loads(), 1);
}

#[tokio::test]
async fn pages_of_each_size_and_list_are_separate() {
    let stage = Stage::new().warm().await;
    stage.store.set(2, [8, 9]);
    let page = |list, after, size| {
        let list_of = stage.list.clone();
        async move { list_of.page(&list, &Span { after, size }, &CACHED).await.unwrap().entry.value.items.clone() }
    };
    assert_eq!(page(1, 0, 2).await, [1, 2]);
    assert_eq!(page(1, 5, 3).await, [6, 7]);
    assert_eq!(page(2, 0, 3).await, [8, 9]);
}

#[tokio::test]
async fn evicted_epoch_returns_under_a_new_name() {
    let stage = Stage::new().warm().await;
    let before = stage.read(&CACHED).await.epoch.unwrap();
    stage.store.add(1, 0x0fff);
    stage.store.remove(1, 1);
    assert_eq!(stage.first().await, [1, 2, 3], "this change was not published");
    stage.node.namespace("things_epoch").unwrap().flush();
    let after = stage.read(&CACHED).await;
    assert_eq!(after.entry.value.items, [2, 3, 4], "pages of the lost epoch are not found");
    assert_ne!(after.epoch, Some(before));
}

#[tokio::test]
async fn a_page_expires_and_so_does_an_epoch() {
    let stage = Stage::new().warm().await;
    stage.store.remove(1, 1);
    stage.clock.advance(Duration::from_secs(50));
    assert_eq!(stage.first().await, [1, 2, 3]);
    stage.clock.advance(Duration::from_secs(10));
    assert_eq!(stage.first().await, [2, 3, 4]);
}

#[tokio::test]
async fn strong_read_sees_unpublished_and_is_not_kept() {
    let stage = Stage::new().warm().await;
    stage.store.remove(1, 1);
    let kept = stage.stats("things_page").entries;
    let strong = stage.read(&Consistency::Strong).await;
    assert_eq!((strong.entry.value.items.as_slice(), strong.entry.tier), (&[2, 3, 4][..], Tier::Store));
    assert_eq!(strong.epoch, None);
    assert_eq!(stage.stats("things_page").entries, kept);
    assert_eq!(stage.first().await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn unapplied_token_reads_the_store() {
    let stage = Stage::new().warm().await;
    stage.store.remove(1, 1);
    let token = |epoch, number| Token::new(Position { partition: 0, epoch, number });
    let with = |token| Consistency::AtLeast(vec![token]);
    assert_eq!(stage.read(&with(stage.node.token())).await.entry.value.items, [1, 2, 3]);
    let ahead = token(7, stage.node.applied() + 1);
    assert_eq!(stage.read(&with(ahead)).await.entry.value.items, [2, 3, 4]);
    assert_eq!(stage.read(&with(token(6, 0))).await.entry.value.items, [2, 3, 4], "another life of the node");
}

#[tokio::test]
async fn failing_store_serves_pages_of_same_epoch() {
    let stage = Stage::new().warm().await;
    stage.store.break_down();
    let strong = stage.list.page(&1, &Span { after: 0, size: 3 }, &Consistency::Strong).await;
    assert!(matches!(strong, Err(CacheError::Load(_))));
    assert_eq!(stage.first().await, [1, 2, 3], "what is in memory is not asked for");
    stage.list.invalidate(&[1]).await.unwrap();
    let changed = stage.list.page(&1, &Span { after: 0, size: 3 }, &CACHED).await;
    assert!(matches!(changed, Err(CacheError::Load(_))), "a page of before the change is no answer");
}

#[tokio::test]
async fn list_keys_round_trip() {
    let stage = Stage::new().warm().await;
    let pages = stage.node.namespace("things_page").unwrap();
    let copies = pages.inspect("00000000000000013:0+31", Depth::Store).await.unwrap();
    assert_eq!(copies[1].size_bytes, 24, "the page that the store has");
    assert!(matches!(pages.inspect("0+31", Depth::Store).await, Err(CacheError::InvalidKey)));
    stage.node.namespace("things_epoch").unwrap().invalidate("1").await.unwrap();
    stage.store.remove(1, 1);
    assert_eq!(stage.first().await, [2, 3, 4], "an operator drops a list by its name");
}
