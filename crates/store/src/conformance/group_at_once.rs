//! Cases of the group store: many writes of one record at once.

use std::{collections::BTreeSet, sync::Arc};

use super::sample::{
    applied, at_once, bare_group, create_group, expecting, group_id, group_state, live_group, setting,
    version, write,
};
use crate::{GroupPatch, StoreError, Stored, Stores};

#[macro_export]
macro_rules! group_at_once_conformance {
    ($open:ident, $attributes:tt) => {
        $crate::conformance_cases! { group_at_once, $open, $attributes:
            concurrent_group_updates_are_all_applied
            one_group_update_per_expected_version_wins
            creations_at_once_of_one_id_let_one_through
            dismissals_at_once_let_one_through
        }
    };
}

pub async fn concurrent_group_updates_are_all_applied(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    let updates = (0..64).map(|at| {
        let groups = Arc::clone(&stores.groups);
        let patch = GroupPatch { params: setting(&[(&format!("k{at}"), "v")]), ..GroupPatch::default() };
        async move { applied(groups.update_group(group_id(1), patch, write()).await.unwrap()).version.get() }
    });
    let versions: BTreeSet<i64> = at_once(updates).await.into_iter().collect();
    assert_eq!(versions, (2..=65).collect());
    let group = live_group(&stores, 1).await;
    assert_eq!((group.version, group.params.len()), (version(65), 64));
}

pub async fn one_group_update_per_expected_version_wins(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    let updates = (0..32).map(|_| {
        let groups = Arc::clone(&stores.groups);
        async move { groups.update_group(group_id(1), GroupPatch::default(), expecting(1)).await }
    });
    let results = at_once(updates).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::Conflict { current } if current == version(2)), "{error:?}");
    }
    assert_eq!(live_group(&stores, 1).await.version, version(2));
}

pub async fn creations_at_once_of_one_id_let_one_through(stores: Stores) {
    let creations = (0..32).map(|at| {
        let groups = Arc::clone(&stores.groups);
        async move { groups.create_group(bare_group(1, &format!("name{at}")), write()).await }
    });
    let results = at_once(creations).await;
    let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(live_group(&stores, 1).await, won[0].record);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::IdTaken), "{error:?}");
    }
}

pub async fn dismissals_at_once_let_one_through(stores: Stores) {
    create_group(&stores, bare_group(1, "g")).await;
    let dismissals = (0..32).map(|_| {
        let groups = Arc::clone(&stores.groups);
        async move { groups.dismiss_group(group_id(1), write()).await }
    });
    let results = at_once(dismissals).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(group_state(&stores, 1).await, Stored::Deleted(version(2)));
}
