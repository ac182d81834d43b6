//! A server that does not answer for a time.

use kith_store::{FeedChange, FeedError, Outcome, StoreError, UserPatch};
use kith_store_cluster::{MongoOptions, connect};
use tokio::time::{Duration, Instant, timeout};

use super::{
    BOUND, QUIET, Reader, Stage, of_user,
    proxy::{Mode, Proxy},
    user_id, version, write,
};

/// The time to await, run a command and select a server, and some more for a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

async fn assert_unavailable(reader: &mut Reader) {
    let end = timeout(ANSWERED_WITHIN, reader.end()).await.unwrap();
    assert!(matches!(end, FeedError::Unavailable(_)), "{end:?}");
}

/// Reads a feed through a server that is unavailable for a time; asserts that nothing is lost.
async fn feed_survives(mode: Mode) {
    let stage = Stage::open().await;
    let proxy = Proxy::start(&stage.options).await;
    let (_stores, feed) = proxy.stores(&stage.options).await;
    let mut reader = Reader::open(&feed, None).await;
    stage.create(1).await;
    assert_eq!(reader.take(1).await, [of_user(1, version(1))]);
    proxy.set(mode);
    stage.create(2).await;
    assert_unavailable(&mut reader).await;
    let opened = timeout(ANSWERED_WITHIN, feed.open(Some(&reader.mark))).await.unwrap();
    assert!(matches!(opened, Err(FeedError::Unavailable(_))), "{opened:?}");
    stage.create(3).await;
    proxy.set(Mode::Pass);
    let mut again = reopened(&feed, &reader.mark).await;
    assert_eq!(again.take(2).await, [of_user(2, version(1)), of_user(3, version(1))]);
}

async fn reopened(feed: &std::sync::Arc<dyn kith_store::ChangeFeed>, mark: &[u8]) -> Reader {
    let give_up = Instant::now() + BOUND;
    loop {
        match feed.open(Some(mark)).await {
            Ok(changes) => return Reader { changes, mark: mark.to_vec() },
            Err(error) => {
                assert!(Instant::now() < give_up && matches!(error, FeedError::Unavailable(_)), "{error:?}")
            }
        }
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn feed_over_frozen_server_loses_nothing() {
    feed_survives(Mode::Freeze).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn feed_over_lost_server_loses_nothing() {
    feed_survives(Mode::Cut).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn feed_over_broken_connections_loses_nothing() {
    let stage = Stage::open().await;
    let proxy = Proxy::start(&stage.options).await;
    let (_stores, feed) = proxy.stores(&stage.options).await;
    let mut reader = Reader::open(&feed, None).await;
    let (mut delivered, give_up) = (Vec::<FeedChange>::new(), Instant::now() + BOUND);
    for id in 1..=20 {
        proxy.set(Mode::Cut);
        stage.create(id).await;
        proxy.set(Mode::Pass);
        while !delivered.contains(&of_user(id, version(1))) {
            assert!(Instant::now() < give_up, "{delivered:?}");
            match reader.next(QUIET).await {
                Ok(changes) => delivered.extend(changes),
                Err(FeedError::Unavailable(_)) => reader = reopened(&feed, &reader.mark).await,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    let expected: Vec<_> = (1..=20).map(|id| of_user(id, version(1))).collect();
    assert_eq!(delivered, expected);
}

#[tokio::test]
async fn unreachable_server_is_reported_as_away() {
    let limit = Duration::from_millis(200);
    let uri = "mongodb://127.0.0.1:1/?replicaSet=rs0";
    let options = MongoOptions { server_selection: limit, ..MongoOptions::new(uri, "kith") };
    let feed = connect(options).await.unwrap().stores().feeds.remove(0).feed;
    let opened = timeout(ANSWERED_WITHIN, feed.open(None)).await.unwrap();
    assert!(matches!(opened, Err(FeedError::Unavailable(_))), "{opened:?}");
}

/// The command was sent, and the driver gives its connection up before an answer comes.
#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn interrupted_write_has_unknown_outcome() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let proxy = Proxy::start(&stage.options).await;
    let (stores, _feed) = proxy.stores(&stage.options).await;
    stores.users.user(user_id(1)).await.unwrap();
    proxy.set(Mode::Freeze);
    let older = UserPatch { age: Some(9), ..UserPatch::default() };
    let updated =
        timeout(ANSWERED_WITHIN, stores.users.update_user(user_id(1), older, write())).await.unwrap();
    let error = updated.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lost_server_is_not_waited_for() {
    let stage = Stage::open().await;
    stage.create(1).await;
    let proxy = Proxy::start(&stage.options).await;
    let (stores, _feed) = proxy.stores(&stage.options).await;
    stores.node.ping(ANSWERED_WITHIN).await.unwrap();
    for mode in [Mode::Freeze, Mode::Cut] {
        proxy.set(mode);
        for _ in 0..2 {
            stores.node.ping(Duration::from_millis(100)).await.unwrap_err();
        }
        let begun = Instant::now();
        let error = stores.users.user(user_id(1)).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        proxy.set(Mode::Pass);
        let answers = async { while stores.node.ping(ANSWERED_WITHIN).await.is_err() {} };
        timeout(BOUND, answers).await.unwrap();
        stores.users.user(user_id(1)).await.unwrap();
    }
}
