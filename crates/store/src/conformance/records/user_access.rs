//! User access cases: what suspends a user, and which tokens count.

use super::sample::{
    applied, assert_fails, bare_user, create_user, delete_and_release, expecting, live_user, replay,
    requested, user_id, version, write,
};
use crate::{
    AccessChange, StoreError, Stored, Stores, Suspension, TOKENS_AFTER_DELETION, Timestamp, UserAccess,
    UserPatch, Version, Write,
};

fn suspend(until: Option<i64>, reason: &str) -> AccessChange {
    AccessChange::Suspend(Suspension::new(until.map(Timestamp), reason).unwrap())
}

async fn change(stores: &Stores, id: i64, change: AccessChange) -> UserAccess {
    applied(stores.accesses.change_access(user_id(id), change, write()).await.unwrap())
}

/// Reads the access in both ways, which must agree.
async fn access(stores: &Stores, id: i64) -> Stored<UserAccess> {
    let ids = [user_id(id), user_id(id)];
    let (cached, strong) =
        (stores.accesses.accesses(&ids).await.unwrap(), stores.accesses.strong_accesses(&ids).await.unwrap());
    assert_eq!(cached, strong);
    assert!(cached.len() <= 1, "each id is returned once: {cached:?}");
    cached.into_iter().next().map_or(Stored::Never, |(found, access)| {
        assert_eq!(found, user_id(id));
        access
    })
}

async fn live(stores: &Stores, id: i64) -> UserAccess {
    access(stores, id).await.live().unwrap()
}

pub async fn user_without_access_record_has_none(stores: Stores) {
    assert_eq!(access(&stores, 1).await, Stored::Never);
    create_user(&stores, bare_user(1, "ann")).await;
    assert_eq!(access(&stores, 1).await, Stored::Never);
    assert_eq!(stores.accesses.accesses(&[]).await.unwrap(), []);
}

pub async fn suspension_reads_back_until_resumed(stores: Stores) {
    let before = create_user(&stores, bare_user(1, "ann")).await;
    let first = change(&stores, 1, suspend(Some(7_000), "spam \u{1F600}")).await;
    let expected = UserAccess {
        version: version(1),
        suspension: Some(Suspension { until: Some(Timestamp(7_000)), reason: "spam \u{1F600}".into() }),
        ..UserAccess::unrestricted(user_id(1))
    };
    assert_eq!((first, live(&stores, 1).await), (expected.clone(), expected));
    let second = change(&stores, 1, suspend(None, "")).await;
    assert_eq!(second.suspension, Some(Suspension { until: None, reason: "".into() }));
    assert_eq!(live(&stores, 1).await, second);
    assert_eq!(change(&stores, 1, AccessChange::Resume).await.suspension, None);
    assert_eq!(access(&stores, 1).await, Stored::Deleted(version(3)));
    let after = live_user(&stores, 1).await;
    assert_eq!(after, crate::User { version: version(4), ..before }, "each change raises its version");
}

pub async fn time_of_tokens_only_rises(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for (asked, stored) in [(5_000, 5_000), (4_000, 5_000), (6_000, 6_000)] {
        let changed = change(&stores, 1, AccessChange::RefuseTokens(Timestamp(asked))).await;
        assert_eq!(changed.tokens_from, Timestamp(stored));
        assert_eq!(live(&stores, 1).await, changed);
    }
    assert_eq!(live(&stores, 1).await.version, version(3));
}

pub async fn deletion_begins_another_account(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    change(&stores, 1, suspend(None, "spam")).await;
    delete_and_release(&stores, 1, Timestamp(0)).await;
    let ended = live(&stores, 1).await;
    let earliest = Timestamp::now().after(TOKENS_AFTER_DELETION).0 - 60_000;
    assert!((earliest..=earliest + 60_000).contains(&ended.tokens_from.0), "{ended:?}");
    assert_eq!((ended.account, ended.version), (1, version(2)));
    assert_eq!(ended.suspension, None, "the next account begins without it");
    create_user(&stores, bare_user(1, "bob")).await;
    assert_eq!(live(&stores, 1).await, ended, "it outlives the deletion");
    stores.users.update_user(user_id(1), UserPatch::default(), write()).await.unwrap();
    assert_eq!(live(&stores, 1).await, ended);
    let later = Write::at(write().now.after(TOKENS_AFTER_DELETION));
    stores.users.delete_user(user_id(1), Timestamp(0), later.clone()).await.unwrap();
    let again = live(&stores, 1).await;
    assert_eq!((again.account, again.tokens_from), (2, later.now.after(TOKENS_AFTER_DELETION)));
}

pub async fn deletion_keeps_a_later_time_of_tokens(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let far = write().now.after(10 * TOKENS_AFTER_DELETION);
    change(&stores, 1, AccessChange::RefuseTokens(far)).await;
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    assert_eq!(live(&stores, 1).await.tokens_from, far);
}

pub async fn access_of_no_user_is_not_found(stores: Stores) {
    create_user(&stores, bare_user(2, "bob")).await;
    stores.users.delete_user(user_id(2), Timestamp(0), write()).await.unwrap();
    let ended = live(&stores, 2).await;
    for id in [1, 2] {
        for change in [suspend(None, ""), AccessChange::Resume, AccessChange::RefuseTokens(Timestamp(5))] {
            assert_fails!(
                stores.accesses.change_access(user_id(id), change, write()).await,
                StoreError::NotFound
            );
        }
    }
    assert_eq!((access(&stores, 1).await, live(&stores, 2).await), (Stored::Never, ended));
}

pub async fn change_of_access_sent_twice_has_one_effect(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let sent = || stores.accesses.change_access(user_id(1), suspend(None, "spam"), requested("r", 1));
    let first = applied(sent().await.unwrap());
    change(&stores, 1, AccessChange::Resume).await;
    assert_eq!(replay(sent().await), first);
    assert_eq!(access(&stores, 1).await, Stored::Deleted(version(2)), "it is not suspended again");
    let error = stores.accesses.change_access(user_id(1), AccessChange::Resume, expecting(1)).await;
    assert_fails!(error, StoreError::Conflict { .. });
    assert_eq!(Version::FIRST, first.version);
}
