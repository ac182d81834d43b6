use std::{sync::Arc, time::Duration};

use kith_cache::{
    LoadOptions, Loader as _,
    remote::{Epochs as _, FakeServer, Kept, Shared},
};
use kith_lab::peers::{Peer, Readers, Shape, Staleness, Store};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn what_one_node_writes_others_read() {
    let (server, store) = (FakeServer::new(Kept::default()), Store::new(Duration::from_millis(5), 1));
    let shared: Arc<dyn Shared> = Arc::new(server);
    let peers: Vec<_> =
        (0..3).map(|id| Arc::new(Peer::start(id, &shared, &store, &Shape::default()))).collect();
    for peer in &peers {
        assert!(peer.until_trusted(SOON).await);
    }
    let mut readers = Readers::new();
    peers.iter().for_each(|peer| readers.add(peer, &store, 0..10, Duration::from_millis(1)));
    for number in 0..100 {
        let (_, told) = peers[number % 3].write(u64::try_from(number % 10).unwrap()).await.unwrap();
        assert!(told);
    }
    tokio::time::timeout(SOON, readers.until_made(200)).await.unwrap();
    let tally = readers.end().await;
    assert!(tally.answered >= 200 && tally.failed == 0, "{tally}");
    for peer in &peers {
        for key in 0..10 {
            assert_eq!(peer.read(key).await.unwrap(), 10);
        }
    }
}

#[tokio::test]
async fn a_store_tells_how_old_a_version_is() {
    let store = Store::new(Duration::ZERO, 1);
    let first = store.commit(7);
    store.acknowledge(7, first, true);
    let second = store.commit(7);
    let old = |version| store.staleness(7, version, std::time::Instant::now());
    assert_eq!(old(first), Staleness::default(), "nobody was told of the second yet");
    let late = Duration::from_millis(20);
    store.acknowledge(7, second, false);
    tokio::time::sleep(late).await;
    assert!(old(first).acknowledged >= late && old(first).told == Duration::ZERO);
    store.acknowledge(7, second, true);
    tokio::time::sleep(late).await;
    assert!(old(first).acknowledged >= 2 * late && old(first).told >= late);
    assert_eq!(old(second), Staleness::default());
}

#[tokio::test]
async fn a_held_store_answers_what_it_saw_first() {
    let store = Store::new(Duration::ZERO, 1);
    let first = store.commit(7);
    store.hold(true);
    let held = store.clone();
    let load = tokio::spawn(async move { held.load(&7, LoadOptions::default()).await.unwrap() });
    while store.loading() == 0 {
        tokio::task::yield_now().await;
    }
    let _second = store.commit(7);
    store.hold(false);
    assert_eq!(load.await.unwrap().version().get(), first);
    assert_eq!((store.loads(), store.loading()), (1, 0));
}

#[tokio::test]
async fn a_store_of_another_process_is_read_and_keeps_the_epoch() {
    let store = Store::new(Duration::from_millis(5), 1);
    let version = store.commit(7);
    let far = Store::far(store.serve().await.unwrap());
    let loaded = far.load_many(&[7, 8], LoadOptions::default()).await.unwrap();
    let versions: Vec<_> = loaded.iter().map(|(key, loaded)| (*key, loaded.version().get())).collect();
    assert_eq!(versions, [(7, version), (8, 0)]);
    assert_eq!(far.current().await.unwrap(), (1, String::new()));
    assert_eq!(far.raise(1, "a server").await.unwrap(), 2);
    assert_eq!(far.raise(1, "another").await.unwrap(), 2, "it was raised already");
    assert_eq!(store.current().await.unwrap(), (2, "a server".to_owned()));
    assert_eq!((store.loads(), far.loads()), (2, 0));
}
