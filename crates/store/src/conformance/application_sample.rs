//! Applications, and changes to them, that the cases start from.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::sample::{applied, group_id, user_id, version, write};
use crate::{
    Application, ApplicationBasis, ApplicationChange, ApplicationEffect, ApplicationId, ApplicationKey,
    ApplicationList, ApplicationPurpose, ApplicationRefusal, ApplicationState, Applied, Decision,
    DueApplication, GroupBasis, ListedApplication, NewApplication, Receiver, StoreError, Stores, Text,
    Timestamp, Write,
};

/// How long the applications in most cases can be decided.
pub(super) const PENDING: Duration = Duration::from_secs(3_600);
/// A limit above the pending applications in any case.
const ROOM: u32 = 10_000;

pub(super) fn to_user(id: i64) -> Receiver {
    Receiver::User(user_id(id))
}

pub(super) fn to_group(id: i64) -> Receiver {
    Receiver::Group(group_id(id))
}

pub(super) fn friend(user: i64) -> ApplicationPurpose {
    ApplicationPurpose::Friend(user_id(user))
}

/// An application that a user makes now.
pub(super) fn new(applicant: i64, purpose: ApplicationPurpose) -> NewApplication {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = Timestamp::now();
    let receivers = match purpose.receiver() {
        Receiver::User(user) => vec![user],
        Receiver::Group(_) => vec![user_id(1), user_id(2)],
    };
    NewApplication {
        id: ApplicationId::at(now, NEXT.fetch_add(1, Ordering::Relaxed)),
        purpose,
        applicant: user_id(applicant),
        message: "'; DROP TABLE users;-- \u{1F600}".into(),
        reference: Text::default(),
        receivers,
        basis: basis(purpose, now),
        expires: now.after(PENDING),
        kept: Duration::from_secs(86_400),
        pending_max: ROOM,
    }
}

fn basis(purpose: ApplicationPurpose, now: Timestamp) -> ApplicationBasis {
    ApplicationBasis {
        applicant: now,
        user: matches!(purpose.receiver(), Receiver::User(_)).then_some(now),
        group: purpose.group().map(|_| GroupBasis { created: now, roster: version(3) }),
        by_role: true,
    }
}

pub(super) async fn change(
    stores: &Stores,
    receiver: Receiver,
    change: ApplicationChange,
    write: Write,
) -> Result<Applied<Application>, StoreError> {
    stores.applications.change_application(receiver, change, write).await
}

pub(super) async fn try_create(stores: &Stores, new: NewApplication) -> Result<Application, StoreError> {
    change(stores, new.purpose.receiver(), ApplicationChange::Apply(new), write()).await.map(applied)
}

/// Creates an application.
pub(super) async fn create(stores: &Stores, applicant: i64, purpose: ApplicationPurpose) -> Application {
    try_create(stores, new(applicant, purpose)).await.unwrap()
}

pub(super) async fn try_decide(
    stores: &Stores,
    key: ApplicationKey,
    decision: Decision,
    by: i64,
) -> Result<Application, StoreError> {
    let decide = ApplicationChange::Decide(key.id, decision, Some(user_id(by)));
    change(stores, key.receiver, decide, write()).await.map(applied)
}

pub(super) async fn record_effect(
    stores: &Stores,
    key: ApplicationKey,
    effect: ApplicationEffect,
) -> Application {
    applied(
        change(stores, key.receiver, ApplicationChange::RecordEffect(key.id, effect), write()).await.unwrap(),
    )
}

pub(super) async fn read(stores: &Stores, key: ApplicationKey) -> Application {
    stores.applications.get_application(key).await.unwrap().unwrap()
}

/// Counts the pending applications to a receiver: requests, and invites.
pub(super) async fn pending(stores: &Stores, receiver: Receiver) -> (u32, u32) {
    let pending = stores.applications.count_pending(receiver).await.unwrap();
    (pending.requests, pending.invites)
}

/// Reads a whole list, which is shorter than a page.
pub(super) async fn list(stores: &Stores, list: ApplicationList) -> Vec<ListedApplication> {
    stores.applications.list_applications(list, long_ago(), 1_000).await.unwrap()
}

/// Reads the ids and states in a whole list.
pub(super) async fn shown(stores: &Stores, of: ApplicationList) -> Vec<(ApplicationId, ApplicationState)> {
    let shown = list(stores, of).await;
    shown.iter().map(|listed| (listed.application.id, listed.application.state)).collect()
}

/// An id from before all that the cases make.
pub(super) fn long_ago() -> ApplicationId {
    ApplicationId::at(Timestamp(Timestamp::now().0 - 86_400_000), 0)
}

/// Reads everything that is due at a moment.
pub(super) async fn due(stores: &Stores, now: Timestamp) -> Vec<DueApplication> {
    stores.applications.due_applications(None, now, 1_000).await.unwrap().due
}

/// It was refused for this reason.
pub(super) fn assert_refused<T: std::fmt::Debug>(result: Result<T, StoreError>, why: ApplicationRefusal) {
    let error = result.unwrap_err();
    assert!(matches!(error, StoreError::Application(refusal) if refusal == why), "{error:?}");
}
