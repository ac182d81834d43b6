//! User store cases: a write with a request id has one effect and one answer.

use std::time::Duration;

use super::sample::{
    applied, assert_mismatch, bare_user, create_user, delete_and_release, each_at_once, expecting, full_user,
    live_user, name, one_effect, replay, requested, user_id, user_state, version, write,
};
use crate::{REQUEST_KEPT, StoreError, Stored, Stores, Timestamp, UserPatch, Version, Write};

fn aged(age: u8) -> UserPatch {
    UserPatch { age: Some(age), ..UserPatch::default() }
}

pub async fn a_creation_sent_twice_has_one_effect(stores: Stores) {
    let first = applied(stores.users.create_user(full_user(1), requested("r", 1)).await.unwrap());
    for _ in 0..3 {
        assert_eq!(replay(stores.users.create_user(full_user(1), requested("r", 1)).await), first);
    }
    assert_eq!(live_user(&stores, 1).await, first);
}

pub async fn user_creation_replays_under_new_id(stores: Stores) {
    let first = applied(stores.users.create_user(bare_user(1, "ann"), requested("r", 1)).await.unwrap());
    assert_eq!(replay(stores.users.create_user(bare_user(2, "ann"), requested("r", 1)).await), first);
    assert_eq!(user_state(&stores, 2).await, Stored::Never);
}

pub async fn user_creation_replays_after_update(stores: Stores) {
    let first = applied(stores.users.create_user(full_user(1), requested("r", 1)).await.unwrap());
    let patch = UserPatch { user_name: Some(name("moved on")), ..aged(9) };
    let moved = applied(stores.users.update_user(user_id(1), patch, write()).await.unwrap());
    assert_eq!(replay(stores.users.create_user(full_user(1), requested("r", 1)).await), first);
    assert_eq!(live_user(&stores, 1).await, moved);
}

pub async fn user_creation_replays_after_deletion(stores: Stores) {
    let first = applied(stores.users.create_user(full_user(1), requested("r", 1)).await.unwrap());
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    assert_eq!(replay(stores.users.create_user(full_user(1), requested("r", 1)).await), first);
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
    assert_eq!(stores.users.user_by_name(&full_user(1).user_name).await.unwrap(), None);
}

pub async fn an_update_sent_twice_has_one_effect(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let first = applied(stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await.unwrap());
    for _ in 0..3 {
        assert_eq!(replay(stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await), first);
    }
    assert_eq!(live_user(&stores, 1).await, first);
    assert_eq!(first.version, version(2));
}

pub async fn user_update_replays_after_later_change(stores: Stores) {
    create_user(&stores, full_user(1)).await;
    let first = applied(stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await.unwrap());
    let moved = applied(stores.users.update_user(user_id(1), aged(4), requested("s", 2)).await.unwrap());
    assert_eq!(replay(stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await), first);
    assert_eq!(live_user(&stores, 1).await, moved);
    assert_eq!(moved.version, version(3));
}

pub async fn user_update_replays_with_stale_version(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let write = || Write { expected: expecting(1).expected, ..requested("r", 1) };
    let first = applied(stores.users.update_user(user_id(1), aged(3), write()).await.unwrap());
    assert_eq!(replay(stores.users.update_user(user_id(1), aged(3), write()).await), first);
    assert_eq!(live_user(&stores, 1).await, first);
}

pub async fn an_update_replays_after_deletion(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let first = applied(stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await.unwrap());
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    assert_eq!(replay(stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await), first);
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(3)));
}

pub async fn a_deletion_sent_twice_has_one_effect(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let delete = || stores.users.delete_user(user_id(1), Timestamp(0), requested("r", 1));
    assert_eq!(applied(delete().await.unwrap()), version(2));
    for _ in 0..3 {
        assert_eq!(replay(delete().await), version(2));
    }
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}

pub async fn deletion_replays_after_user_is_recreated(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let delete = || stores.users.delete_user(user_id(1), Timestamp(0), requested("r", 1));
    assert_eq!(applied(delete().await.unwrap()), version(2));
    stores.users.release_id(user_id(1), write().now).await.unwrap();
    let again = create_user(&stores, bare_user(1, "ann")).await;
    assert_eq!(replay(delete().await), version(2));
    assert_eq!(live_user(&stores, 1).await, again);
}

