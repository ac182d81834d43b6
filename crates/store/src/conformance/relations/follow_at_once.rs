//! Follow store cases: many writes to one user's follows at once.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    relation_sample::{
        KEPT, at, await_counts, await_equal, await_lists, counts, edge, fans, follow, follow_at,
        follow_state, following, live_follow, unfollow_at, whole_list,
    },
    sample::{applied, at_once, each_at_once, write},
};
use crate::{Edge, Follow, FollowList, StoreError, Stored, Stores, Version, Write};

/// A write's answer for an edge: the edge's state then. `None`: there was nothing to take back.
type Answer = Option<Stored<Follow>>;

async fn follow_now(stores: Stores, edge: Edge, write: Write) -> Answer {
    let follow = applied(stores.follows.follow(edge, KEPT, write).await.unwrap());
    assert_eq!(follow.edge, edge);
    Some(Stored::Live(follow.into()))
}

async fn unfollow_now(stores: Stores, edge: Edge, write: Write) -> Answer {
    match stores.follows.unfollow(edge, write).await {
        Ok(ended) => Some(Stored::Deleted(applied(ended))),
        Err(StoreError::NotFound) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Writes an edge this often at once; every second write takes the follow back.
async fn crossing(stores: &Stores, edge: Edge, writes: usize) -> Vec<Stored<Follow>> {
    let writes = each_at_once(stores, 0..writes, |stores, number| async move {
        match number % 2 {
            0 => follow_now(stores, edge, write()).await,
            _ => unfollow_now(stores, edge, write()).await,
        }
    });
    writes.await.into_iter().flatten().collect()
}

fn version_of(state: &Stored<Follow>) -> Version {
    match state {
        Stored::Live(follow) => follow.version,
        Stored::Deleted(version) => *version,
        Stored::Never => Version::NONE,
    }
}

/// The state in the answer with the highest version.
fn last(answers: &[Stored<Follow>]) -> Stored<Follow> {
    answers.iter().max_by_key(|answer| version_of(answer)).unwrap().clone()
}

pub async fn concurrent_follows_leave_highest_version(stores: Stores) {
    follow(&stores, 3, 2).await;
    for _ in 0..2 {
        let answers = crossing(&stores, edge(1, 2), 64).await;
        let left = follow_state(&stores, 1, 2).await;
        assert_eq!(left, last(&answers));
        await_lists(&stores, &[edge(1, 2), edge(3, 2)]).await;
        let active = u64::from(left.live().is_some());
        await_counts(&stores, &[(1, (active, 0)), (2, (0, 1 + active)), (3, (1, 0))]).await;
    }
}

pub async fn changes_at_once_have_versions_of_their_own(stores: Stores) {
    let answers = crossing(&stores, edge(1, 2), 64).await;
    let (begun, ended): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| matches!(answer, Stored::Live(_)));
    let ended: Vec<Version> = ended.into_iter().map(version_of).collect();
    assert_eq!(ended.iter().collect::<BTreeSet<_>>().len(), ended.len(), "{ended:?}");
    // Calls that found it alive in the same state were answered with the same record.
    for answer in &begun {
        assert!(!ended.contains(&version_of(answer)), "{answer:?} {ended:?}");
        let same = begun.iter().filter(|other| version_of(other) == version_of(answer));
        assert!(same.into_iter().all(|other| other == answer), "{begun:?}");
    }
}

/// Concurrent writes to this edge leave one record, which some write returned, and which is in both lists.
async fn assert_one_place(stores: &Stores, edge: Edge, seconds: impl Iterator<Item = i64>) {
    let follows = seconds.map(|seconds| follow_now(stores.clone(), edge, at(seconds)));
    let answers: Vec<_> = at_once(follows).await.into_iter().flatten().collect();
    await_lists(stores, &[edge]).await;
    let left = live_follow(stores, edge.from.get(), edge.to.get()).await;
    assert_eq!(Stored::Live(left.clone().into()), last(&answers));
    assert_eq!(whole_list(stores, edge.from.get(), FollowList::Following).await, std::slice::from_ref(&left));
    assert_eq!(whole_list(stores, edge.to.get(), FollowList::Fans).await, [left]);
}

pub async fn first_follows_at_once_take_one_place(stores: Stores) {
    for round in 0..6 {
        assert_one_place(&stores, edge(10 + round, 50 + round), 0..16).await;
    }
    await_counts(&stores, &[(10, (1, 0)), (50, (0, 1)), (15, (1, 0)), (55, (0, 1))]).await;
}

pub async fn concurrent_refollows_take_one_place(stores: Stores) {
    for round in 0..6 {
        let (from, to) = (10 + round, 50 + round);
        follow_at(&stores, from, to, 0).await;
        unfollow_at(&stores, from, to, 10).await;
        assert_one_place(&stores, edge(from, to), (0..16).map(|number| 10_000 + number)).await;
    }
    await_counts(&stores, &[(10, (1, 0)), (50, (0, 1)), (15, (1, 0)), (55, (0, 1))]).await;
}

pub async fn unfollows_at_once_leave_nothing(stores: Stores) {
    for round in 0..5 {
        let begun = follow(&stores, 1, 2).await.version;
        let unfollows = (0..16).map(|_| unfollow_now(stores.clone(), edge(1, 2), write()));
        let answers: Vec<_> = at_once(unfollows).await.into_iter().flatten().collect();
        assert!(!answers.is_empty(), "none took it back in round {round}");
        assert!(answers.iter().all(|answer| version_of(answer) > begun), "{answers:?}");
        assert_eq!(follow_state(&stores, 1, 2).await, last(&answers));
        await_lists(&stores, &[edge(1, 2)]).await;
    }
    await_counts(&stores, &[(1, (0, 0)), (2, (0, 0))]).await;
}

pub async fn followers_at_once_of_one_user_are_all_listed(stores: Stores) {
    let edges: Vec<Edge> = (2..=33).map(|from| edge(from, 1)).collect();
    at_once(edges.iter().map(|edge| follow_now(stores.clone(), *edge, write()))).await;
    await_lists(&stores, &edges).await;
    let read: BTreeSet<i64> = fans(&stores, 1).await.into_iter().collect();
    assert_eq!(read, (2..=33).collect());
    await_equal(&vec![(0, 32), (1, 0)], async || counts(&stores, &[1, 33]).await).await;
}

pub async fn follows_at_once_by_one_user_are_all_listed(stores: Stores) {
    let edges: Vec<Edge> = (2..=33).map(|to| edge(1, to)).collect();
    at_once(edges.iter().map(|edge| follow_now(stores.clone(), *edge, write()))).await;
    await_lists(&stores, &edges).await;
    let read: BTreeSet<i64> = following(&stores, 1).await.into_iter().collect();
    assert_eq!(read, (2..=33).collect());
    await_counts(&stores, &[(1, (32, 0)), (33, (0, 1))]).await;
}

pub async fn both_directions_at_once_both_live(stores: Stores) {
    let there: Vec<Edge> = (2..=17).map(|to| edge(1, to)).collect();
    let both: Vec<Edge> = there.iter().flat_map(|edge| [*edge, edge.reversed()]).collect();
    let answers = at_once(both.iter().map(|edge| {
        let (store, edge) = (Arc::clone(&stores.follows), *edge);
        async move { applied(store.follow(edge, KEPT, write()).await.unwrap()) }
    }));
    for answer in answers.await {
        assert_eq!(live_follow(&stores, answer.edge.from.get(), answer.edge.to.get()).await, answer);
    }
    await_lists(&stores, &both).await;
    await_counts(&stores, &[(1, (16, 16)), (2, (1, 1)), (17, (1, 1))]).await;
}
