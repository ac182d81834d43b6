//! Follow store cases: how many follows a user has, once nothing changes.

use super::{
    relation_sample::{
        KEPT, assert_overloaded, at, await_counts, blocking, counts, edge, follow, follow_at, imported,
        moment, set, unfollow, unfollow_at,
    },
    sample::user_id,
};
use crate::{BATCH_MAX, Stores, UserId};

pub async fn strangers_count_none(stores: Stores) {
    follow(&stores, 1, 2).await;
    assert_eq!(counts(&stores, &[3, i64::MAX]).await, [(0, 0), (0, 0)]);
    assert_eq!(counts(&stores, &[]).await, []);
}

pub async fn both_lists_are_counted(stores: Stores) {
    for other in 2..=21 {
        follow(&stores, 1, other).await;
    }
    for other in 5..=11 {
        follow(&stores, other, 1).await;
    }
    await_counts(&stores, &[(1, (20, 7)), (2, (0, 1)), (5, (1, 1)), (22, (0, 0))]).await;
}

pub async fn refollow_counts_once(stores: Stores) {
    for _ in 0..5 {
        follow(&stores, 1, 2).await;
    }
    follow(&stores, 1, 3).await;
    await_counts(&stores, &[(1, (2, 0)), (2, (0, 1)), (3, (0, 1))]).await;
}

pub async fn what_was_taken_back_counts_no_more(stores: Stores) {
    for other in 2..=9 {
        follow(&stores, 1, other).await;
        follow(&stores, other, 1).await;
    }
    await_counts(&stores, &[(1, (8, 8)), (9, (1, 1))]).await;
    for other in 2..=9 {
        unfollow(&stores, 1, other).await;
    }
    await_counts(&stores, &[(1, (0, 8)), (2, (1, 0)), (9, (1, 0))]).await;
}

pub async fn repeated_refollow_counts_once(stores: Stores) {
    follow_at(&stores, 3, 2, 0).await;
    for round in 0..10 {
        // Every other time it is at another position in the lists.
        let dead_for = if round % 2 == 0 { 10 } else { 4_000 };
        follow_at(&stores, 1, 2, 20_000 * round + dead_for).await;
        unfollow_at(&stores, 1, 2, 20_000 * (round + 1)).await;
    }
    await_counts(&stores, &[(1, (0, 0)), (2, (0, 1))]).await;
    follow_at(&stores, 1, 2, 300_000).await;
    await_counts(&stores, &[(1, (1, 0)), (2, (0, 2))]).await;
}

pub async fn what_a_block_cut_counts_no_more(stores: Stores) {
    for (from, to) in [(1, 2), (2, 1), (3, 1)] {
        follow(&stores, from, to).await;
    }
    for blocked in [true, true, false] {
        set(&stores, 1, 2, blocking(blocked)).await;
    }
    await_counts(&stores, &[(1, (1, 1)), (2, (0, 1)), (3, (1, 0))]).await;
}

pub async fn a_refused_follow_does_not_count(stores: Stores) {
    set(&stores, 2, 1, blocking(true)).await;
    for _ in 0..3 {
        stores.follows.follow(edge(1, 2), KEPT, at(0)).await.unwrap_err();
    }
    follow(&stores, 1, 3).await;
    await_counts(&stores, &[(1, (1, 0)), (2, (0, 0)), (3, (0, 1))]).await;
}

pub async fn imported_follows_count_once(stores: Stores) {
    follow(&stores, 1, 2).await;
    follow(&stores, 1, 3).await;
    unfollow(&stores, 1, 3).await;
    let follows: Vec<_> = (2..=40).map(|to| imported(1, to, 0)).collect();
    for _ in 0..3 {
        stores.follows.import_follows(&follows, moment(9)).await.unwrap();
    }
    await_counts(&stores, &[(1, (38, 0)), (2, (0, 1)), (3, (0, 0)), (40, (0, 1))]).await;
    follow(&stores, 1, 40).await;
    unfollow(&stores, 1, 39).await;
    await_counts(&stores, &[(1, (37, 0)), (39, (0, 0)), (40, (0, 1))]).await;
}

pub async fn counts_have_the_order_of_the_users(stores: Stores) {
    for (from, to) in [(1, 2), (1, 3), (1, 4), (2, 4)] {
        follow(&stores, from, to).await;
    }
    await_counts(&stores, &[(1, (3, 0)), (2, (1, 1)), (3, (0, 1)), (4, (0, 2))]).await;
    assert_eq!(counts(&stores, &[4, 9, 1, 2]).await, [(0, 2), (0, 0), (3, 0), (1, 1)]);
    assert_eq!(counts(&stores, &[2, 1, 2, 1]).await, [(1, 1), (3, 0), (1, 1), (3, 0)]);
}

pub async fn follow_counts_are_refused_above_limit(stores: Stores) {
    follow(&stores, 1, 500).await;
    await_counts(&stores, &[(1, (1, 0)), (500, (0, 1))]).await;
    let users: Vec<UserId> = (1..).map(user_id).take(BATCH_MAX + 1).collect();
    let read = stores.follows.follow_counts(&users[..BATCH_MAX]).await.unwrap();
    assert_eq!(read.len(), BATCH_MAX);
    assert_eq!((read[0].following, read[499].fans, read[250].fans), (1, 1, 0));
    assert_overloaded(stores.follows.follow_counts(&users).await);
}
