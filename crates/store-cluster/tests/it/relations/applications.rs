//! Dead nodes' changes to applications.

use std::time::Duration;

use kith_store::{
    Application, ApplicationBasis, ApplicationChange, ApplicationEffect, ApplicationId, ApplicationKey,
    ApplicationList, ApplicationPurpose, ApplicationState, COMPLETION_GRACE, Decision, DueApplication,
    GroupBasis, GroupId, NewApplication, Receiver, StoreError, Stores, Text, Timestamp, Version,
};

use super::{Stage, now, user};

const ADMINS: [i64; 3] = [1, 2, 3];
/// After this time the note for a write that never came is given up.
const GIVEN_UP: Duration = Duration::from_secs(120);

fn group() -> GroupId {
    GroupId::new(9).unwrap()
}

fn new(applicant: i64) -> NewApplication {
    let now = Timestamp::now();
    NewApplication {
        id: ApplicationId::at(now, rand::random()),
        purpose: ApplicationPurpose::Join(group()),
        applicant: user(applicant),
        message: Text::default(),
        reference: Text::default(),
        receivers: ADMINS.map(user).to_vec(),
        basis: ApplicationBasis {
            applicant: now,
            user: None,
            group: Some(GroupBasis { created: now, roster: Version::FIRST }),
            by_role: false,
        },
        expires: now.after(Duration::from_secs(3_600)),
        kept: Duration::from_secs(86_400),
        pending_max: 10_000,
    }
}

async fn change(stores: &Stores, change: ApplicationChange) -> Result<Application, StoreError> {
    let applied = stores.applications.change_application(Receiver::Group(group()), change, now()).await;
    applied.map(|applied| applied.record)
}

async fn made(stores: &Stores, applicant: i64) -> Application {
    change(stores, ApplicationChange::Apply(new(applicant))).await.unwrap()
}

async fn decide(stores: &Stores, id: ApplicationId, by: i64) -> Result<Application, StoreError> {
    let decision = if by == 2 { Decision::Refuse } else { Decision::Accept };
    change(stores, ApplicationChange::Decide(id, decision, Some(user(by)))).await
}

async fn read(stores: &Stores, key: ApplicationKey) -> Application {
    stores.applications.get_application(key).await.unwrap().unwrap()
}

async fn pending(stores: &Stores) -> u32 {
    stores.applications.count_pending(Receiver::Group(group())).await.unwrap().requests
}

async fn listed(stores: &Stores, list: ApplicationList) -> Vec<Application> {
    let first = ApplicationId::at(Timestamp(Timestamp::now().0 - 86_400_000), 0);
    let listed = stores.applications.list_applications(list, first, 1_000).await.unwrap();
    listed.into_iter().map(|listed| listed.application).collect()
}

/// Reads everything that is due for one application at a moment.
async fn due(stores: &Stores, key: ApplicationKey, at: Timestamp) -> Vec<DueApplication> {
    let found = stores.applications.due_applications(None, at, 1_000).await.unwrap().due;
    found.into_iter().filter(|due| due.key == key).collect()
}

/// Resumes what is due for an application at that time; returns what remains to be done.
async fn resumed(stores: &Stores, key: ApplicationKey, at: Timestamp) -> Vec<Application> {
    let mut left = Vec::new();
    for due in due(stores, key, at).await {
        left.extend(stores.applications.resume_application(due, at).await.unwrap());
    }
    left
}

fn soon() -> Timestamp {
    Timestamp::now().after(COMPLETION_GRACE * 2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn dead_node_decision_is_resumed_until_settled() {
    let stage = Stage::open().await;
    let made = made(&stage.stores, 100).await;
    let (dying, node) = stage.node(|cql| cql.fail_point = Some("application_written")).await;
    decide(&dying, made.id, 1).await.unwrap_err();
    drop((dying, node));
    let key = made.key();
    let accepted = read(&stage.stores, key).await;
    assert_eq!(
        (accepted.state, accepted.effect),
        (ApplicationState::Accepted, ApplicationEffect::Outstanding)
    );
    let sent = ApplicationList::Sent(user(100));
    assert_eq!(listed(&stage.stores, sent).await, std::slice::from_ref(&made), "it died before the lists");
    for _ in 0..2 {
        assert_eq!(resumed(&stage.stores, key, soon()).await, std::slice::from_ref(&accepted));
        assert_eq!(listed(&stage.stores, sent).await, std::slice::from_ref(&accepted));
    }
    let settle = ApplicationChange::RecordEffect(made.id, ApplicationEffect::Done);
    let settled = change(&stage.stores, settle).await.unwrap();
    assert_eq!(listed(&stage.stores, sent).await, [settled]);
    assert_eq!(resumed(&stage.stores, key, soon()).await, []);
    assert_eq!(due(&stage.stores, key, soon()).await, [], "its note is ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn dead_node_application_reaches_the_lists() {
    let stage = Stage::open().await;
    let (dying, node) = stage.node(|cql| cql.fail_point = Some("application_written")).await;
    let new = new(100);
    let key = ApplicationKey { receiver: Receiver::Group(group()), id: new.id };
    change(&dying, ApplicationChange::Apply(new)).await.unwrap_err();
    drop((dying, node));
    let received = ApplicationList::Received(user(2));
    assert_eq!(listed(&stage.stores, received).await, []);
    assert_eq!(resumed(&stage.stores, key, soon()).await, [], "nothing is left for others");
    assert_eq!(listed(&stage.stores, received).await, [read(&stage.stores, key).await]);
    assert_eq!((due(&stage.stores, key, soon()).await, pending(&stage.stores).await), (vec![], 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn search_resumes_at_its_mark_without_gaps() {
    let stage = Stage::open().await;
    let stores = &stage.stores;
    let made = made(stores, 100).await;
    decide(stores, made.id, 1).await.unwrap();
    let store = &stores.applications;
    let later = Timestamp::now().after(GIVEN_UP * 5);
    let first = store.due_applications(None, later, 10).await.unwrap();
    let mark = first.mark.unwrap();
    let again = store.due_applications(Some(&mark), later, 10).await.unwrap();
    assert!(again.due.iter().any(|due| due.key == made.key()), "it is outstanding: {again:?}");
    change(stores, ApplicationChange::RecordEffect(made.id, ApplicationEffect::Done)).await.unwrap();
    let ended = store.due_applications(Some(&mark), later, 10).await.unwrap();
    assert!(ended.due.is_empty(), "it is done: {ended:?}");
    assert_eq!(ended.mark.as_deref(), Some(&mark[..8]), "the minute is not looked at again");
}
