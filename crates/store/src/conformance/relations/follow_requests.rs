//! Follow store cases: a write with a request id has one effect and one answer.

use std::sync::Arc;

use super::{
    relation_sample::{
        KEPT, assert_blocked, assert_not_found, await_lists, blocking, edge, fans, follow, follow_state,
        following, live_follow, set, unfollow,
    },
    sample::{SentRequest, applied, assert_mismatch, at_once, each_at_once, one_effect, replay, requested},
};
use crate::{Applied, Follow, StoreError, Stored, Stores, Version};

type Followed = Result<Applied<Follow>, StoreError>;
type Unfollowed = Result<Applied<Version>, StoreError>;

/// User 1 follows this user, by a request with this id and a body represented by `fingerprint`.
async fn following_of(stores: &Stores, to: i64, id: &str, fingerprint: u8) -> Followed {
    stores.follows.follow(edge(1, to), KEPT, requested(id, fingerprint)).await
}

/// User 1 follows this one no more, by such a request.
async fn unfollowing_of(stores: &Stores, to: i64, id: &str, fingerprint: u8) -> Unfollowed {
    stores.follows.unfollow(edge(1, to), requested(id, fingerprint)).await
}

pub async fn a_follow_has_one_effect(stores: Stores) {
    // A repeated follow without a change keeps its request, too.
    let begun = follow(&stores, 1, 2).await;
    let request = SentRequest::send(
        |body| requested("r", body),
        async |write| stores.follows.follow(edge(1, 2), KEPT, write).await,
        async || (follow_state(&stores, 1, 2).await, following(&stores, 1).await, fans(&stores, 2).await),
    )
    .await;
    assert_eq!((&request.answer, live_follow(&stores, 1, 2).await), (&begun, begun.clone()));
    unfollow(&stores, 1, 2).await;
    request.assert_kept().await;
    follow(&stores, 1, 2).await;
    request.assert_kept().await;
    set(&stores, 2, 1, blocking(true)).await.cut.unwrap();
    request.assert_kept().await;
}

pub async fn a_first_follow_is_listed_once(stores: Stores) {
    let request = SentRequest::send(
        |body| requested("r", body),
        async |write| stores.follows.follow(edge(1, 2), KEPT, write).await,
        async || (live_follow(&stores, 1, 2).await, following(&stores, 1).await, fans(&stores, 2).await),
    )
    .await;
    assert_eq!(live_follow(&stores, 1, 2).await, request.answer);
    assert_eq!((following(&stores, 1).await, fans(&stores, 2).await), (vec![2], vec![1]));
}

pub async fn an_unfollow_has_one_effect(stores: Stores) {
    follow(&stores, 1, 2).await;
    let request = SentRequest::send(
        |body| requested("r", body),
        async |write| stores.follows.unfollow(edge(1, 2), write).await,
        async || (follow_state(&stores, 1, 2).await, following(&stores, 1).await, fans(&stores, 2).await),
    )
    .await;
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(request.answer));
    follow(&stores, 1, 2).await;
    request.assert_kept().await;
}

pub async fn request_id_of_other_call_or_edge_is_refused(stores: Stores) {
    let first = applied(following_of(&stores, 2, "r", 1).await.unwrap());
    assert_mismatch(unfollowing_of(&stores, 2, "r", 2).await);
    assert_mismatch(following_of(&stores, 3, "r", 3).await);
    assert_mismatch(unfollowing_of(&stores, 3, "r", 4).await);
    assert_eq!(live_follow(&stores, 1, 2).await, first);
    assert!(follow_state(&stores, 1, 3).await.live().is_none());
    let ended = applied(unfollowing_of(&stores, 2, "s", 5).await.unwrap());
    assert_mismatch(following_of(&stores, 2, "s", 6).await);
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
    assert_eq!((following(&stores, 1).await, fans(&stores, 3).await), (vec![], vec![]));
}

pub async fn a_refused_follow_keeps_no_request(stores: Stores) {
    set(&stores, 2, 1, blocking(true)).await;
    assert_blocked(following_of(&stores, 2, "r", 1).await);
    assert_blocked(following_of(&stores, 2, "r", 1).await);
    set(&stores, 2, 1, blocking(false)).await;
    let begun = applied(following_of(&stores, 2, "r", 1).await.unwrap());
    assert_eq!(live_follow(&stores, 1, 2).await, begun);
    assert_eq!(replay(following_of(&stores, 2, "r", 1).await), begun);
}

pub async fn an_unfollow_of_nothing_keeps_no_request(stores: Stores) {
    assert_not_found(unfollowing_of(&stores, 2, "r", 1).await);
    follow(&stores, 1, 2).await;
    let ended = applied(unfollowing_of(&stores, 2, "r", 1).await.unwrap());
    assert_eq!(follow_state(&stores, 1, 2).await, Stored::Deleted(ended));
    assert_not_found(unfollowing_of(&stores, 2, "s", 1).await);
    applied(following_of(&stores, 2, "s", 2).await.unwrap());
}

pub async fn requests_of_different_ids_have_an_effect_each(stores: Stores) {
    let mut last = Version::NONE;
    for round in 0..4 {
        let begun = applied(following_of(&stores, 2, &format!("f{round}"), 1).await.unwrap()).version;
        let ended = applied(unfollowing_of(&stores, 2, &format!("u{round}"), 1).await.unwrap());
        assert!(last < begun && begun < ended, "{last} {begun} {ended}");
        last = ended;
    }
}

pub async fn a_follow_sent_at_once_has_one_effect(stores: Stores) {
    for to in 2..=6 {
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            following_of(&stores, to, &format!("r{to}"), 1).await
        });
        let record = one_effect(calls.await);
        assert_eq!(live_follow(&stores, 1, to).await, record);
        await_lists(&stores, &[edge(1, to)]).await;
    }
}

pub async fn an_unfollow_sent_at_once_has_one_effect(stores: Stores) {
    for to in 2..=6 {
        follow(&stores, 1, to).await;
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            unfollowing_of(&stores, to, &format!("r{to}"), 1).await
        });
        let ended = one_effect(calls.await);
        assert_eq!(follow_state(&stores, 1, to).await, Stored::Deleted(ended));
        await_lists(&stores, &[edge(1, to)]).await;
    }
}

pub async fn two_bodies_at_once_have_one_effect(stores: Stores) {
    for round in 1..=8_u8 {
        let calls = [1, 2].map(|body| {
            let (store, request) = (Arc::clone(&stores.follows), requested(&format!("r{round}"), body));
            let edge = edge(i64::from(10 * round + body), 1);
            async move { store.follow(edge, KEPT, request).await }
        });
        let mut results = at_once(calls).await;
        results.sort_by_key(Result::is_err);
        assert_mismatch(results.pop().unwrap());
        let begun = applied(results.pop().unwrap().unwrap());
        let both = [1, 2].map(|body| edge(i64::from(10 * round + body), 1));
        await_lists(&stores, &both).await;
        for edge in both {
            let active = follow_state(&stores, edge.from.get(), 1).await.live();
            assert_eq!(active, (edge == begun.edge).then(|| begun.clone()));
        }
    }
}
