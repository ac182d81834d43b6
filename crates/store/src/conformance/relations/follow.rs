//! Follow store cases: single follow records.

use std::{collections::BTreeSet, time::Duration};

use super::{
    relation_sample::{
        KEPT, allowing, assert_blocked, assert_not_found, assert_overloaded, at, blocking, disturbing_not,
        edge, fans, follow, follow_at, follow_state, following, live_follow, moment, remarking, set,
        unfollow, unfollow_at,
    },
    sample::{applied, expecting, user_id, write},
};
use crate::{BATCH_MAX, Edge, Follow, Stored, Stores, UserId, Version};

pub async fn a_follow_reads_back_as_it_was_answered(stores: Stores) {
    let answered = follow(&stores, 1, 2).await;
    assert_eq!(answered.edge, edge(1, 2));
    assert!(answered.version > Version::NONE);
    assert_eq!(live_follow(&stores, 1, 2).await, answered);
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![2], vec![1]));
}

pub async fn an_edge_that_never_was_is_never(stores: Stores) {
    follow(&stores, 1, 2).await;
    for (from, to) in [(2, 1), (1, 3), (3, 2), (8, 9)] {
        assert_eq!(follow_state(&stores, from, to).await, Stored::Never, "{from} {to}");
    }
}

pub async fn users_of_the_largest_ids_follow_one_another(stores: Stores) {
    for (from, to) in [(1, i64::MAX), (i64::MAX, 1), (i64::MAX, i64::MAX - 1)] {
        let answered = follow(&stores, from, to).await;
        assert_eq!(live_follow(&stores, from, to).await, answered);
    }
    unfollow(&stores, i64::MAX, 1).await;
    assert_eq!(following(&stores, i64::MAX).await, [i64::MAX - 1]);
    assert_eq!(fans(&stores, i64::MAX).await, [1]);
}

pub async fn both_directions_are_apart(stores: Stores) {
    let there = follow(&stores, 1, 2).await;
    let back = follow(&stores, 2, 1).await;
    let ended = unfollow(&stores, 1, 2).await;
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
    assert_eq!(live_follow(&stores, 2, 1).await, back);
    assert!(there.version < ended);
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![], vec![]));
    assert_eq!((following(&stores, 2).await, fans(&stores, 1).await), (vec![1], vec![2]));
}

pub async fn follows_of_one_user_are_apart(stores: Stores) {
    let second = follow(&stores, 1, 2).await;
    follow(&stores, 1, 3).await;
    let fourth = follow(&stores, 4, 2).await;
    unfollow(&stores, 1, 3).await;
    assert_eq!(live_follow(&stores, 1, 2).await, second);
    assert_eq!(live_follow(&stores, 4, 2).await, fourth);
}

pub async fn ended_follow_keeps_version(stores: Stores) {
    let begun = follow(&stores, 1, 2).await.version;
    let ended = unfollow(&stores, 1, 2).await;
    assert!(ended > begun, "{ended} after {begun}");
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
}

pub async fn to_follow_again_changes_nothing(stores: Stores) {
    let first = follow_at(&stores, 1, 2, 0).await;
    for seconds in [0, 1, 10_000] {
        assert_eq!(follow_at(&stores, 1, 2, seconds).await, first);
    }
    let soon = stores.follows.follow(edge(1, 2), Duration::ZERO, at(20_000)).await.unwrap();
    assert_eq!(applied(soon), first);
    assert_eq!(live_follow(&stores, 1, 2).await, first);
}

pub async fn unfollow_of_absent_follow_is_not_found(stores: Stores) {
    assert_not_found(stores.follows.unfollow(edge(1, 2), write()).await);
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Never);
    follow(&stores, 1, 2).await;
    assert_not_found(stores.follows.unfollow(edge(2, 1), write()).await);
    let ended = unfollow(&stores, 1, 2).await;
    for _ in 0..2 {
        assert_not_found(stores.follows.unfollow(edge(1, 2), write()).await);
    }
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
}

pub async fn versions_rise_over_end_and_new_begin(stores: Stores) {
    let mut last = Version::NONE;
    for _ in 0..10 {
        let begun = follow(&stores, 1, 2).await.version;
        let ended = unfollow(&stores, 1, 2).await;
        assert!(last < begun && begun < ended, "{last} {begun} {ended}");
        last = ended;
    }
}

