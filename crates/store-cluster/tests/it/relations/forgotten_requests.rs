//! Requests that a node has forgotten as failed, and whose write took effect all the same: a server that was
//! stopped in the middle of it makes it later. A repeated call gets the first call's answer.

use std::time::Duration;

use kith_store::{
    ApplicationBasis, ApplicationChange, ApplicationId, ApplicationPurpose, BlockPatch, ChangeContext,
    Decision, GroupId, MemberChange, NewApplication, Receiver, Request, StoreError, Text, Timestamp, Write,
    conformance::relation_sample::edge,
};

use super::{Stage, now, user};

const GROUP: i64 = 7;
pub(super) const SERVICE: ChangeContext =
    ChangeContext { by: None, members_max: 1_000, bans_max: 1_000, history: false };

fn group() -> GroupId {
    GroupId::new(GROUP).unwrap()
}

pub(super) fn request(id: &str, fingerprint: u8) -> Write {
    Write { request: Some(Request { id: id.parse().unwrap(), fingerprint: [fingerprint; 32] }), ..now() }
}

async fn forget(stage: &Stage, id: &str) {
    stage.run(&format!("DELETE FROM %k.requests WHERE id = '{id}'")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn forgotten_change_of_members_is_answered() {
    let stage = Stage::open().await;
    let make = |change, write| stage.stores.members.change_members(group(), change, SERVICE, write);
    make(MemberChange::AddFounder(user(1)), now()).await.unwrap();
    for (id, change) in [
        ("join", MemberChange::Join(user(2))),
        ("add", MemberChange::Add(vec![user(3)])),
        ("leave", MemberChange::Leave(user(2))),
    ] {
        let first = make(change.clone(), request(id, 7)).await.unwrap();
        forget(&stage, id).await;
        let again = make(change.clone(), request(id, 7)).await.unwrap();
        assert_eq!((again.record, again.replayed), (first.record, true), "{id}");
    }
    forget(&stage, "leave").await;
    let other = make(MemberChange::Leave(user(2)), request("leave", 8)).await;
    assert!(matches!(other, Err(StoreError::NotFound | StoreError::Member(_))), "another request: {other:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn forgotten_block_is_answered() {
    let stage = Stage::open().await;
    let blocks = &stage.stores.blocks;
    let patch = || BlockPatch { blocked: Some(true), ..BlockPatch::default() };
    let first = blocks.set_block(edge(1, 2), patch(), request("block", 7)).await.unwrap();
    forget(&stage, "block").await;
    let unblocked = BlockPatch { blocked: Some(false), ..BlockPatch::default() };
    blocks.set_block(edge(1, 2), unblocked, now()).await.unwrap();
    let again = blocks.set_block(edge(1, 2), patch(), request("block", 7)).await.unwrap();
    assert_eq!((again.record, again.replayed), (first.record, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn forgotten_decision_is_answered() {
    let stage = Stage::open().await;
    let at = Timestamp::now();
    let application = NewApplication {
        id: ApplicationId::at(at, rand::random()),
        purpose: ApplicationPurpose::Friend(user(1)),
        applicant: user(2),
        message: Text::default(),
        reference: Text::default(),
        receivers: vec![user(1)],
        basis: ApplicationBasis { applicant: at, user: Some(at), group: None, by_role: false },
        expires: at.after(Duration::from_secs(3_600)),
        kept: Duration::from_secs(86_400),
        pending_max: 100,
    };
    let id = application.id;
    let make =
        |change, write| stage.stores.applications.change_application(Receiver::User(user(1)), change, write);
    make(ApplicationChange::Apply(application), now()).await.unwrap();
    let decide = || ApplicationChange::Decide(id, Decision::Refuse, Some(user(1)));
    let first = make(decide(), request("decide", 7)).await.unwrap();
    forget(&stage, "decide").await;
    let again = make(decide(), request("decide", 7)).await.unwrap();
    assert_eq!((again.record, again.replayed), (first.record, true));
}
