//! Finds numbers by times, where node clocks differ.

use kith_store::{NewMessage, Stores, Timestamp};

use super::{batch, fill, log};
use crate::server;

/// A document whose messages were all sent at the same time.
async fn fill_at(stores: &Stores, ids: &str, sent: i64) {
    let at = |new: NewMessage| NewMessage { sent: Timestamp(sent), ..new };
    fill(stores, &batch(ids, 100).into_iter().map(at).collect::<Vec<_>>()).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn time_lookup_allows_for_a_slow_clock() {
    let (stores, _guard) = server::open_with(server::options()).await;
    for (ids, sent) in [("first", 1000), ("slow", 900), ("last", 2000)] {
        fill_at(&stores, ids, sent).await;
    }
    let at = async |time| stores.messages.seq_at(log(), Timestamp(time)).await.unwrap();
    assert_eq!((at(1500).await, at(2000).await, at(2001).await), (201, 201, 301));
}
