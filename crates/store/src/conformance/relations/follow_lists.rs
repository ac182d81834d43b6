//! Follow store cases: the lists that show which users a user follows, and which follow it.

use std::time::Duration;

use super::{
    relation_sample::{
        at, blocking, edge, fans, follow_at, following, live_follow, moment, set_at, unfollow_at, whole_list,
    },
    sample::{applied, assert_pages, user_id},
};
use crate::{Follow, FollowList, ListPosition, Stores};

async fn page(stores: &Stores, list: FollowList, after: Option<ListPosition>, limit: usize) -> Vec<Follow> {
    let page = stores.follows.follow_list(user_id(1), list, after, limit).await.unwrap();
    let positions = stores.follows.follow_positions(user_id(1), list, after, limit).await.unwrap();
    assert_eq!(positions, page.iter().map(|follow| follow.position_in(list)).collect::<Vec<_>>());
    page
}

/// The other user in an entry of this list.
fn other(follow: &Follow, list: FollowList) -> i64 {
    follow.position_in(list).user.get()
}

/// Puts the other user into this list of user 1.
async fn put(stores: &Stores, list: FollowList, other: i64, seconds: i64) -> Follow {
    match list {
        FollowList::Following => follow_at(stores, 1, other, seconds).await,
        FollowList::Fans => follow_at(stores, other, 1, seconds).await,
    }
}

/// Takes the other user out of this list of user 1.
async fn take(stores: &Stores, list: FollowList, other: i64, seconds: i64) {
    match list {
        FollowList::Following => unfollow_at(stores, 1, other, seconds).await,
        FollowList::Fans => unfollow_at(stores, other, 1, seconds).await,
    };
}

/// The other users in this list of user 1.
async fn others(stores: &Stores, list: FollowList) -> Vec<i64> {
    match list {
        FollowList::Following => following(stores, 1).await,
        FollowList::Fans => fans(stores, 1).await,
    }
}

async fn assert_pages_join(stores: &Stores, list: FollowList, expected: &[i64]) {
    assert_pages(expected, async |after, limit| {
        let page = page(stores, list, after, limit).await;
        page.iter().map(|follow| (other(follow, list), follow.position_in(list))).collect()
    })
    .await;
}

const LISTS: [FollowList; 2] = [FollowList::Following, FollowList::Fans];

pub async fn lists_of_strangers_are_empty(stores: Stores) {
    follow_at(&stores, 2, 3, 0).await;
    for list in LISTS {
        assert_eq!(page(&stores, list, None, 10).await, []);
        let after = Some(ListPosition { at: moment(9), user: user_id(3) });
        assert_eq!(page(&stores, list, after, 10).await, []);
    }
    assert_eq!((fans(&stores, 2).await, following(&stores, 3).await), (vec![], vec![]));
}

pub async fn both_lists_begin_with_the_newest(stores: Stores) {
    for (seconds, user) in [(10, 5), (20, 9), (30, 2), (40, 7)] {
        follow_at(&stores, 1, user, seconds).await;
        follow_at(&stores, user, 1, seconds + 100).await;
    }
    assert_eq!(following(&stores, 1).await, [7, 2, 9, 5]);
    assert_eq!(fans(&stores, 1).await, [7, 2, 9, 5]);
    assert_eq!((following(&stores, 9).await, fans(&stores, 9).await), (vec![1], vec![1]));
}

pub async fn lists_hold_the_whole_records(stores: Stores) {
    let first = follow_at(&stores, 1, 2, 0).await;
    follow_at(&stores, 1, 3, 10).await;
    unfollow_at(&stores, 1, 3, 20).await;
    let again = follow_at(&stores, 1, 3, 30).await;
    assert_eq!(whole_list(&stores, 1, FollowList::Following).await, [again.clone(), first.clone()]);
    assert_eq!(whole_list(&stores, 2, FollowList::Fans).await, [first]);
    assert_eq!(whole_list(&stores, 3, FollowList::Fans).await, [again]);
}

