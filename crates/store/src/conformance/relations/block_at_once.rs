//! Block store cases: many writes to one record at once, and follows that cross them.

use std::sync::Arc;

use super::{
    relation_sample::{
        KEPT, assert_blocked, await_counts, await_lists, block_page, block_state, blocking, disturbing_not,
        edge, fans, follow, follow_state, following, live_block, remarking, set,
    },
    sample::{applied, assert_stale, at_once, each_at_once, expecting, one_wins, version, write},
};
use crate::{
    Block, BlockList, BlockPatch, BlockStore, Edge, FollowStore, StoreError, Stored, Stores, Timestamp,
};

/// A patch; many are sent at once.
fn patch(number: usize) -> BlockPatch {
    match number % 4 {
        0 => blocking(number.is_multiple_of(8)),
        1 => disturbing_not(number % 8 == 1),
        2 => BlockPatch { permissions: Some(None), ..remarking("both") },
        _ => remarking(&format!("r{number}")),
    }
}

pub async fn concurrent_block_changes_are_all_applied(stores: Stores) {
    let changes = (0..64).map(|number| {
        let (store, write) = (Arc::clone(&stores.blocks), write());
        async move {
            let now = write.now;
            let block = applied(store.set_block(edge(1, 2), patch(number), write).await.unwrap()).block;
            (block, patch(number), now)
        }
    });
    let mut answers: Vec<(Block, BlockPatch, Timestamp)> = at_once(changes).await;
    answers.sort_by_key(|(block, _, _)| block.version);
    let mut expected = Block::unset(edge(1, 2));
    for (block, patch, now) in answers {
        expected = expected.patched(&patch, now);
        assert_eq!(block, expected);
    }
    assert_eq!(expected.version, version(64));
    assert_eq!(live_block(&stores, 1, 2).await, expected);
}

pub async fn one_block_change_per_expected_version_wins(stores: Stores) {
    for before in [0, 1] {
        let results = each_at_once(&stores, 0..32, |stores, _| async move {
            stores.blocks.set_block(edge(1, 2), remarking("a"), expecting(before)).await
        })
        .await;
        one_wins(results, |lost| assert_stale::<()>(Err(lost), before + 1));
        assert_eq!(live_block(&stores, 1, 2).await.version, version(before + 1));
    }
}

pub async fn block_list_matches_record_after_races(stores: Stores) {
    for _ in 0..4 {
        each_at_once(&stores, 0..16, |stores, number| async move {
            stores.blocks.set_block(edge(1, 2), blocking(number % 2 == 0), write()).await.unwrap()
        })
        .await;
        let record = live_block(&stores, 1, 2).await;
        let listed: Vec<Block> = record.blocked.is_some().then_some(record).into_iter().collect();
        assert_eq!(block_page(&stores, 1, BlockList::Blocked, None, 10).await, listed);
    }
}

pub async fn blocks_of_many_users_at_once_are_all_listed(stores: Stores) {
    let mut expected = each_at_once(&stores, 2..=33, |stores, to| async move {
        applied(stores.blocks.set_block(edge(1, to), blocking(true), write()).await.unwrap()).block
    })
    .await;
    expected.sort_by_key(|block| std::cmp::Reverse(block.position_in(BlockList::Blocked)));
    assert_eq!(block_page(&stores, 1, BlockList::Blocked, None, 100).await, expected);
}

/// User `from` follows another user; if a block came first, there is exactly one error for that.
async fn try_follow(store: Arc<dyn FollowStore>, edge: Edge) {
    match store.follow(edge, KEPT, write()).await {
        Ok(begun) => assert_eq!(applied(begun).edge, edge),
        Err(error) => assert!(matches!(error, StoreError::Blocked), "{error:?}"),
    }
}

/// Takes back a follow that another write may have ended already.
async fn try_unfollow(store: Arc<dyn FollowStore>, edge: Edge) {
    if let Err(error) = store.unfollow(edge, write()).await {
        assert!(matches!(error, StoreError::NotFound), "{error:?}");
    }
}

/// Whom `edge.to` follows is blocked by it.
async fn block_follower(store: Arc<dyn BlockStore>, edge: Edge) {
    applied(store.set_block(edge.reversed(), blocking(true), write()).await.unwrap());
}

/// No follow is left on the edge, in the record and in both lists.
async fn assert_ended(stores: &Stores, edge: Edge) {
    let (from, to) = (edge.from.get(), edge.to.get());
    let left = follow_state(stores, from, to).await;
    assert!(!matches!(left, Stored::Live(_)), "{left:?} outlived the block");
    await_lists(stores, &[edge]).await;
    assert_blocked(stores.follows.follow(edge, KEPT, write()).await);
    assert!(!following(stores, from).await.contains(&to) && !fans(stores, to).await.contains(&from));
}

pub async fn first_follow_racing_block_is_ended(stores: Stores) {
    for from in 11..=30 {
        let edge = edge(from, 1);
        let follow = tokio::spawn(try_follow(Arc::clone(&stores.follows), edge));
        let block = tokio::spawn(block_follower(Arc::clone(&stores.blocks), edge));
        follow.await.unwrap();
        block.await.unwrap();
        assert_ended(&stores, edge).await;
    }
    await_counts(&stores, &[(1, (0, 0)), (11, (0, 0)), (30, (0, 0))]).await;
}

pub async fn refollow_racing_block_is_ended(stores: Stores) {
    let edge = edge(2, 1);
    for _ in 0..20 {
        let follow = tokio::spawn(try_follow(Arc::clone(&stores.follows), edge));
        let again = tokio::spawn(try_follow(Arc::clone(&stores.follows), edge));
        let block = tokio::spawn(block_follower(Arc::clone(&stores.blocks), edge));
        follow.await.unwrap();
        again.await.unwrap();
        block.await.unwrap();
        assert_ended(&stores, edge).await;
        set(&stores, 1, 2, blocking(false)).await;
    }
    await_counts(&stores, &[(1, (0, 0)), (2, (0, 0))]).await;
}

pub async fn unfollow_racing_block_ends_follow_once(stores: Stores) {
    let edge = edge(2, 1);
    for _ in 0..20 {
        follow(&stores, 2, 1).await;
        let unfollow = tokio::spawn(try_unfollow(Arc::clone(&stores.follows), edge));
        let block = tokio::spawn(block_follower(Arc::clone(&stores.blocks), edge));
        unfollow.await.unwrap();
        block.await.unwrap();
        assert_ended(&stores, edge).await;
        set(&stores, 1, 2, blocking(false)).await;
    }
    assert!(matches!(block_state(&stores, 1, 2).await, Stored::Live(block) if block.blocked.is_none()));
}

pub async fn blocks_of_both_sides_at_once_cut_both_follows(stores: Stores) {
    for other in 2..=11 {
        follow(&stores, 1, other).await;
        follow(&stores, other, 1).await;
        let both = [edge(1, other), edge(other, 1)];
        at_once(both.map(|edge| block_follower(Arc::clone(&stores.blocks), edge))).await;
        for edge in both {
            assert_ended(&stores, edge).await;
        }
    }
    await_counts(&stores, &[(1, (0, 0)), (2, (0, 0)), (11, (0, 0))]).await;
}
