//! Cases for the log that records what users did about each other.

use super::{
    relation_sample::{allowing, blocking, disturbing_not, edge, follow, remarking, set, unfollow},
    sample::{assert_fails, each_at_once, requested, user_id, write},
};
use crate::{
    Edge, Permissions, RelationEvent, RelationEventId, RelationEventKind, StoreError, Stores, Timestamp,
    Write,
};

/// An id from before all that the cases do.
fn long_ago() -> RelationEventId {
    RelationEventId::at(Timestamp(Timestamp::now().0 - 86_400_000), 0)
}

/// Reads a whole log, which is shorter than a page.
async fn log(stores: &Stores, user: i64) -> Vec<RelationEvent> {
    stores.relation_log.relation_log(user_id(user), long_ago(), 1_000).await.unwrap()
}

/// The edge and kind that each event in a log has.
async fn events(stores: &Stores, user: i64) -> Vec<(Edge, RelationEventKind)> {
    log(stores, user).await.iter().map(|event| (event.edge, event.kind)).collect()
}

fn unfriended(by: i64, other: i64) -> (Edge, RelationEventKind) {
    (edge(by, other), RelationEventKind::Unfriended)
}

fn permissions(by: i64, other: i64, before: Option<u32>, after: Option<u32>) -> (Edge, RelationEventKind) {
    let of = |bits: u32| Permissions::new(bits).unwrap();
    (edge(by, other), RelationEventKind::SetPermissions { before: before.map(of), after: after.map(of) })
}

async fn befriend(stores: &Stores, one: i64, other: i64) {
    follow(stores, one, other).await;
    follow(stores, other, one).await;
}

pub async fn end_of_friendship_is_logged_for_both(stores: Stores) {
    befriend(&stores, 1, 2).await;
    assert_eq!(events(&stores, 1).await, []);
    let before = Timestamp::now();
    unfollow(&stores, 1, 2).await;
    let found = log(&stores, 1).await;
    assert_eq!(events(&stores, 1).await, [unfriended(1, 2)]);
    assert_eq!(log(&stores, 2).await, found, "both have the same");
    assert!(before <= found[0].id.moment() && found[0].id.moment() <= Timestamp::now());
    unfollow(&stores, 2, 1).await;
    assert_eq!(log(&stores, 1).await, found, "they were friends no more");
    assert_eq!(log(&stores, 2).await, found);
    assert_eq!(events(&stores, 3).await, []);
}

pub async fn a_follow_that_is_no_friendship_ends_silently(stores: Stores) {
    follow(&stores, 1, 2).await;
    unfollow(&stores, 1, 2).await;
    assert_eq!((events(&stores, 1).await, events(&stores, 2).await), (vec![], vec![]));
}

pub async fn repeated_end_of_friendship_is_logged_again(stores: Stores) {
    befriend(&stores, 1, 2).await;
    unfollow(&stores, 1, 2).await;
    follow(&stores, 1, 2).await;
    unfollow(&stores, 2, 1).await;
    for user in [1, 2] {
        assert_eq!(events(&stores, user).await, [unfriended(1, 2), unfriended(2, 1)]);
    }
}

pub async fn block_of_friend_logs_end_of_friendship(stores: Stores) {
    befriend(&stores, 1, 2).await;
    set(&stores, 1, 2, blocking(true)).await;
    for user in [1, 2] {
        assert_eq!(events(&stores, user).await, [unfriended(1, 2)], "by the user who blocked");
    }
}

pub async fn block_without_friendship_is_not_logged(stores: Stores) {
    follow(&stores, 2, 1).await;
    for patch in [blocking(true), blocking(false), disturbing_not(true), remarking("a")] {
        set(&stores, 1, 2, patch).await;
    }
    assert_eq!((events(&stores, 1).await, events(&stores, 2).await), (vec![], vec![]));
}

pub async fn permission_change_is_logged_with_old_value(stores: Stores) {
    let mut expected = Vec::new();
    for (before, after) in [(None, Some(9)), (Some(9), Some(0)), (Some(0), None)] {
        set(&stores, 1, 2, allowing(after)).await;
        expected.push(permissions(1, 2, before, after));
        assert_eq!(events(&stores, 1).await, expected);
        assert_eq!(log(&stores, 2).await, log(&stores, 1).await);
    }
}

pub async fn unchanged_permissions_are_not_logged(stores: Stores) {
    set(&stores, 1, 2, allowing(None)).await;
    assert_eq!(events(&stores, 1).await, []);
    for _ in 0..3 {
        set(&stores, 1, 2, allowing(Some(5))).await;
    }
    assert_eq!(events(&stores, 2).await, [permissions(1, 2, None, Some(5))]);
}

