//! Cases of the user store: many writes of one record at once.

use std::{collections::BTreeSet, sync::Arc};

use super::sample::{
    applied, at_once, bare_user, create_user, expecting, live_user, setting, user_id, user_state, version,
    write,
};
use crate::{StoreError, Stored, Stores, Timestamp, UserPatch};

#[macro_export]
macro_rules! user_at_once_conformance {
    ($open:ident, $attributes:tt) => {
        $crate::conformance_cases! { user_at_once, $open, $attributes:
            concurrent_user_updates_are_all_applied
            one_user_update_per_expected_version_wins
            creations_at_once_of_one_id_let_one_through
            deletions_at_once_let_one_through
        }
    };
}

pub async fn concurrent_user_updates_are_all_applied(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let updates = (0..64).map(|at| {
        let users = Arc::clone(&stores.users);
        let patch = UserPatch { params: setting(&[(&format!("k{at}"), "v")]), ..UserPatch::default() };
        async move { applied(users.update_user(user_id(1), patch, write()).await.unwrap()).version.get() }
    });
    let versions: BTreeSet<i64> = at_once(updates).await.into_iter().collect();
    assert_eq!(versions, (2..=65).collect());
    let user = live_user(&stores, 1).await;
    assert_eq!((user.version, user.params.len()), (version(65), 64));
}

pub async fn one_user_update_per_expected_version_wins(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let updates = (0..32).map(|_| {
        let users = Arc::clone(&stores.users);
        async move { users.update_user(user_id(1), UserPatch::default(), expecting(1)).await }
    });
    let results = at_once(updates).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::Conflict { current } if current == version(2)), "{error:?}");
    }
    assert_eq!(live_user(&stores, 1).await.version, version(2));
}

pub async fn creations_at_once_of_one_id_let_one_through(stores: Stores) {
    let creations = (0..32).map(|at| {
        let users = Arc::clone(&stores.users);
        async move { users.create_user(bare_user(1, &format!("name{at}")), write()).await }
    });
    let results = at_once(creations).await;
    let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(live_user(&stores, 1).await, won[0].record);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::IdTaken), "{error:?}");
    }
}

pub async fn deletions_at_once_let_one_through(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let deletions = (0..32).map(|_| {
        let users = Arc::clone(&stores.users);
        async move { users.delete_user(user_id(1), Timestamp(0), write()).await }
    });
    let results = at_once(deletions).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}
