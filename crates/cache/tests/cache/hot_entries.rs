//! A read that is answered at once never finds anything other than memory has.

use std::time::Duration;

use crate::stage::Stage;

/// Several keys share each place that reads look at first, and memory keeps less than half of them.
const KEYS: u64 = 8_000;
const MEMORY_BYTES: u64 = 1_200_000;

/// One key in eight is read in this many consecutive moments, so that it gets a slot, whichever key had it.
const MOMENTS: u64 = 64;

/// Reads every key. More keys get a place than there are places, so that each has had a place and most have
/// lost it.
async fn read_all(stage: &Stage, expected: u64) {
    for key in 0..KEYS {
        for _moment in 0..if key % 8 == 0 { MOMENTS } else { 1 } {
            stage.clock.advance(Duration::from_millis(1));
            assert_eq!(stage.read(key).await, Some(expected), "of {key}");
        }
    }
}

#[tokio::test]
async fn invalidated_entry_is_found_nowhere() {
    let stage = Stage::of(|_| {}, |config| config.memory_bytes = MEMORY_BYTES);
    for version in 1..4 {
        (0..KEYS).for_each(|key| stage.store.put(key, version));
        for key in 0..KEYS {
            stage.invalidate(key, version).await;
            assert_eq!(stage.cached(key), None, "of {key}");
        }
        read_all(&stage, version).await;
    }
    assert!(stage.stats().entries < KEYS, "many of them were evicted");
}

#[tokio::test]
async fn a_flush_leaves_nothing_to_find() {
    let stage = Stage::of(|_| {}, |config| config.memory_bytes = MEMORY_BYTES);
    (0..KEYS).for_each(|key| stage.store.put(key, 1));
    read_all(&stage, 1).await;
    (0..KEYS).for_each(|key| stage.store.put(key, 2));
    stage.node.namespaces().iter().for_each(|namespace| namespace.flush());
    assert_eq!((0..KEYS).filter(|key| stage.cached(*key).is_some()).count(), 0);
    read_all(&stage, 2).await;
}