pub async fn the_expected_version_is_not_looked_at(stores: Stores) {
    let begun = applied(stores.follows.follow(edge(1, 2), KEPT, expecting(77)).await.unwrap());
    let again = applied(stores.follows.follow(edge(1, 2), KEPT, expecting(0)).await.unwrap());
    assert_eq!(again, begun);
    let ended = applied(stores.follows.unfollow(edge(1, 2), expecting(77)).await.unwrap());
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
}

pub async fn times_are_those_of_the_write(stores: Stores) {
    let answered = follow_at(&stores, 1, 2, 5).await;
    let version = answered.version;
    let expected = Follow { edge: edge(1, 2), version, since: moment(5), placed: moment(5) };
    assert_eq!(answered, expected);
    assert_eq!(live_follow(&stores, 1, 2).await, expected);
}

pub async fn a_new_begin_has_a_new_since(stores: Stores) {
    follow_at(&stores, 1, 2, 0).await;
    for (ended, begun) in [(10, 20), (30, 10_000), (10_001, 10_002)] {
        unfollow_at(&stores, 1, 2, ended).await;
        let again = follow_at(&stores, 1, 2, begun).await;
        assert_eq!(again.since, moment(begun));
        assert_eq!(live_follow(&stores, 1, 2).await, again);
    }
}

pub async fn blocked_user_cannot_follow(stores: Stores) {
    set(&stores, 2, 1, blocking(true)).await;
    for _ in 0..2 {
        assert_blocked(stores.follows.follow(edge(1, 2), KEPT, write()).await);
    }
    assert!(follow_state(&stores, 1, 2).await.live().is_none());
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![], vec![]));
    follow(&stores, 1, 3).await;
    follow(&stores, 4, 2).await;
}

pub async fn refused_follow_changes_nothing(stores: Stores) {
    follow(&stores, 1, 2).await;
    unfollow(&stores, 1, 2).await;
    set(&stores, 2, 1, blocking(true)).await;
    assert_blocked(stores.follows.follow(edge(1, 2), KEPT, write()).await);
    assert!(matches!(follow_state(&stores, 1, 2).await, Stored::Deleted(_)));
    assert_not_found(stores.follows.unfollow(edge(1, 2), write()).await);
}

pub async fn blocking_user_may_follow_the_blocked_one(stores: Stores) {
    set(&stores, 1, 2, blocking(true)).await;
    let answered = follow(&stores, 1, 2).await;
    assert_eq!(live_follow(&stores, 1, 2).await, answered);
    assert_blocked(stores.follows.follow(edge(2, 1), KEPT, write()).await);
}

pub async fn other_settings_than_block_allow_follow(stores: Stores) {
    for patch in [allowing(Some(0)), disturbing_not(true), remarking("no"), blocking(false)] {
        set(&stores, 2, 1, patch).await;
        follow(&stores, 1, 2).await;
        unfollow(&stores, 1, 2).await;
    }
}

pub async fn batch_returns_each_edge_once(stores: Stores) {
    let first = follow(&stores, 1, 2).await;
    let back = follow(&stores, 2, 1).await;
    follow(&stores, 1, 3).await;
    let ended = unfollow(&stores, 1, 3).await;
    follow(&stores, 1, 9).await;
    let asked = [(2, 1), (1, 2), (1, 3), (1, 4), (2, 1), (1, 4), (1, 3)].map(|(from, to)| edge(from, to));
    let mut read = stores.follows.follows(&asked).await.unwrap();
    read.retain(|(_, stored)| *stored != Stored::Never);
    read.sort_by_key(|(edge, _)| *edge);
    let expected = [
        (edge(1, 2), Stored::Live(first.into())),
        (edge(1, 3), Stored::Deleted(ended)),
        (edge(2, 1), Stored::Live(back.into())),
    ];
    assert_eq!(read, expected);
    assert_eq!(stores.follows.follows(&[]).await.unwrap(), []);
}

pub async fn follow_batch_is_refused_above_limit(stores: Stores) {
    follow(&stores, 1000, 1).await;
    follow(&stores, 1000, 500).await;
    let to = |to: UserId| Edge::new(user_id(1000), to).unwrap();
    let edges: Vec<Edge> = (1..).map(user_id).map(to).take(BATCH_MAX + 1).collect();
    let read = stores.follows.follows(&edges[..BATCH_MAX]).await.unwrap();
    let live = read.iter().filter(|(_, stored)| matches!(stored, Stored::Live(_)));
    let live: BTreeSet<i64> = live.map(|(edge, _)| edge.to.get()).collect();
    assert_eq!(live, BTreeSet::from([1, 500]));
    assert_overloaded(stores.follows.follows(&edges).await);
}
