//! Cases for the maintenance of edges.

use std::collections::BTreeSet;

use super::{
    relation_sample::{
        allowing, await_counts, block_page, block_state, blocking, disturbing_not, edge, fans, follow,
        follow_state, following, imported, live_block, live_follow, moment, remarking, set, unfollow,
        whole_list,
    },
    sample::{user_id, version},
};
use crate::{
    BlockList, CountsRebuilt, Edge, EdgesVerified, FollowList, RemovedEdges, StoreError, Stored, Stores,
    Timestamp,
};

/// Users among whom [`crowd`] lets follows be.
const USERS: i64 = 24;

/// Imports some hundred follows among [`USERS`] and changes some; returns the active follows.
async fn crowd(stores: &Stores) -> BTreeSet<Edge> {
    let pairs = (1..=USERS).flat_map(|from| (1..=12).map(move |step| (from, 1 + (from + step - 1) % USERS)));
    let follows: Vec<_> = pairs.map(|(from, to)| imported(from, to, 0)).collect();
    stores.follows.import_follows(&follows, moment(9)).await.unwrap();
    let mut active: BTreeSet<Edge> = follows.iter().map(|follow| follow.edge).collect();
    for user in 2..=9 {
        follow(stores, user, 1).await;
        active.insert(edge(user, 1));
        unfollow(stores, user, user + 1).await;
        active.remove(&edge(user, user + 1));
    }
    active
}

/// How long both lists are for each of [`USERS`].
fn counted(active: &BTreeSet<Edge>) -> Vec<(i64, (u64, u64))> {
    let count =
        |of: &dyn Fn(&Edge) -> bool| active.iter().filter(|edge| of(edge)).count().try_into().unwrap();
    let lists = |user| (count(&|edge| edge.from.get() == user), count(&|edge| edge.to.get() == user));
    (1..=USERS).map(|user| (user, lists(user))).collect()
}

/// No maintenance that ends takes this many steps.
const STEPS_MAX: usize = 10_000;

/// Continues in steps of `limit` to the end; returns how many edges were checked.
async fn verify(stores: &Stores, limit: usize, repair: bool) -> u64 {
    let (mut checked, mut done, mut after) = (0, 0.0, None::<Vec<u8>>);
    for _ in 0..STEPS_MAX {
        let step = stores.edges.verify_edges(after.as_deref(), limit, repair).await.unwrap();
        assert_eq!(step.differences, []);
        assert!(step.done >= done && step.done <= 1.0, "{} after {done}", step.done);
        checked += step.checked;
        (done, after) = (step.done, step.next);
        if after.is_none() {
            assert!(done > 0.999, "the end at {done}");
            return checked;
        }
    }
    panic!("{STEPS_MAX} steps did not reach the end: {done}");
}

pub async fn consistent_edges_are_all_verified(stores: Stores) {
    let active: u64 = crowd(&stores).await.len().try_into().unwrap();
    for limit in [50, 1000] {
        let checked = verify(&stores, limit, false).await;
        assert!(checked >= active, "only {checked} of {active}");
    }
}

pub async fn repair_of_consistent_lists_changes_nothing(stores: Stores) {
    crowd(&stores).await;
    let lists = async || {
        let mut lists = Vec::new();
        for user in 1..=USERS {
            lists.push(whole_list(&stores, user, FollowList::Following).await);
            lists.push(whole_list(&stores, user, FollowList::Fans).await);
        }
        lists
    };
    let before = lists().await;
    verify(&stores, 100, true).await;
    assert_eq!(lists().await, before);
    assert!(matches!(follow_state(&stores, 2, 3).await, Stored::Deleted(_)));
}

pub async fn where_nothing_is_there_is_nothing_to_look_at(stores: Stores) {
    for repair in [false, true] {
        assert_eq!(verify(&stores, 100, repair).await, 0);
    }
    assert_eq!(rebuild(&stores, 100).await, (0, 0));
}

/// Counts again in steps of `limit` to the end; returns how many lists were counted and corrected.
async fn rebuild(stores: &Stores, limit: usize) -> (u64, u64) {
    let (mut all, mut after) = (CountsRebuilt::default(), None::<Vec<u8>>);
    for _ in 0..STEPS_MAX {
        let step = stores.edges.rebuild_counts(after.as_deref(), limit).await.unwrap();
        assert!(step.done >= all.done && step.done <= 1.0, "{} after {}", step.done, all.done);
        all.counted += step.counted;
        all.corrected += step.corrected;
        (all.done, after) = (step.done, step.next);
        if after.is_none() {
            assert!(all.done > 0.999, "the end at {}", all.done);
            return (all.counted, all.corrected);
        }
    }
    panic!("{STEPS_MAX} steps did not reach the end: {}", all.done);
}