pub async fn another_body_is_refused_and_has_no_effect(stores: Stores) {
    let created = applied(stores.users.create_user(full_user(1), requested("r", 1)).await.unwrap());
    assert_mismatch(stores.users.create_user(full_user(1), requested("r", 2)).await);
    let updated = applied(stores.users.update_user(user_id(1), aged(3), requested("s", 3)).await.unwrap());
    assert_mismatch(stores.users.update_user(user_id(1), aged(4), requested("s", 4)).await);
    assert_eq!(live_user(&stores, 1).await, updated);
    // Neither refusal spoilt what is kept.
    assert_eq!(replay(stores.users.create_user(full_user(1), requested("r", 1)).await), created);
    assert_eq!(replay(stores.users.update_user(user_id(1), aged(3), requested("s", 3)).await), updated);
}

pub async fn another_method_is_refused_and_has_no_effect(stores: Stores) {
    let created = applied(stores.users.create_user(full_user(1), requested("r", 1)).await.unwrap());
    assert_mismatch(stores.users.update_user(user_id(1), aged(3), requested("r", 2)).await);
    assert_mismatch(stores.users.delete_user(user_id(1), Timestamp(0), requested("r", 3)).await);
    assert_eq!(live_user(&stores, 1).await, created);
    stores.users.delete_user(user_id(1), Timestamp(0), requested("s", 4)).await.unwrap();
    assert_mismatch(stores.users.create_user(full_user(1), requested("s", 5)).await);
    assert_eq!(user_state(&stores, 1).await, Stored::Deleted(version(2)));
}

pub async fn another_user_is_refused_and_has_no_effect(stores: Stores) {
    applied(stores.users.create_user(bare_user(1, "ann"), requested("r", 1)).await.unwrap());
    let bea = create_user(&stores, bare_user(2, "bea")).await;
    assert_mismatch(stores.users.create_user(bare_user(3, "cid"), requested("r", 2)).await);
    assert_mismatch(stores.users.update_user(user_id(2), aged(3), requested("r", 3)).await);
    assert_mismatch(stores.users.delete_user(user_id(2), Timestamp(0), requested("r", 4)).await);
    assert_eq!(user_state(&stores, 3).await, Stored::Never);
    assert_eq!(live_user(&stores, 2).await, bea);
}

pub async fn a_failed_creation_keeps_no_request(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let create = || stores.users.create_user(bare_user(2, "ann"), requested("r", 1));
    assert!(matches!(create().await.unwrap_err(), StoreError::NameTaken));
    stores.users.delete_user(user_id(1), Timestamp(0), write()).await.unwrap();
    let created = applied(create().await.unwrap());
    assert_eq!(live_user(&stores, 2).await, created);
    let create = || stores.users.create_user(bare_user(2, "bea"), requested("s", 2));
    assert!(matches!(create().await.unwrap_err(), StoreError::IdTaken));
    delete_and_release(&stores, 2, Timestamp(0)).await;
    assert_eq!(applied(create().await.unwrap()).version, version(3));
}

pub async fn a_failed_update_keeps_no_request(stores: Stores) {
    let absent = stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await.unwrap_err();
    assert!(matches!(absent, StoreError::NotFound), "{absent:?}");
    create_user(&stores, bare_user(1, "ann")).await;
    let stale = Write { expected: Some(version(9)), ..requested("r", 1) };
    let stale = stores.users.update_user(user_id(1), aged(3), stale).await.unwrap_err();
    assert!(matches!(stale, StoreError::Conflict { .. }), "{stale:?}");
    let updated = stores.users.update_user(user_id(1), aged(3), requested("r", 1)).await.unwrap();
    assert_eq!(applied(updated), live_user(&stores, 1).await);
}

pub async fn a_failed_deletion_keeps_no_request(stores: Stores) {
    let delete = || stores.users.delete_user(user_id(1), Timestamp(0), requested("r", 1));
    assert!(matches!(delete().await.unwrap_err(), StoreError::NotFound));
    create_user(&stores, bare_user(1, "ann")).await;
    assert_eq!(applied(delete().await.unwrap()), version(2));
}

pub async fn requests_of_different_ids_have_an_effect_each(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for (number, id) in (2..).zip(["r", "s", "r-1", "r_1", "0"]) {
        let updated = stores.users.update_user(user_id(1), aged(3), requested(id, 1)).await.unwrap();
        assert_eq!(applied(updated).version, version(number));
    }
}

pub async fn request_ids_differ_by_case(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for id in ["abc", "ABC", "Abc"] {
        applied(stores.users.update_user(user_id(1), aged(3), requested(id, 1)).await.unwrap());
    }
    assert_eq!(live_user(&stores, 1).await.version, version(4));
}

