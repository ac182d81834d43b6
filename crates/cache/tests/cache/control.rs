use std::{sync::Arc, thread};

use parking_lot::Mutex;

/// This shows why these tests exist: with moka's own single flight the old value comes back for good.
#[test]
fn moka_alone_restores_an_invalidated_value() {
    let cache: moka::sync::Cache<u64, u64> = moka::sync::Cache::new(10);
    let store = Arc::new(Mutex::new(1));
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let reader = {
        let (cache, store) = (cache.clone(), Arc::clone(&store));
        thread::spawn(move || {
            cache.get_with(1, || {
                let read = *store.lock();
                entered.send(()).unwrap();
                opened.recv().unwrap();
                read
            })
        })
    };
    has_entered.recv().unwrap();
    *store.lock() = 2;
    cache.invalidate(&1);
    open.send(()).unwrap();
    assert_eq!(reader.join().unwrap(), 1);
    assert_eq!(cache.get(&1), Some(1), "the copy is older than the write that was acknowledged");
}
