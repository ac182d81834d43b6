//! User store cases: many writes to one record at once.

use std::collections::BTreeSet;

use super::sample::{
    applied, bare_user, create_user, each_at_once, expecting, live_user, setting, user_id, user_state,
    version, write,
};
use crate::{StoreError, Stored, Stores, Timestamp, UserPatch};

pub async fn concurrent_user_updates_are_all_applied(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let updates = each_at_once(&stores, 0..64, |stores, at| async move {
        let patch = UserPatch { params: setting(&[(&format!("k{at}"), "v")]), ..UserPatch::default() };
        applied(stores.users.update_user(user_id(1), patch, write()).await.unwrap()).version.get()
    });
    let versions: BTreeSet<i64> = updates.await.into_iter().collect();
    assert_eq!(versions, (2..=65).collect());
    let user = live_user(&stores, 1).await;
    assert_eq!((user.version, user.params.len()), (version(65), 64));
}

pub async fn one_user_update_per_expected_version_wins(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let results = each_at_once(&stores, 0..32, |stores, _| async move {
        stores.users.update_user(user_id(1), UserPatch::default(), expecting(1)).await
    })
    .await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::Conflict { current } if current == version(2)), "{error:?}");
    }
    assert_eq!(live_user(&stores, 1).await.version, version(2));
}

pub async fn creations_at_once_of_one_id_let_one_through(stores: Stores) {
    let results = each_at_once(&stores, 0..32, |stores, at| async move {
        stores.users.create_user(bare_user(1, &format!("name{at}")), write()).await
    })
    .await;
    let won: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
    assert_eq!(won.len(), 1);
    assert_eq!(live_user(&stores, 1).await, won[0].record);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::IdTaken), "{error:?}");
    }
}

pub async fn deletions_at_once_let_one_through(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let results = each_at_once(&stores, 0..32, |stores, _| async move {
        stores.users.delete_user(user_id(1), Timestamp(0), write()).await
    })
    .await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}