pub async fn follows_of_one_time_stand_by_falling_id(stores: Stores) {
    for list in LISTS {
        for user in [7, 300, 2, i64::MAX, 20, 255, 256] {
            put(&stores, list, user, 5).await;
        }
        assert_eq!(others(&stores, list).await, [i64::MAX, 300, 256, 255, 20, 7, 2], "{list:?}");
    }
}

pub async fn the_time_decides_and_not_the_order_of_writing(stores: Stores) {
    for list in LISTS {
        for (user, seconds) in [(2, 3), (3, 1), (4, 5), (5, 2), (6, 4)] {
            put(&stores, list, user, seconds).await;
        }
        assert_eq!(others(&stores, list).await, [4, 6, 2, 5, 3], "{list:?}");
    }
}

pub async fn pages_join_to_the_whole_list(stores: Stores) {
    for list in LISTS {
        for user in 11..=20 {
            put(&stores, list, user, user).await;
        }
        assert_pages_join(&stores, list, &(11..=20).rev().collect::<Vec<_>>()).await;
    }
}

pub async fn pages_join_where_times_are_equal(stores: Stores) {
    for list in LISTS {
        for user in [14, 11, 20, 12, 19, 13, 18, 15, 17, 16] {
            put(&stores, list, user, i64::from(user > 16)).await;
        }
        assert_pages_join(&stores, list, &(11..=20).rev().collect::<Vec<_>>()).await;
    }
}

pub async fn a_page_is_short_only_at_the_end(stores: Stores) {
    for list in LISTS {
        for user in 2..=7 {
            put(&stores, list, user, user).await;
        }
        for (limit, length) in [(5, 5), (6, 6), (7, 6), (500, 6)] {
            assert_eq!(page(&stores, list, None, limit).await.len(), length, "{list:?}");
        }
        let last = page(&stores, list, None, 6).await.pop().unwrap();
        assert_eq!(page(&stores, list, Some(last.position_in(list)), 5).await, []);
    }
}

pub async fn follow_page_continues_after_missing_position(stores: Stores) {
    for list in LISTS {
        for (user, seconds) in [(2, 10), (4, 20), (6, 20), (8, 30)] {
            put(&stores, list, user, seconds).await;
        }
        let after = async |seconds, user| {
            let position = ListPosition { at: moment(seconds), user: user_id(user) };
            let page = page(&stores, list, Some(position), 10).await;
            page.iter().map(|follow| other(follow, list)).collect::<Vec<_>>()
        };
        assert_eq!(after(40, 1).await, [8, 6, 4, 2]);
        assert_eq!(after(25, 1).await, [6, 4, 2]);
        assert_eq!(after(20, 9).await, [6, 4, 2]);
        assert_eq!(after(20, 5).await, [4, 2]);
        assert_eq!(after(20, 1).await, [2]);
        take(&stores, list, 6, 31).await;
        assert_eq!(after(20, 6).await, [4, 2]);
        assert_eq!(after(5, 1).await, [0_i64; 0]);
    }
}

pub async fn what_was_taken_back_is_gone_from_both_lists(stores: Stores) {
    for user in [2, 3, 4] {
        follow_at(&stores, 1, user, user).await;
        follow_at(&stores, user + 10, 2, user).await;
    }
    unfollow_at(&stores, 1, 3, 10).await;
    unfollow_at(&stores, 1, 2, 10).await;
    assert_eq!((following(&stores, 1).await, fans(&stores, 3).await), (vec![4], vec![]));
    assert_eq!(fans(&stores, 2).await, [14, 13, 12]);
}

pub async fn page_has_active_entries_only(stores: Stores) {
    for list in LISTS {
        for user in 2..=21 {
            put(&stores, list, user, user).await;
        }
        for user in (2..=21).filter(|user| user % 4 != 0) {
            take(&stores, list, user, 30).await;
        }
        assert_pages_join(&stores, list, &[20, 16, 12, 8, 4]).await;
    }
}

