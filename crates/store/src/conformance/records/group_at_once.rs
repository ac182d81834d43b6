//! Group store cases: many writes to one record at once.

use std::collections::BTreeSet;

use super::sample::{
    applied, bare_group, create_group, each_at_once, expecting, group_id, group_state, live_group, setting,
    version, write,
};
use crate::{GroupPatch, StoreError, Stored, Stores};

pub async fn concurrent_group_updates_are_all_applied(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    let updates = each_at_once(&stores, 0..64, |stores, at| async move {
        let patch = GroupPatch { params: setting(&[(&format!("k{at}"), "v")]), ..GroupPatch::default() };
        applied(stores.groups.update_group(group_id(1), patch, write()).await.unwrap()).version.get()
    });
    let versions: BTreeSet<i64> = updates.await.into_iter().collect();
    assert_eq!(versions, (2..=65).collect());
    let group = live_group(&stores, 1).await;
    assert_eq!((group.version, group.params.len()), (version(65), 64));
}

pub async fn one_group_update_per_expected_version_wins(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    let results = each_at_once(&stores, 0..32, |stores, _| async move {
        stores.groups.update_group(group_id(1), GroupPatch::default(), expecting(1)).await
    })
    .await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::Conflict { current } if current == version(2)), "{error:?}");
    }
    assert_eq!(live_group(&stores, 1).await.version, version(2));
}

pub async fn creations_at_once_of_one_id_let_one_through(stores: Stores) {
    let results = each_at_once(&stores, 0..32, |stores, at| async move {
        stores.groups.create_group(bare_group(1, &format!("name{at}")), write()).await
    })
    .await;
    let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(live_group(&stores, 1).await, won[0].record);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::IdTaken), "{error:?}");
    }
}

pub async fn dismissals_at_once_let_one_through(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    let results = each_at_once(&stores, 0..32, |stores, _| async move {
        stores.groups.dismiss_group(group_id(1), write()).await
    })
    .await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(group_state(&stores, 1).await, Stored::Deleted(version(2)));
}
