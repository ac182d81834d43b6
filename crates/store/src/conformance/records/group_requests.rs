//! Group store cases: a write with a request id has one effect and one answer.

use super::sample::{
    applied, assert_mismatch, bare_group, create_group, each_at_once, expecting, full_group, group_id,
    group_state, live_group, one_effect, replay, requested, version, write,
};
use crate::{GroupPatch, GroupWords, StoreError, Stored, Stores, Write};

fn named(name: &str) -> GroupPatch {
    GroupPatch { name: Some(name.into()), ..GroupPatch::default() }
}

pub async fn a_creation_sent_twice_has_one_effect(stores: Stores) {
    let first = applied(stores.groups.create_group(full_group(1), requested("r", 1)).await.unwrap());
    for _ in 0..3 {
        assert_eq!(replay(stores.groups.create_group(full_group(1), requested("r", 1)).await), first);
    }
    assert_eq!(live_group(&stores, 1).await, first);
}

pub async fn group_creation_replays_under_new_id(stores: Stores) {
    let first = applied(stores.groups.create_group(bare_group(1, "g"), requested("r", 1)).await.unwrap());
    assert_eq!(replay(stores.groups.create_group(bare_group(2, "g"), requested("r", 1)).await), first);
    assert_eq!(group_state(&stores, 2).await, Stored::Never);
}

pub async fn group_creation_replays_after_update(stores: Stores) {
    let first = applied(stores.groups.create_group(full_group(1), requested("r", 1)).await.unwrap());
    let moved = applied(stores.groups.update_group(group_id(1), named("moved"), write()).await.unwrap());
    assert_eq!(replay(stores.groups.create_group(full_group(1), requested("r", 1)).await), first);
    assert_eq!(live_group(&stores, 1).await, moved);
}

pub async fn group_creation_replays_after_dismissal(stores: Stores) {
    let first = applied(stores.groups.create_group(full_group(1), requested("r", 1)).await.unwrap());
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    assert_eq!(replay(stores.groups.create_group(full_group(1), requested("r", 1)).await), first);
    assert_eq!(group_state(&stores, 1).await, Stored::Deleted(version(2)));
    let key = GroupWords::exact_key(&first.name);
    assert_eq!(stores.groups.search_groups(&key, None, 10).await.unwrap(), []);
}

pub async fn an_update_sent_twice_has_one_effect(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    let write = || Write { expected: expecting(1).expected, ..requested("r", 1) };
    let first = applied(stores.groups.update_group(group_id(1), named("a"), write()).await.unwrap());
    for _ in 0..3 {
        assert_eq!(replay(stores.groups.update_group(group_id(1), named("a"), write()).await), first);
    }
    assert_eq!(live_group(&stores, 1).await, first);
    assert_eq!(first.version, version(2));
}

pub async fn group_update_replays_after_later_change(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    let first =
        applied(stores.groups.update_group(group_id(1), named("a"), requested("r", 1)).await.unwrap());
    let moved =
        applied(stores.groups.update_group(group_id(1), named("b"), requested("s", 2)).await.unwrap());
    assert_eq!(replay(stores.groups.update_group(group_id(1), named("a"), requested("r", 1)).await), first);
    assert_eq!(live_group(&stores, 1).await, moved);
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    assert_eq!(replay(stores.groups.update_group(group_id(1), named("a"), requested("r", 1)).await), first);
}

pub async fn dismissal_replays_after_group_is_recreated(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    let dismiss = || stores.groups.dismiss_group(group_id(1), requested("r", 1));
    assert_eq!(applied(dismiss().await.unwrap()), version(2));
    assert_eq!(replay(dismiss().await), version(2));
    let again = create_group(&stores, full_group(1)).await;
    assert_eq!(replay(dismiss().await), version(2));
    assert_eq!(live_group(&stores, 1).await, again);
}

pub async fn another_body_is_refused_and_has_no_effect(stores: Stores) {
    let created = applied(stores.groups.create_group(full_group(1), requested("r", 1)).await.unwrap());
    assert_mismatch(stores.groups.create_group(full_group(1), requested("r", 2)).await);
    let updated =
        applied(stores.groups.update_group(group_id(1), named("a"), requested("s", 3)).await.unwrap());
    assert_mismatch(stores.groups.update_group(group_id(1), named("b"), requested("s", 4)).await);
    assert_eq!(live_group(&stores, 1).await, updated);
    assert_eq!(replay(stores.groups.create_group(full_group(1), requested("r", 1)).await), created);
}

pub async fn request_id_of_other_call_or_group_is_refused(stores: Stores) {
    let first = applied(stores.groups.create_group(bare_group(1, "a"), requested("r", 1)).await.unwrap());
    let second = create_group(&stores, bare_group(2, "b")).await;
    for id in [1, 2] {
        assert_mismatch(stores.groups.update_group(group_id(id), named("c"), requested("r", 2)).await);
        assert_mismatch(stores.groups.dismiss_group(group_id(id), requested("r", 3)).await);
    }
    assert_mismatch(stores.groups.create_group(bare_group(3, "a"), requested("r", 4)).await);
    assert_eq!(group_state(&stores, 3).await, Stored::Never);
    assert_eq!([live_group(&stores, 1).await, live_group(&stores, 2).await], [first, second]);
}

pub async fn a_failed_write_keeps_no_request(stores: Stores) {
    let update = |write| stores.groups.update_group(group_id(1), named("a"), write);
    assert!(matches!(update(requested("r", 1)).await.unwrap_err(), StoreError::NotFound));
    create_group(&stores, full_group(1)).await;
    let stale = Write { expected: Some(version(9)), ..requested("r", 1) };
    assert!(matches!(update(stale).await.unwrap_err(), StoreError::Conflict { .. }));
    assert_eq!(applied(update(requested("r", 1)).await.unwrap()).version, version(2));
    let create = || stores.groups.create_group(bare_group(1, "b"), requested("s", 2));
    assert!(matches!(create().await.unwrap_err(), StoreError::IdTaken));
    stores.groups.dismiss_group(group_id(1), write()).await.unwrap();
    assert_eq!(applied(create().await.unwrap()).version, version(4));
}

pub async fn a_creation_sent_at_once_has_one_effect(stores: Stores) {
    for round in 0..5_i64 {
        let ids = (1..=16).map(|at| 100 * round + at);
        let calls = each_at_once(&stores, ids.clone(), |stores, id| async move {
            let write = requested(&format!("r{round}"), 1);
            stores.groups.create_group(bare_group(id, "g"), write).await
        });
        let record = one_effect(calls.await);
        let stored = stores.groups.groups(&ids.map(group_id).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(stored, [(record.id, Stored::Live(record.into()))]);
    }
}

pub async fn an_update_sent_at_once_has_one_effect(stores: Stores) {
    create_group(&stores, full_group(1)).await;
    for round in 2..=6_i64 {
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            let write = requested(&format!("r{round}"), 1);
            stores.groups.update_group(group_id(1), named("a"), write).await
        });
        let record = one_effect(calls.await);
        assert_eq!(record.version, version(round));
        assert_eq!(live_group(&stores, 1).await, record);
    }
}

pub async fn a_dismissal_sent_at_once_has_one_effect(stores: Stores) {
    for id in 1..=5 {
        create_group(&stores, full_group(id)).await;
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            let write = requested(&format!("r{id}"), 1);
            stores.groups.dismiss_group(group_id(id), write).await
        });
        assert_eq!(one_effect(calls.await), version(2));
        assert_eq!(group_state(&stores, id).await, Stored::Deleted(version(2)));
    }
}
