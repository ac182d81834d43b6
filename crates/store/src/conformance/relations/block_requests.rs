//! Block store cases: a write with a request id has one effect and one answer.

use super::{
    relation_sample::{
        allowing, block_state, blocking, edge, follow, follow_state, live_block, live_follow, remarking, set,
    },
    sample::{
        SentRequest, applied, assert_fails, assert_mismatch, at_once, each_at_once, expecting, one_effect,
        replay, requested, version,
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

pub async fn a_change_has_one_effect(stores: Stores) {
    set(&stores, 1, 2, allowing(Some(9))).await;
    let request = SentRequest::send(
        |body| Write { expected: expecting(1).expected, ..requested("r", body) },
        async |write| stores.blocks.set_block(edge(1, 2), remarking("a"), write).await,
        async || block_state(&stores, 1, 2).await,
    )
    .await;
    assert_eq!((live_block(&stores, 1, 2).await, request.answer.cut), (request.answer.block.clone(), None));
    applied(setting(&stores, 2, remarking("b"), ("s", 2)).await.unwrap());
    request.assert_kept().await;
}

pub async fn a_block_cuts_one_follow(stores: Stores) {
    follow(&stores, 2, 1).await;
    let request = SentRequest::send(
        |body| requested("r", body),
        async |write| stores.blocks.set_block(edge(1, 2), blocking(true), write).await,
        async || (block_state(&stores, 1, 2).await, follow_state(&stores, 2, 1).await),
    )
    .await;
    assert_eq!(follow_state(&stores, 2, 1).await, Stored::Deleted(request.answer.cut.unwrap()));
    set(&stores, 1, 2, blocking(false)).await;
    follow(&stores, 2, 1).await;
    request.assert_kept().await;
}

pub async fn another_edge_or_effect_is_refused(stores: Stores) {
    let begun = follow(&stores, 2, 1).await;
    let first = applied(setting(&stores, 2, remarking("a"), ("r", 1)).await.unwrap());
    assert_mismatch(setting(&stores, 2, blocking(true), ("r", 2)).await);
    assert_mismatch(setting(&stores, 3, remarking("a"), ("r", 2)).await);
    assert_eq!(
        (live_block(&stores, 1, 2).await, block_state(&stores, 1, 3).await),
        (first.block, Stored::Never)
    );
    assert_eq!(live_follow(&stores, 2, 1).await, begun);
}

pub async fn a_conflict_keeps_no_request(stores: Stores) {
    let stale = Write { expected: Some(version(9)), ..requested("r", 1) };
    assert_fails!(
        stores.blocks.set_block(edge(1, 2), remarking("a"), stale).await,
        StoreError::Conflict { .. }
    );
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
