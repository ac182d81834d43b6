//! Application store cases: concurrent changes, and requests that come again.

use super::{
    application_sample::{
        assert_refused, change, create, friend, new, pending, read, record_effect, shown, to_user,
        try_create, try_decide,
    },
    sample::{
        SentRequest, applied, assert_fails, assert_mismatch, at_once, each_at_once, one_effect, replay,
        requested, user_id,
    },
};
use crate::{
    Application, ApplicationChange, ApplicationEffect, ApplicationList, ApplicationRefusal, ApplicationState,
    Applied, Decision, NewApplication, StoreError, Stores,
};

fn accept(application: &Application) -> ApplicationChange {
    ApplicationChange::Decide(application.id, Decision::Accept, Some(user_id(2)))
}

/// Changes an application to user 2, by a request with this id and a body represented by the number.
async fn asked(
    stores: &Stores,
    of: ApplicationChange,
    request: (&str, u8),
) -> Result<Applied<Application>, StoreError> {
    change(stores, to_user(2), of, requested(request.0, request.1)).await
}

pub async fn of_many_made_at_once_one_is_pending(stores: Stores) {
    let made =
        each_at_once(&stores, 0..16, |stores, _| async move { create(&stores, 1, friend(2)).await }).await;
    assert!(made.iter().all(|one| *one == made[0]), "{made:?}");
    assert_eq!(pending(&stores, to_user(2)).await, (1, 0));
    assert_eq!(shown(&stores, ApplicationList::Received(user_id(2))).await.len(), 1);
}

pub async fn one_of_many_concurrent_decisions_wins(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let calls = (10..42).map(|by| {
        let (stores, key) = (stores.clone(), made.key());
        let decision = if by % 2 == 0 { Decision::Accept } else { Decision::Refuse };
        async move { try_decide(&stores, key, decision, by).await }
    });
    let (decided, late): (Vec<_>, Vec<_>) = at_once(calls).await.into_iter().partition(Result::is_ok);
    assert_eq!(decided.len(), 1);
    let winner = decided.into_iter().next().unwrap().unwrap();
    for late in late {
        assert_refused(late, ApplicationRefusal::Decided(winner.state, winner.decider));
    }
    assert_eq!(read(&stores, made.key()).await, winner);
}

pub async fn concurrent_applications_stop_at_limit(stores: Stores) {
    let made = each_at_once(&stores, 10..42, |stores, applicant| async move {
        try_create(&stores, NewApplication { pending_max: 9, ..new(applicant, friend(2)) }).await
    })
    .await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 9);
    for refused in made.into_iter().filter(Result::is_err) {
        assert_refused(refused, ApplicationRefusal::TooManyPending);
    }
    assert_eq!(pending(&stores, to_user(2)).await, (9, 0));
}

pub async fn concurrent_decisions_leave_none_pending(stores: Stores) {
    let mut keys = Vec::new();
    for applicant in 10..26 {
        keys.push(create(&stores, applicant, friend(2)).await.key());
    }
    each_at_once(&stores, keys, |stores, key| async move {
        try_decide(&stores, key, Decision::Refuse, 2).await.unwrap()
    })
    .await;
    assert_eq!(pending(&stores, to_user(2)).await, (0, 0));
    let listed = shown(&stores, ApplicationList::Received(user_id(2))).await;
    assert!(listed.len() == 16 && listed.iter().all(|(_, state)| *state == ApplicationState::Refused));
}

pub async fn a_decision_has_one_effect(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let request = SentRequest::send(
        |body| requested("r", body),
        async |write| change(&stores, to_user(2), accept(&made), write).await,
        async || read(&stores, made.key()).await,
    )
    .await;
    assert_eq!(read(&stores, made.key()).await, request.answer);
    record_effect(&stores, made.key(), ApplicationEffect::Done).await;
    request.assert_kept().await;
}

pub async fn an_application_has_one_effect(stores: Stores) {
    // One that changes nothing keeps its request, too.
    for (applicant, is_pending) in [(1, false), (3, true)] {
        if is_pending {
            create(&stores, applicant, friend(2)).await;
        }
        let request = SentRequest::send(
            |body| requested(&format!("r{applicant}"), body),
            async |write| {
                let apply = ApplicationChange::Apply(new(applicant, friend(2)));
                change(&stores, to_user(2), apply, write).await
            },
            async || shown(&stores, ApplicationList::Received(user_id(2))).await,
        )
        .await;
        assert_eq!(read(&stores, request.answer.key()).await, request.answer);
        try_decide(&stores, request.answer.key(), Decision::Accept, 2).await.unwrap();
        request.assert_kept().await;
        create(&stores, applicant, friend(2)).await;
        request.assert_kept().await;
    }
}

pub async fn another_body_is_refused_and_has_no_effect(stores: Stores) {
    let one = create(&stores, 1, friend(2)).await;
    let other = create(&stores, 3, friend(2)).await;
    asked(&stores, accept(&one), ("r", 1)).await.unwrap();
    assert_mismatch(asked(&stores, accept(&other), ("r", 2)).await);
    assert_eq!(read(&stores, other.key()).await, other);
}

pub async fn a_refusal_keeps_no_request(stores: Stores) {
    let full = |max| ApplicationChange::Apply(NewApplication { pending_max: max, ..new(1, friend(2)) });
    assert_refused(asked(&stores, full(0), ("r", 1)).await, ApplicationRefusal::TooManyPending);
    let made = applied(asked(&stores, full(1), ("r", 1)).await.unwrap());
    assert_eq!(made.state, ApplicationState::Pending);
}

pub async fn a_change_sent_at_once_has_one_effect(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let calls = (0..16).map(|_| {
        let (stores, change) = (stores.clone(), accept(&made));
        async move { asked(&stores, change, ("r", 1)).await }
    });
    let accepted = one_effect(at_once(calls).await);
    assert_eq!(read(&stores, made.key()).await, accepted);
}

pub async fn refused_request_is_not_replayed(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    assert_fails!(asked(&stores, ApplicationChange::ReplayOnly, ("r", 1)).await, StoreError::NotFound);
    let first = applied(asked(&stores, accept(&made), ("r", 1)).await.unwrap());
    assert_eq!(replay(asked(&stores, ApplicationChange::ReplayOnly, ("r", 1)).await), first);
    assert_mismatch(asked(&stores, ApplicationChange::ReplayOnly, ("r", 2)).await);
}
