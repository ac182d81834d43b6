use std::sync::Arc;

use kith_cache::{CacheError, Depth, Invalidation, Loader, Policy, Presence, Tier, TieredCache, Version};

use crate::stage::{SECOND, Stage};

#[tokio::test]
async fn inspection_shows_each_tier_and_fills_nothing() {
    let stage = Stage::new();
    stage.store.put(1, 3);
    let namespace = stage.node.namespace("thing").unwrap();
    let copies = namespace.inspect("1", Depth::Store).await.unwrap();
    let seen: Vec<_> = copies.iter().map(|copy| (copy.tier, copy.presence, copy.version.get())).collect();
    assert_eq!(seen, [(Tier::Memory, Presence::None, 0), (Tier::Store, Presence::Value, 3)]);
    assert_eq!(stage.cached(1), None);
    stage.read(1).await;
    stage.store.delete(1, 4);
    stage.clock.advance(20 * SECOND);
    let copies = namespace.inspect("1", Depth::Store).await.unwrap();
    assert_eq!(copies[0].presence, Presence::Value);
    assert_eq!((copies[0].age, copies[0].ttl), (Some(20 * SECOND), Some(40 * SECOND)));
    assert_eq!(copies[0].size_bytes, 6);
    assert_eq!((copies[1].presence, copies[1].version.get()), (Presence::Null, 4));
    assert_eq!(namespace.inspect("1", Depth::Memory).await.unwrap(), copies[..1]);
}

#[tokio::test]
async fn a_text_that_is_no_key_is_refused() {
    let stage = Stage::new();
    let namespace = stage.node.namespace("thing").unwrap();
    assert!(matches!(namespace.inspect("x", Depth::Store).await, Err(CacheError::InvalidKey)));
    assert!(matches!(namespace.invalidate("x").await, Err(CacheError::InvalidKey)));
    assert!(stage.node.namespace("nothing").is_none());
}

#[tokio::test]
async fn an_operator_can_drop_one_record_or_all() {
    let stage = Stage::new().warm().await;
    let namespace = stage.node.namespace("thing").unwrap();
    namespace.invalidate("1").await.unwrap();
    assert_eq!(stage.cached(1), None);
    assert_eq!(stage.bus.published().len(), 1);
    stage.read(1).await;
    namespace.flush();
    assert_eq!(stage.cached(1), None);
}

#[tokio::test]
async fn remote_changes_apply_to_their_namespace() {
    let stage = Stage::new().warm().await;
    let change = |namespace, key: &str, version: u64| {
        [Invalidation { namespace, key: key.into(), version: Some(Version::new(version)), copy: None }]
    };
    stage.node.apply(1, &change("other", "1", 5));
    stage.node.apply(2, &change("thing", "1", 1));
    assert_eq!(stage.cached(1), Some(1));
    stage.node.apply(3, &change("thing", "1", 2));
    assert_eq!(stage.cached(1), None);
    stage.read(1).await;
    stage.node.apply(4, &change("thing", "of a newer format", 2));
    assert_eq!(stage.cached(1), None, "what cannot be read flushes");
    assert_eq!(stage.node.applied(), 4);
}

#[tokio::test]
async fn stats_count_what_happened() {
    let stage = Stage::new().warm().await;
    stage.read(1).await;
    stage.read(2).await;
    stage.invalidate(1, 0).await;
    let stats = stage.stats();
    assert_eq!((stats.hits, stats.misses, stats.loads, stats.invalidations), (1, 2, 2, 1));
    assert_eq!(stats.entries, 1);
    stage.node.export_metrics();
}

#[test]
#[should_panic(expected = "has a namespace thing already")]
fn a_name_is_given_once() {
    let stage = Stage::new();
    let loader: Arc<dyn Loader<u64, String>> = Arc::<crate::stage::Store>::clone(&stage.store);
    let _second = TieredCache::new(&stage.node, Policy::new("thing", String::len), loader);
}
