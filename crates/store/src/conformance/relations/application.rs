//! Application store cases: an application is made, decided, withdrawn, closed, expires, and is completed.

use super::{
    application_sample::{
        assert_refused, change, create, due, friend, long_ago, new, pending, read, record_effect, shown,
        to_group, to_user, try_create, try_decide,
    },
    sample::{applied, assert_fails, group_id, user_id, write},
};
use crate::{
    ApplicationChange, ApplicationEffect, ApplicationKey, ApplicationList, ApplicationPurpose,
    ApplicationRefusal, ApplicationState, COMPLETION_GRACE, Decision, NewApplication, StoreError, Stores,
    Timestamp,
};

pub async fn an_application_is_read_as_it_was_made(stores: Stores) {
    let new = new(1, friend(2));
    let made = try_create(&stores, new.clone()).await.unwrap();
    assert_eq!((made.id, made.purpose, made.applicant), (new.id, new.purpose, new.applicant));
    assert_eq!(
        (&made.message, &made.reference, &made.receivers),
        (&new.message, &new.reference, &new.receivers)
    );
    assert_eq!(
        (made.state, made.decider, made.effect),
        (ApplicationState::Pending, None, ApplicationEffect::None)
    );
    assert_eq!((made.expires, made.decided, made.kept), (new.expires, None, new.kept));
    assert_eq!(made.basis, Some(new.basis));
    assert_eq!(read(&stores, made.key()).await, made);
}

pub async fn pending_application_survives_another(stores: Stores) {
    let first = create(&stores, 1, friend(2)).await;
    assert_eq!(create(&stores, 1, friend(2)).await, first);
    assert_eq!(pending(&stores, to_user(2)).await, (1, 0));
    assert_ne!(create(&stores, 3, friend(2)).await.id, first.id);
}

pub async fn application_after_decision_gets_new_id(stores: Stores) {
    let first = create(&stores, 1, friend(2)).await;
    let refused = try_decide(&stores, first.key(), Decision::Refuse, 2).await.unwrap();
    let second = create(&stores, 1, friend(2)).await;
    assert!(second.id > first.id && second.version > refused.version);
    assert_eq!(read(&stores, first.key()).await, refused);
    try_decide(&stores, second.key(), Decision::Accept, 2).await.unwrap();
    record_effect(&stores, second.key(), ApplicationEffect::Done).await;
    let third = create(&stores, 1, friend(2)).await;
    assert_eq!(create(&stores, 1, friend(2)).await, third);
}

pub async fn first_decision_wins(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let accepted = try_decide(&stores, made.key(), Decision::Accept, 2).await.unwrap();
    assert_eq!((accepted.state, accepted.decider), (ApplicationState::Accepted, Some(user_id(2))));
    assert_eq!(accepted.effect, ApplicationEffect::Outstanding);
    assert!(accepted.decided.is_some() && accepted.version > made.version);
    let why = ApplicationRefusal::Decided(ApplicationState::Accepted, Some(user_id(2)));
    assert_refused(try_decide(&stores, made.key(), Decision::Refuse, 3).await, why);
    assert_eq!(read(&stores, made.key()).await, accepted);
}

pub async fn one_that_was_taken_back_is_not_decided(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let withdraw = || ApplicationChange::Withdraw(made.id, Some(user_id(1)));
    applied(change(&stores, to_user(2), withdraw(), write()).await.unwrap());
    let why = ApplicationRefusal::Decided(ApplicationState::Withdrawn, Some(user_id(1)));
    assert_refused(try_decide(&stores, made.key(), Decision::Accept, 2).await, why);
    assert_refused(change(&stores, to_user(2), withdraw(), write()).await, why);
    assert_eq!(pending(&stores, to_user(2)).await, (0, 0));
}

pub async fn one_of_another_receiver_is_not_found(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    for receiver in [to_user(3), to_group(2)] {
        let key = ApplicationKey { receiver, ..made.key() };
        assert_eq!(stores.applications.get_application(key).await.unwrap(), None);
        assert_fails!(try_decide(&stores, key, Decision::Accept, 3).await, StoreError::NotFound);
    }
    assert_eq!(read(&stores, made.key()).await, made);
}

pub async fn users_and_groups_of_one_id_are_not_mixed_up(stores: Stores) {
    let of_user = create(&stores, 1, friend(9)).await;
    let of_group = create(&stores, 1, ApplicationPurpose::Join(group_id(9))).await;
    assert_eq!((pending(&stores, to_user(9)).await, pending(&stores, to_group(9)).await), ((1, 0), (1, 0)));
    try_decide(&stores, of_user.key(), Decision::Refuse, 9).await.unwrap();
    assert_eq!(read(&stores, of_group.key()).await, of_group);
    assert_eq!(pending(&stores, to_group(9)).await, (1, 0));
}

pub async fn what_is_pending_is_counted_by_kind(stores: Stores) {
    assert_eq!(pending(&stores, to_user(2)).await, (0, 0));
    let ask = create(&stores, 1, friend(2)).await;
    create(&stores, 3, friend(2)).await;
    let invite = create(&stores, 3, ApplicationPurpose::Invite(group_id(9), user_id(2))).await;
    assert_eq!(pending(&stores, to_user(2)).await, (2, 1));
    try_decide(&stores, ask.key(), Decision::Accept, 2).await.unwrap();
    record_effect(&stores, ask.key(), ApplicationEffect::Refused).await;
    assert_eq!(pending(&stores, to_user(2)).await, (1, 1));
    try_decide(&stores, invite.key(), Decision::Refuse, 2).await.unwrap();
    assert_eq!(pending(&stores, to_user(2)).await, (1, 0));
}

