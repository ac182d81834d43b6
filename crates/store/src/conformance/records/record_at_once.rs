//! Cases for users and groups alike: many writes to one record at once.

use std::collections::BTreeSet;

use super::{
    record_sample::both,
    sample::{applied, assert_stale, expecting, one_wins, setting, version, write},
};
use crate::{StoreError, Stored, Stores};

pub async fn updates_at_once_are_all_applied(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        let updates = records.each_at_once(0..64, |records, at| async move {
            let params = setting(&[(&format!("k{at}"), "v")]);
            applied(records.change_params(1, params, write()).await.unwrap()).version().get()
        });
        assert_eq!(updates.await.into_iter().collect::<BTreeSet<i64>>(), (2..=65).collect());
        let record = records.live(1).await;
        assert_eq!((record.version(), record.params().len()), (version(65), 64));
    }
}

pub async fn one_update_per_expected_version_wins(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        let results =
            records.each_at_once(0..32, |records, _| async move { records.set(1, "v", expecting(1)).await });
        one_wins(results.await, |lost| assert_stale::<()>(Err(lost), 2));
        assert_eq!(records.live(1).await.version(), version(2));
    }
}

pub async fn creations_at_once_of_one_id_let_one_through(stores: Stores) {
    for records in both(&stores) {
        let results = records.each_at_once(0..32, |records, at| async move {
            records.create(1, &format!("name{at}"), write()).await
        });
        let won = one_wins(results.await, |lost| assert!(matches!(lost, StoreError::IdTaken), "{lost:?}"));
        assert_eq!(records.live(1).await, won.record);
    }
}

pub async fn ends_at_once_let_one_through(stores: Stores) {
    for records in both(&stores) {
        records.made(1).await;
        let results = records.each_at_once(0..32, |records, _| async move { records.end(1, write()).await });
        one_wins(results.await, |lost| assert!(matches!(lost, StoreError::NotFound), "{lost:?}"));
        assert_eq!(records.state(1).await, Stored::Deleted(version(2)));
    }
}