pub async fn a_creation_sent_at_once_has_one_effect(stores: Stores) {
    for round in 1..=5_i64 {
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            let write = requested(&format!("r{round}"), 1);
            stores.users.create_user(full_user(round), write).await
        });
        let record = one_effect(calls.await);
        assert_eq!(live_user(&stores, round).await, record);
        assert_eq!(record.version, Version::FIRST);
    }
}

pub async fn concurrent_creation_request_has_one_effect(stores: Stores) {
    for round in 0..5_i64 {
        let ids = (1..=16).map(|at| 100 * round + at);
        let calls = each_at_once(&stores, ids.clone(), |stores, id| async move {
            let write = requested(&format!("r{round}"), 1);
            stores.users.create_user(bare_user(id, &format!("ann-{round}")), write).await
        });
        let record = one_effect(calls.await);
        let stored = stores.users.users(&ids.map(user_id).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(stored, [(record.id, Stored::Live(record.into()))]);
    }
}

pub async fn an_update_sent_at_once_has_one_effect(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for round in 2..=6_i64 {
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            let write = requested(&format!("r{round}"), 1);
            stores.users.update_user(user_id(1), aged(3), write).await
        });
        let record = one_effect(calls.await);
        assert_eq!(record.version, version(round));
        assert_eq!(live_user(&stores, 1).await, record);
    }
}

pub async fn a_deletion_sent_at_once_has_one_effect(stores: Stores) {
    for id in 1..=5 {
        create_user(&stores, bare_user(id, &format!("u{id}"))).await;
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            let write = requested(&format!("r{id}"), 1);
            stores.users.delete_user(user_id(id), Timestamp(0), write).await
        });
        assert_eq!(one_effect(calls.await), version(2));
        assert_eq!(user_state(&stores, id).await, Stored::Deleted(version(2)));
    }
}

pub async fn two_bodies_at_once_have_one_effect(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let results = each_at_once(&stores, 0..16_u8, |stores, at| async move {
        let body = 1 + at % 2;
        (body, stores.users.update_user(user_id(1), aged(body), requested("r", body)).await)
    })
    .await;
    let user = live_user(&stores, 1).await;
    assert_eq!(user.version, version(2));
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(|(body, _)| *body == user.age);
    assert_eq!(one_effect(won.into_iter().map(|(_, result)| result).collect()), user);
    lost.into_iter().for_each(|(_, result)| assert_mismatch(result));
}

pub async fn a_user_keeps_the_answers_of_many_requests(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let mut answers = Vec::new();
    for at in 0..100_u8 {
        let write = requested(&format!("r{at}"), at);
        answers.push(applied(stores.users.update_user(user_id(1), aged(at), write).await.unwrap()));
    }
    for (at, answer) in (0..100_u8).zip(answers) {
        let write = requested(&format!("r{at}"), at);
        assert_eq!(replay(stores.users.update_user(user_id(1), aged(at), write).await), answer);
    }
    assert_eq!(live_user(&stores, 1).await.version, version(101));
}

pub async fn young_requests_are_not_forgotten(stores: Stores) {
    let first = applied(stores.users.create_user(bare_user(1, "ann"), requested("r", 1)).await.unwrap());
    let last = Timestamp(first.created.after(REQUEST_KEPT).0 - 1000);
    for now in [Timestamp(0), first.created, last] {
        assert_eq!(stores.node.forget_requests(now).await.unwrap(), 0);
        assert_eq!(replay(stores.users.create_user(bare_user(1, "ann"), requested("r", 1)).await), first);
    }
}

/// A store that deletes expired requests by itself returns 0 here, because it uses its own clock.
pub async fn forgotten_request_has_effect_again(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    for id in ["r", "s", "t"] {
        stores.users.update_user(user_id(1), aged(3), requested(id, 1)).await.unwrap();
    }
    let later = write().now.after(REQUEST_KEPT + Duration::from_secs(3600));
    let young = Write { now: later, ..requested("young", 1) };
    stores.users.update_user(user_id(1), aged(3), young.clone()).await.unwrap();
    let forgotten = stores.node.forget_requests(later).await.unwrap();
    assert!(forgotten == 0 || forgotten == 3, "{forgotten} forgotten");
    replay(stores.users.update_user(user_id(1), aged(3), young).await);
    if forgotten > 0 {
        let updated = stores.users.update_user(user_id(1), aged(3), requested("r", 2)).await.unwrap();
        assert_eq!(applied(updated).version, version(6));
    }
}