pub async fn no_more_are_pending_than_may_be(stores: Stores) {
    let with = |applicant, purpose| NewApplication { pending_max: 2, ..new(applicant, purpose) };
    let first = try_create(&stores, with(1, friend(2))).await.unwrap();
    try_create(&stores, with(3, ApplicationPurpose::Invite(group_id(9), user_id(2)))).await.unwrap();
    assert_refused(try_create(&stores, with(4, friend(2))).await, ApplicationRefusal::TooManyPending);
    assert_eq!(try_create(&stores, with(1, friend(2))).await.unwrap(), first, "it is pending already");
    try_decide(&stores, first.key(), Decision::Refuse, 2).await.unwrap();
    try_create(&stores, with(4, friend(2))).await.unwrap();
}

pub async fn a_group_invites_a_user_once(stores: Stores) {
    let invite = create(&stores, 1, ApplicationPurpose::Invite(group_id(9), user_id(5))).await;
    assert_eq!(create(&stores, 2, ApplicationPurpose::Invite(group_id(9), user_id(5))).await, invite);
    assert_ne!(create(&stores, 1, ApplicationPurpose::Invite(group_id(8), user_id(5))).await.id, invite.id);
    assert_eq!(pending(&stores, to_user(5)).await, (0, 2));
}

pub async fn crossed_application_is_closed_newer_is_not(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let close =
        |at| change(&stores, to_user(2), ApplicationChange::Close(made.slot(), Timestamp(at)), write());
    assert_fails!(close(made.created.0 - 1).await, StoreError::NotFound);
    let closed = applied(close(made.created.0).await.unwrap());
    assert_eq!((closed.id, closed.state, closed.decider), (made.id, ApplicationState::Closed, None));
    assert!(matches!(close(made.created.0).await, Err(StoreError::NotFound)));
    assert_eq!(pending(&stores, to_user(2)).await, (0, 0));
}

pub async fn one_that_has_run_out_is_due_and_ended(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let late = made.expires.after(COMPLETION_GRACE);
    assert!(due(&stores, late).await.iter().any(|due| due.key == made.key()));
    let expire = || ApplicationChange::Expire(made.id);
    let early = applied(change(&stores, to_user(2), expire(), write()).await.unwrap());
    assert_eq!(early.state, ApplicationState::Pending);
    let at = crate::Write::at(late);
    let expired = applied(change(&stores, to_user(2), expire(), at).await.unwrap());
    assert_eq!((expired.state, expired.decided), (ApplicationState::Expired, Some(made.expires)));
    assert_eq!(pending(&stores, to_user(2)).await, (0, 0));
    for due in due(&stores, late).await {
        assert_eq!(stores.applications.resume_application(due, late).await.unwrap(), None);
    }
}

pub async fn an_effect_is_due_until_it_is_settled(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let accepted = try_decide(&stores, made.key(), Decision::Accept, 2).await.unwrap();
    let later = Timestamp::now().after(COMPLETION_GRACE * 2);
    for _ in 0..2 {
        let found = due(&stores, later).await;
        let due = found.iter().find(|due| due.key == made.key()).unwrap();
        let resumed = stores.applications.resume_application(*due, later).await.unwrap();
        assert_eq!(resumed.as_ref(), Some(&accepted));
    }
    record_effect(&stores, made.key(), ApplicationEffect::Done).await;
    for due in due(&stores, later).await {
        assert_eq!(stores.applications.resume_application(due, later).await.unwrap(), None);
    }
}

pub async fn an_effect_is_settled_once(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let unchanged = record_effect(&stores, made.key(), ApplicationEffect::Done).await;
    assert_eq!(unchanged, made, "nothing is outstanding");
    try_decide(&stores, made.key(), Decision::Accept, 2).await.unwrap();
    let done = record_effect(&stores, made.key(), ApplicationEffect::Done).await;
    assert_eq!(done.effect, ApplicationEffect::Done);
    assert_eq!(record_effect(&stores, made.key(), ApplicationEffect::Refused).await, done);
    assert_eq!(
        shown(&stores, ApplicationList::Sent(user_id(1))).await,
        [(made.id, ApplicationState::Accepted)]
    );
}

pub async fn what_was_changed_a_moment_ago_is_not_due(stores: Stores) {
    let made = create(&stores, 1, friend(2)).await;
    let accepted = try_decide(&stores, made.key(), Decision::Accept, 2).await.unwrap();
    let found = due(&stores, accepted.decided.unwrap()).await;
    assert!(found.iter().all(|due| due.key != made.key()), "{found:?}");
}

pub async fn what_was_kept_long_enough_is_forgotten(stores: Stores) {
    let pending = create(&stores, 1, friend(2)).await;
    let decided = create(&stores, 3, friend(2)).await;
    let decided = try_decide(&stores, decided.key(), Decision::Refuse, 2).await.unwrap();
    let forgotten = stores.applications.forget_applications(Timestamp::now(), 10).await.unwrap();
    assert_eq!((forgotten, read(&stores, decided.key()).await), (0, decided.clone()));
    // A store that forgets by itself does so in its own time.
    if stores.applications.forget_applications(decided.forgotten(), 10).await.unwrap() > 0 {
        assert_eq!(stores.applications.get_application(decided.key()).await.unwrap(), None);
        let list = stores.applications.list_applications(ApplicationList::Sent(user_id(3)), long_ago(), 9);
        assert_eq!(list.await.unwrap(), []);
    }
    assert_eq!(read(&stores, pending.key()).await, pending);
}