pub async fn counts_that_are_right_are_not_corrected(stores: Stores) {
    let expected = counted(&crowd(&stores).await);
    await_counts(&stores, &expected).await;
    for limit in [50, 1000] {
        let (counted, corrected) = rebuild(&stores, limit).await;
        assert_eq!(corrected, 0);
        assert!(counted > 0, "no list was counted");
    }
    await_counts(&stores, &expected).await;
}

pub async fn malformed_mark_is_an_error(stores: Stores) {
    follow(&stores, 1, 2).await;
    for garbage in [b"".as_slice(), b"?", b"no mark", &[0xFF; 100]] {
        let verified = stores.edges.verify_edges(Some(garbage), 10, true).await;
        corrupt(&verified.map(|EdgesVerified { checked, .. }| checked), garbage);
        let rebuilt = stores.edges.rebuild_counts(Some(garbage), 10).await;
        corrupt(&rebuilt.map(|CountsRebuilt { counted, .. }| counted), garbage);
    }
}

fn corrupt(result: &Result<u64, StoreError>, garbage: &[u8]) {
    assert!(matches!(result, Err(StoreError::Corrupt { .. })), "{result:?} of {garbage:?}");
}

/// Removes all a user's edges in steps of `limit`; returns the edges in each step but the last, empty step.
async fn remove(stores: &Stores, user: i64, limit: usize) -> Vec<RemovedEdges> {
    let mut steps = Vec::new();
    for _ in 0..100 {
        let step = stores.edges.remove_edges(user_id(user), limit).await.unwrap();
        assert!(step.follows.len() + step.blocks.len() <= limit, "more than {limit}: {step:?}");
        if step.is_empty() {
            return steps;
        }
        steps.push(step);
    }
    panic!("no end of the edges of {user}: {steps:?}");
}

/// User 1 with edges of each kind, from and to it, and others with edges among themselves.
async fn neighbours(stores: &Stores) {
    for other in [2, 3, 4] {
        follow(stores, 1, other).await;
        follow(stores, other, 1).await;
    }
    for (from, to) in [(2, 3), (3, 2), (5, 2)] {
        follow(stores, from, to).await;
    }
    set(stores, 1, 5, blocking(true)).await;
    set(stores, 1, 2, remarking("a")).await;
    set(stores, 6, 1, disturbing_not(true)).await;
    set(stores, 2, 1, allowing(Some(0))).await;
    set(stores, 2, 5, disturbing_not(true)).await;
}

pub async fn a_removed_user_leaves_no_edge(stores: Stores) {
    neighbours(&stores).await;
    let before = live_follow(&stores, 3, 1).await.version;
    remove(&stores, 1, 100).await;
    for other in [2, 3, 4] {
        for (from, to) in [(1, other), (other, 1)] {
            let left = follow_state(&stores, from, to).await;
            assert!(matches!(left, Stored::Deleted(_)), "{left:?}");
        }
    }
    assert!(matches!(follow_state(&stores, 3, 1).await, Stored::Deleted(ended) if ended > before));
    assert_eq!((following(&stores, 1).await, fans(&stores, 1).await), (vec![], vec![]));
    for (from, to) in [(1, 5), (1, 2), (6, 1), (2, 1)] {
        // Each edge was written once.
        assert_eq!(block_state(&stores, from, to).await, Stored::Deleted(version(2)));
    }
    assert_eq!(block_page(&stores, 1, BlockList::Blocked, None, 10).await, []);
    assert_eq!(block_page(&stores, 6, BlockList::DoNotDisturb, None, 10).await, []);
}

pub async fn a_removal_goes_on_by_steps(stores: Stores) {
    neighbours(&stores).await;
    let steps = remove(&stores, 1, 3).await;
    assert!(steps.len() >= 4, "10 edges in {} steps of 3", steps.len());
    assert_eq!((following(&stores, 1).await, fans(&stores, 1).await), (vec![], vec![]));
}

pub async fn removed_edges_are_returned_once(stores: Stores) {
    neighbours(&stores).await;
    unfollow(&stores, 1, 4).await;
    for limit in [4, 100] {
        let steps = remove(&stores, 1, limit).await;
        let sorted = |of: fn(&RemovedEdges) -> &Vec<Edge>| {
            let mut edges: Vec<Edge> = steps.iter().flat_map(|step| of(step).clone()).collect();
            edges.sort_unstable();
            edges.iter().map(|edge| (edge.from.get(), edge.to.get())).collect::<Vec<_>>()
        };
        let (follows, blocks) = (sorted(|step| &step.follows), sorted(|step| &step.blocks));
        if limit == 4 {
            assert_eq!(follows, [(1, 2), (1, 3), (2, 1), (3, 1), (4, 1)]);
            assert_eq!(blocks, [(1, 2), (1, 5), (2, 1), (6, 1)]);
        } else {
            assert_eq!((follows, blocks), (vec![], vec![]));
        }
    }
}

