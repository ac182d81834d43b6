//! Block store cases: a write with a request id has one effect and one answer.

use super::{
    relation_sample::{
        allowing, block_state, blocking, edge, follow, follow_state, live_block, live_follow, remarking, set,
    },
    sample::{
        applied, assert_mismatch, at_once, each_at_once, expecting, one_effect, replay, requested, version,
    },
};
use crate::{Applied, BlockChange, BlockPatch, StoreError, Stored, Stores, Write};

/// User 1 sets something about this user, by a request with this id and a body represented by `fingerprint`.
async fn setting(
    stores: &Stores,
    to: i64,
    patch: BlockPatch,
    request: (&str, u8),
) -> Result<Applied<BlockChange>, StoreError> {
    stores.blocks.set_block(edge(1, to), patch, requested(request.0, request.1)).await
}

pub async fn a_change_sent_twice_has_one_effect(stores: Stores) {
    let first = applied(setting(&stores, 2, remarking("a"), ("r", 1)).await.unwrap());
    for _ in 0..3 {
        assert_eq!(replay(setting(&stores, 2, remarking("a"), ("r", 1)).await), first);
    }
    assert_eq!((first.block.version, first.cut), (version(1), None));
    assert_eq!(live_block(&stores, 1, 2).await, first.block);
}

pub async fn block_change_replays_with_stale_version(stores: Stores) {
    let write = || Write { expected: expecting(0).expected, ..requested("r", 1) };
    let first = applied(stores.blocks.set_block(edge(1, 2), blocking(true), write()).await.unwrap());
    let moved = set(&stores, 1, 2, remarking("moved on")).await.block;
    assert_eq!(replay(stores.blocks.set_block(edge(1, 2), blocking(true), write()).await), first);
    assert_eq!(live_block(&stores, 1, 2).await, moved);
}

pub async fn block_change_replays_after_later_change(stores: Stores) {
    set(&stores, 1, 2, allowing(Some(9))).await;
    let first = applied(setting(&stores, 2, remarking("a"), ("r", 1)).await.unwrap());
    let moved = applied(setting(&stores, 2, remarking("b"), ("s", 2)).await.unwrap()).block;
    assert_eq!(replay(setting(&stores, 2, remarking("a"), ("r", 1)).await), first);
    assert_eq!(live_block(&stores, 1, 2).await, moved);
}

pub async fn a_block_replays_which_version_it_cut(stores: Stores) {
    follow(&stores, 2, 1).await;
    let first = applied(setting(&stores, 2, blocking(true), ("r", 1)).await.unwrap());
    assert_eq!(follow_state(&stores, 2, 1).await, Stored::Deleted(first.cut.unwrap()));
    for _ in 0..2 {
        assert_eq!(replay(setting(&stores, 2, blocking(true), ("r", 1)).await), first);
    }
}

pub async fn replayed_block_cuts_no_new_follow(stores: Stores) {
    let first = applied(setting(&stores, 2, blocking(true), ("r", 1)).await.unwrap());
    let unblocked = set(&stores, 1, 2, blocking(false)).await.block;
    let begun = follow(&stores, 2, 1).await;
    assert_eq!(replay(setting(&stores, 2, blocking(true), ("r", 1)).await), first);
    assert_eq!(live_block(&stores, 1, 2).await, unblocked);
    assert_eq!(live_follow(&stores, 2, 1).await, begun);
}

pub async fn another_body_is_refused_and_has_no_effect(stores: Stores) {
    let begun = follow(&stores, 2, 1).await;
    let first = applied(setting(&stores, 2, remarking("a"), ("r", 1)).await.unwrap());
    assert_mismatch(setting(&stores, 2, blocking(true), ("r", 2)).await);
    assert_eq!(live_block(&stores, 1, 2).await, first.block);
    assert_eq!(live_follow(&stores, 2, 1).await, begun);
    // The refusal did not spoil what is kept.
    assert_eq!(replay(setting(&stores, 2, remarking("a"), ("r", 1)).await), first);
}

pub async fn another_edge_is_refused_and_has_no_effect(stores: Stores) {
    let first = applied(setting(&stores, 2, remarking("a"), ("r", 1)).await.unwrap());
    assert_mismatch(setting(&stores, 3, remarking("a"), ("r", 2)).await);
    assert_eq!(block_state(&stores, 1, 3).await, Stored::Never);
    assert_eq!(live_block(&stores, 1, 2).await, first.block);
}

pub async fn a_conflict_keeps_no_request(stores: Stores) {
    let stale = Write { expected: Some(version(9)), ..requested("r", 1) };
    let error = stores.blocks.set_block(edge(1, 2), remarking("a"), stale).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    let made = applied(setting(&stores, 2, remarking("a"), ("r", 1)).await.unwrap());
    assert_eq!(live_block(&stores, 1, 2).await, made.block);
    assert_eq!(replay(setting(&stores, 2, remarking("a"), ("r", 1)).await), made);
}

pub async fn requests_of_different_ids_have_an_effect_each(stores: Stores) {
    for number in 1..=5 {
        let id = format!("r{number}");
        let change = applied(setting(&stores, 2, remarking("a"), (&id, 1)).await.unwrap());
        assert_eq!(change.block.version, version(number));
    }
}

/// The answer to a change that was sent often at once.
async fn sent_at_once(stores: &Stores, to: i64, patch: &BlockPatch, id: &str) -> BlockChange {
    let calls = (0..16).map(|_| {
        let (stores, patch, id) = (stores.clone(), patch.clone(), id.to_owned());
        async move { setting(&stores, to, patch, (&id, 1)).await }
    });
    one_effect(at_once(calls).await)
}

pub async fn a_change_sent_at_once_has_one_effect(stores: Stores) {
    for number in 1..=5 {
        let change = sent_at_once(&stores, 2, &remarking("a"), &format!("r{number}")).await;
        assert_eq!((change.block.version, change.cut), (version(number), None));
        assert_eq!(live_block(&stores, 1, 2).await, change.block);
    }
}

pub async fn a_block_sent_at_once_cuts_once(stores: Stores) {
    for to in 2..=6 {
        follow(&stores, to, 1).await;
        let change = sent_at_once(&stores, to, &blocking(true), &format!("r{to}")).await;
        assert_eq!(follow_state(&stores, to, 1).await, Stored::Deleted(change.cut.unwrap()));
        assert_eq!(live_block(&stores, 1, to).await, change.block);
    }
}

pub async fn two_bodies_at_once_have_one_effect(stores: Stores) {
    for number in 1..=8 {
        let mut results = each_at_once(&stores, [("a", 1), ("b", 2)], |stores, (remark, body)| async move {
            setting(&stores, 2, remarking(remark), (&format!("r{number}"), body)).await
        })
        .await;
        results.sort_by_key(Result::is_err);
        assert_mismatch(results.pop().unwrap());
        let change = applied(results.pop().unwrap().unwrap());
        assert_eq!(change.block.version, version(number));
        assert_eq!(live_block(&stores, 1, 2).await, change.block);
    }
}