pub async fn repeated_unfollow_request_is_logged_once(stores: Stores) {
    befriend(&stores, 1, 2).await;
    for _ in 0..3 {
        stores.follows.unfollow(edge(1, 2), requested("r", 1)).await.unwrap();
    }
    assert_eq!(events(&stores, 2).await, [unfriended(1, 2)]);
    assert_eq!(log(&stores, 1).await, log(&stores, 2).await);
}

pub async fn repeated_permission_request_is_logged_once(stores: Stores) {
    for _ in 0..3 {
        stores.blocks.set_block(edge(1, 2), allowing(Some(1)), requested("r", 1)).await.unwrap();
        set(&stores, 1, 2, remarking("between")).await;
    }
    assert_eq!(events(&stores, 2).await, [permissions(1, 2, None, Some(1))]);
    assert_eq!(log(&stores, 1).await, log(&stores, 2).await);
}

pub async fn mutual_unfollow_race_is_logged_once(stores: Stores) {
    for round in 1..=8 {
        befriend(&stores, 1, 2).await;
        each_at_once(&stores, [(1, 2), (2, 1), (1, 2)], |stores, (from, to)| async move {
            stores.follows.unfollow(edge(from, to), write()).await
        })
        .await;
        let found = log(&stores, 1).await;
        assert_eq!(found.len(), round, "{found:?}");
        assert_eq!(log(&stores, 2).await, found);
    }
}

pub async fn concurrent_permissions_are_logged_once_each(stores: Stores) {
    each_at_once(
        &stores,
        1..=8,
        |stores, bits| async move { set(&stores, 1, 2, allowing(Some(bits))).await },
    )
    .await;
    let events = events(&stores, 1).await;
    for bits in 1..=8 {
        let after = Some(Permissions::new(bits).unwrap());
        let sets = |event: &&(Edge, RelationEventKind)| matches!(event.1, RelationEventKind::SetPermissions { after: to, .. } if to == after);
        assert_eq!(events.iter().filter(sets).count(), 1, "{bits} {events:?}");
    }
    assert_eq!((events.len(), log(&stores, 2).await), (8, log(&stores, 1).await));
}

pub async fn refused_change_is_not_logged(stores: Stores) {
    set(&stores, 1, 2, remarking("a")).await;
    let stale = Write { expected: Some(crate::Version::NONE), ..write() };
    assert_fails!(
        stores.blocks.set_block(edge(1, 2), allowing(Some(1)), stale).await,
        StoreError::Conflict { .. }
    );
    stores.follows.unfollow(edge(1, 2), write()).await.unwrap_err();
    assert_eq!((events(&stores, 1).await, events(&stores, 2).await), (vec![], vec![]));
}

pub async fn log_is_paged_by_rising_id(stores: Stores) {
    for other in 2..=8 {
        set(&stores, 1, other, allowing(Some(1))).await;
    }
    let (mut events, mut after) = (Vec::<RelationEvent>::new(), long_ago());
    for expected in [3, 3, 1, 0] {
        let page = stores.relation_log.relation_log(user_id(1), after, 3).await.unwrap();
        assert_eq!(page.len(), expected);
        events.extend(page);
        after = events.last().map(|event| event.id).unwrap();
    }
    assert!(events.is_sorted_by_key(|event| event.id));
    assert_eq!(events.iter().map(|event| event.edge.to.get()).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(stores.relation_log.relation_log(user_id(1), long_ago(), 0).await.unwrap(), []);
}

pub async fn removal_of_a_user_is_not_logged(stores: Stores) {
    befriend(&stores, 1, 2).await;
    set(&stores, 1, 3, allowing(Some(1))).await;
    while !stores.edges.remove_edges(user_id(1), 100).await.unwrap().is_empty() {}
    assert_eq!(events(&stores, 2).await, []);
    assert_eq!(events(&stores, 3).await, [permissions(1, 3, None, Some(1))]);
}

pub async fn what_is_old_is_forgotten(stores: Stores) {
    set(&stores, 1, 2, allowing(Some(1))).await;
    let found = log(&stores, 1).await;
    let forget = |before| stores.relation_log.forget_relation_log(before, 10);
    assert_eq!(forget(found[0].id.moment()).await.unwrap(), 0);
    assert_eq!(log(&stores, 1).await, found);
    // A store that forgets by itself does so in its own time.
    if forget(found[0].id.moment().after(std::time::Duration::from_millis(1))).await.unwrap() > 0 {
        assert_eq!((log(&stores, 1).await, log(&stores, 2).await), (vec![], vec![]));
    }
}
