//! Follow store cases: follows that are brought in from elsewhere.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    relation_sample::{
        KEPT, assert_not_found, assert_overloaded, at, await_counts, await_lists, blocking, edge, fans,
        follow_at, follow_state, following, imported, live_follow, moment, set, unfollow_at, whole_list,
    },
    sample::{at_once, user_id},
};
use crate::{Follow, FollowList, IMPORT_FOLLOWS_MAX, ImportedFollow, StoreError, Stored, Stores, Version};

async fn import(stores: &Stores, follows: &[ImportedFollow], seconds: i64) {
    stores.follows.import_follows(follows, moment(seconds)).await.unwrap();
}

pub async fn import_keeps_start_time_and_sets_place(stores: Stores) {
    import(&stores, &[imported(1, 2, 5), imported(1, 3, 0), imported(2, 1, -1_000_000)], 100).await;
    for (from, to, since) in [(1, 2, 5), (1, 3, 0), (2, 1, -1_000_000)] {
        let read = live_follow(&stores, from, to).await;
        assert!(read.version > Version::NONE);
        let (since, placed) = (moment(since), moment(100));
        assert_eq!(read, Follow { edge: edge(from, to), version: read.version, since, placed });
    }
    assert_eq!(follow_state(&stores, 3, 1).await, Stored::Never);
    import(&stores, &[], 100).await;
}

pub async fn imported_follows_stand_in_both_lists(stores: Stores) {
    follow_at(&stores, 1, 9, 50).await;
    import(&stores, &[imported(1, 4, 70), imported(1, 30, 60), imported(1, 2, 90)], 100).await;
    follow_at(&stores, 1, 8, 150).await;
    assert_eq!(following(&stores, 1).await, [8, 30, 4, 2, 9]);
    let read = live_follow(&stores, 1, 30).await;
    assert_eq!(whole_list(&stores, 30, FollowList::Fans).await, std::slice::from_ref(&read));
    assert!(whole_list(&stores, 1, FollowList::Following).await.contains(&read));
}

pub async fn active_edge_is_unchanged_by_import(stores: Stores) {
    let before = follow_at(&stores, 1, 2, 50).await;
    import(&stores, &[imported(1, 2, 10), imported(1, 3, 10)], 100).await;
    assert_eq!(live_follow(&stores, 1, 2).await, before);
    assert_eq!(following(&stores, 1).await, [3, 2]);
}

pub async fn an_edge_that_has_lived_is_left_as_it_is(stores: Stores) {
    follow_at(&stores, 1, 2, 50).await;
    let ended = unfollow_at(&stores, 1, 2, 60).await;
    import(&stores, &[imported(1, 2, 10), imported(1, 3, 10)], 100).await;
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![3], vec![]));
}

pub async fn to_import_again_changes_nothing(stores: Stores) {
    let follows = |since| [2, 3, 4].map(|to| imported(1, to, since));
    import(&stores, &follows(5), 100).await;
    let before = whole_list(&stores, 1, FollowList::Following).await;
    let ended = unfollow_at(&stores, 1, 3, 150).await;
    for (since, seconds) in [(5, 100), (6, 200), (5, 10_000)] {
        import(&stores, &follows(since), seconds).await;
        let list = whole_list(&stores, 1, FollowList::Following).await;
        assert_eq!(list, [before[0].clone(), before[2].clone()]);
        assert_eq!(follow_state(&stores, 1, 3).await, Stored::Deleted(ended));
    }
}

pub async fn an_edge_twice_in_one_call_comes_in_once(stores: Stores) {
    let follows = [imported(1, 2, 5), imported(1, 3, 5), imported(1, 2, 7), imported(1, 2, 5)];
    import(&stores, &follows, 100).await;
    let read = live_follow(&stores, 1, 2).await;
    assert!([moment(5), moment(7)].contains(&read.since), "{read:?}");
    let third = live_follow(&stores, 1, 3).await;
    assert_eq!(whole_list(&stores, 1, FollowList::Following).await, [third, read.clone()]);
    assert_eq!(whole_list(&stores, 2, FollowList::Fans).await, [read]);
    await_counts(&stores, &[(1, (2, 0)), (2, (0, 1))]).await;
}

pub async fn blocks_are_not_looked_at(stores: Stores) {
    set(&stores, 2, 1, blocking(true)).await;
    import(&stores, &[imported(1, 2, 5)], 100).await;
    assert_eq!(live_follow(&stores, 1, 2).await.since, moment(5));
}

pub async fn an_imported_follow_is_taken_back(stores: Stores) {
    import(&stores, &[imported(1, 2, 5), imported(1, 3, 5)], 100).await;
    let before = live_follow(&stores, 1, 2).await.version;
    let ended = unfollow_at(&stores, 1, 2, 200).await;
    assert!(ended > before, "{ended} after {before}");
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![3], vec![]));
    assert_not_found(stores.follows.unfollow(edge(1, 2), at(300)).await);
    let cut = set(&stores, 3, 1, blocking(true)).await.cut.unwrap();
    assert_eq!(follow_state(&stores, 1, 3).await, Stored::Deleted(cut));
}