pub async fn a_user_without_edges_has_none_to_remove(stores: Stores) {
    neighbours(&stores).await;
    assert_eq!(stores.edges.remove_edges(user_id(9), 10).await.unwrap(), RemovedEdges::default());
    assert_eq!(fans(&stores, 2).await.len(), 3);
}

pub async fn edges_of_others_stay(stores: Stores) {
    neighbours(&stores).await;
    let (follow, block) = (live_follow(&stores, 2, 3).await, live_block(&stores, 2, 5).await);
    remove(&stores, 1, 2).await;
    assert_eq!(live_follow(&stores, 2, 3).await, follow);
    assert_eq!(live_block(&stores, 2, 5).await, block);
    assert_eq!((following(&stores, 2).await, following(&stores, 3).await), (vec![3], vec![2]));
    let of_second: BTreeSet<i64> = fans(&stores, 2).await.into_iter().collect();
    assert_eq!(of_second, BTreeSet::from([3, 5]));
    assert_eq!(block_page(&stores, 2, BlockList::DoNotDisturb, None, 10).await, [block]);
}

pub async fn counts_settle_after_a_removal(stores: Stores) {
    neighbours(&stores).await;
    await_counts(&stores, &[(1, (3, 3)), (2, (2, 3)), (3, (2, 2)), (4, (1, 1)), (5, (1, 0))]).await;
    remove(&stores, 1, 4).await;
    await_counts(&stores, &[(1, (0, 0)), (2, (1, 2)), (3, (1, 1)), (4, (0, 0)), (5, (1, 0))]).await;
    verify(&stores, 100, false).await;
}

pub async fn removed_edges_may_be_made_again(stores: Stores) {
    neighbours(&stores).await;
    remove(&stores, 1, 100).await;
    let Stored::Deleted(ended) = follow_state(&stores, 2, 1).await else { panic!("it has not ended") };
    let begun = follow(&stores, 2, 1).await;
    assert!(begun.version > ended, "{} after {ended}", begun.version);
    // It was blocked.
    follow(&stores, 5, 1).await;
    let again: BTreeSet<i64> = fans(&stores, 1).await.into_iter().collect();
    assert_eq!(again, BTreeSet::from([2, 5]));
    let block = set(&stores, 1, 5, remarking("new")).await.block;
    assert_eq!((block.version, block.blocked, block.remark.as_str()), (version(3), None, "new"));
    assert_eq!(live_block(&stores, 1, 5).await, block);
}

async fn noted(stores: &Stores, limit: usize) -> Vec<(i64, Timestamp)> {
    let removals = stores.edges.removals(limit).await.unwrap();
    removals.into_iter().map(|(user, at)| (user.get(), at)).collect()
}

pub async fn noted_removals_are_listed_earliest_first(stores: Stores) {
    assert_eq!(noted(&stores, 10).await, []);
    for (user, at) in [(3, 20), (1, 30), (2, 10), (4, 25)] {
        stores.edges.note_removal(user_id(user), moment(at)).await.unwrap();
    }
    let all = [(2, moment(10)), (3, moment(20)), (4, moment(25)), (1, moment(30))];
    assert_eq!(noted(&stores, 10).await, all);
    assert_eq!(noted(&stores, 3).await, all[..3]);
}

pub async fn a_removal_that_ended_is_noted_no_more(stores: Stores) {
    for user in [1, 2] {
        stores.edges.note_removal(user_id(user), moment(user)).await.unwrap();
        // Two calls for the same deletion note it twice.
        stores.edges.note_removal(user_id(user), moment(user)).await.unwrap();
    }
    for _ in 0..2 {
        stores.edges.end_removal(user_id(1), moment(1)).await.unwrap();
        assert_eq!(noted(&stores, 10).await, [(2, moment(2))]);
    }
    stores.edges.end_removal(user_id(2), moment(9)).await.unwrap();
    assert_eq!(noted(&stores, 10).await, []);
    stores.edges.note_removal(user_id(1), moment(3)).await.unwrap();
    assert_eq!(noted(&stores, 10).await, [(1, moment(3))]);
}

pub async fn repeated_removal_outlives_first_note(stores: Stores) {
    stores.edges.note_removal(user_id(1), moment(1)).await.unwrap();
    stores.edges.note_removal(user_id(1), moment(5)).await.unwrap();
    stores.edges.end_removal(user_id(1), moment(1)).await.unwrap();
    assert_eq!(noted(&stores, 10).await, [(1, moment(5))]);
    // Noted by a clock that is behind: the latest note counts.
    stores.edges.note_removal(user_id(1), moment(2)).await.unwrap();
    stores.edges.end_removal(user_id(1), moment(2)).await.unwrap();
    assert_eq!(noted(&stores, 10).await, [(1, moment(5))]);
}