pub async fn block_removes_follow_from_both_lists(stores: Stores) {
    follow_at(&stores, 1, 2, 0).await;
    follow_at(&stores, 2, 1, 1).await;
    follow_at(&stores, 3, 2, 2).await;
    set_at(&stores, 2, 1, blocking(true), 3).await;
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![], vec![3]));
    assert_eq!((following(&stores, 2).await, fans(&stores, 1).await), (vec![1], vec![2]));
}

pub async fn early_refollow_keeps_its_place(stores: Stores) {
    for list in LISTS {
        for user in [2, 3, 4] {
            put(&stores, list, user, user).await;
        }
        for round in 1..=3 {
            take(&stores, list, 3, 100 * round).await;
            let again = put(&stores, list, 3, 100 * round + 50).await;
            assert_eq!((again.placed, again.since), (moment(3), moment(100 * round + 50)));
        }
        assert_eq!(others(&stores, list).await, [4, 3, 2], "{list:?}");
        assert_pages_join(&stores, list, &[4, 3, 2]).await;
    }
}

pub async fn late_refollow_is_listed_first(stores: Stores) {
    for list in LISTS {
        for user in [2, 3, 4] {
            put(&stores, list, user, user).await;
        }
        for (round, order) in (1..).zip([[3, 4, 2], [2, 3, 4], [4, 2, 3], [3, 4, 2]]) {
            take(&stores, list, order[0], 10_000 * round).await;
            let now = moment(10_000 * round + 3_601);
            let again = put(&stores, list, order[0], 10_000 * round + 3_601).await;
            assert_eq!((again.placed, again.since), (now, now));
            assert_eq!(others(&stores, list).await, order, "{list:?}");
        }
        assert_pages_join(&stores, list, &[3, 4, 2]).await;
    }
}

pub async fn repeated_refollow_is_listed_once(stores: Stores) {
    let mut seconds = 10;
    follow_at(&stores, 1, 2, 0).await;
    follow_at(&stores, 1, 3, 1).await;
    for dead_for in [1, 4_000, 10, 3_700, 3_599, 5_000] {
        unfollow_at(&stores, 1, 2, seconds).await;
        follow_at(&stores, 1, 2, seconds + dead_for).await;
        seconds += dead_for + 10;
        let mut both = following(&stores, 1).await;
        both.sort_unstable();
        assert_eq!((both, fans(&stores, 2).await), (vec![2, 3], vec![1]));
        let list = whole_list(&stores, 1, FollowList::Following).await;
        assert!(list.contains(&live_follow(&stores, 1, 2).await), "{list:?}");
    }
}

pub async fn write_sets_how_long_a_place_is_kept(stores: Stores) {
    let again = async |kept: u64, seconds| {
        let kept = Duration::from_secs(kept);
        applied(stores.follows.follow(edge(1, 2), kept, at(seconds)).await.unwrap()).placed
    };
    follow_at(&stores, 1, 2, 0).await;
    unfollow_at(&stores, 1, 2, 100).await;
    assert_eq!(again(60, 150).await, moment(0));
    unfollow_at(&stores, 1, 2, 200).await;
    assert_eq!(again(60, 270).await, moment(270));
    unfollow_at(&stores, 1, 2, 300).await;
    assert_eq!(again(0, 301).await, moment(301));
    unfollow_at(&stores, 1, 2, 400).await;
    assert_eq!(again(1_000_000, 900_000).await, moment(301));
}

pub async fn each_user_has_lists_of_its_own(stores: Stores) {
    for (from, to) in [(1, 2), (2, 3), (3, 1), (1, 3)] {
        follow_at(&stores, from, to, 10 * from + to).await;
    }
    let lists = async |user| (following(&stores, user).await, fans(&stores, user).await);
    assert_eq!(lists(1).await, (vec![3, 2], vec![3]));
    assert_eq!(lists(2).await, (vec![3], vec![1]));
    assert_eq!(lists(3).await, (vec![1], vec![2, 1]));
}