pub async fn refollow_after_import_keeps_place_or_is_first(stores: Stores) {
    import(&stores, &[imported(1, 2, 5), imported(1, 3, 5), imported(1, 4, 5)], 100).await;
    unfollow_at(&stores, 1, 3, 200).await;
    let soon = follow_at(&stores, 1, 3, 300).await;
    assert_eq!((soon.since, soon.placed), (moment(300), moment(100)));
    unfollow_at(&stores, 1, 2, 300).await;
    let late = follow_at(&stores, 1, 2, 10_000).await;
    assert_eq!((late.since, late.placed), (moment(10_000), moment(10_000)));
    assert_eq!(following(&stores, 1).await, [2, 4, 3]);
    let list = whole_list(&stores, 1, FollowList::Following).await;
    assert_eq!([&list[0], &list[2]], [&late, &soon]);
    assert_eq!(whole_list(&stores, 2, FollowList::Fans).await, [late]);
}

pub async fn to_follow_what_was_imported_changes_nothing(stores: Stores) {
    import(&stores, &[imported(1, 2, 5)], 100).await;
    let before = live_follow(&stores, 1, 2).await;
    assert_eq!(follow_at(&stores, 1, 2, 9_000).await, before);
    assert_eq!(live_follow(&stores, 1, 2).await, before);
}

pub async fn lists_show_imported_and_other_follows_once(stores: Stores) {
    for from in [2, 5, 8, 11] {
        follow_at(&stores, from, 1, from).await;
    }
    let follows: Vec<_> = (2..=20).map(|from| imported(from, 1, 0)).collect();
    import(&stores, &follows, 100).await;
    for from in (2..=20).step_by(2) {
        unfollow_at(&stores, from, 1, 200).await;
    }
    for from in (2..=20).step_by(4) {
        follow_at(&stores, from, 1, 200 + from).await;
    }
    let mut read = fans(&stores, 1).await;
    read.sort_unstable();
    let expected: Vec<i64> = (2..=20).filter(|from| from % 2 == 1 || from % 4 == 2).collect();
    assert_eq!(read, expected);
    let every = expected.len().try_into().unwrap();
    await_counts(&stores, &[(1, (0, every)), (2, (1, 0)), (3, (1, 0)), (4, (0, 0))]).await;
}

pub async fn as_many_as_the_limit_come_in_and_no_more(stores: Stores) {
    let follows: Vec<_> = (2..).map(|from| imported(from, 1, 0)).take(IMPORT_FOLLOWS_MAX + 1).collect();
    assert_overloaded(stores.follows.import_follows(&follows, moment(9)).await);
    assert_eq!(fans(&stores, 1).await, [0_i64; 0]);
    import(&stores, &follows[1..], 9).await;
    let newest = stores.follows.follow_list(user_id(1), FollowList::Fans, None, 2).await.unwrap();
    assert_eq!(newest.iter().map(|follow| follow.edge.from.get()).collect::<Vec<_>>(), [1002, 1001]);
    await_counts(&stores, &[(1, (0, 1000)), (2, (0, 0)), (3, (1, 0))]).await;
}

pub async fn imports_at_once_bring_each_in_once(stores: Stores) {
    let follows: Vec<_> = (2..=21).map(|to| imported(1, to, 5)).collect();
    let imports = (0..6).map(|seconds| {
        let (store, follows) = (Arc::clone(&stores.follows), follows.clone());
        async move { store.import_follows(&follows, moment(100 + seconds)).await.unwrap() }
    });
    at_once(imports).await;
    let edges: Vec<_> = follows.iter().map(|follow| follow.edge).collect();
    await_lists(&stores, &edges).await;
    let read: BTreeSet<i64> = following(&stores, 1).await.into_iter().collect();
    assert_eq!(read, (2..=21).collect());
    await_counts(&stores, &[(1, (20, 0)), (2, (0, 1)), (21, (0, 1))]).await;
}

pub async fn import_racing_writes_leaves_consistent_state(stores: Stores) {
    let follows: Vec<_> = (2..=17).map(|to| imported(1, to, 5)).collect();
    let edges: Vec<_> = follows.iter().map(|follow| follow.edge).collect();
    let writes = edges.clone().into_iter().enumerate().map(|(number, edge)| {
        let (store, follows) = (Arc::clone(&stores.follows), follows.clone());
        async move {
            match number % 3 {
                0 => drop(store.follow(edge, KEPT, at(200)).await.unwrap()),
                1 => match store.unfollow(edge, at(200)).await {
                    Ok(_) | Err(StoreError::NotFound) => (),
                    Err(error) => panic!("{error:?}"),
                },
                _ => store.import_follows(&follows, moment(100)).await.unwrap(),
            }
        }
    });
    at_once(writes).await;
    await_lists(&stores, &edges).await;
    for (number, edge) in edges.iter().enumerate() {
        let state = follow_state(&stores, 1, edge.to.get()).await;
        assert!(number % 3 == 1 || matches!(state, Stored::Live(_)), "{edge} {state:?}");
        assert_ne!(state, Stored::Never);
    }
    let live = following(&stores, 1).await.len().try_into().unwrap();
    await_counts(&stores, &[(1, (live, 0)), (2, (0, 1))]).await;
}
