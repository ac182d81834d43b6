//! A backup taken while a node is being written to is a consistent snapshot.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{TryStreamExt as _, future::join_all};
use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    r#type::v1::{AtLeast, Consistency, consistency::Level},
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use tonic::transport::Channel;

use crate::{
    backup::{
        ledger::{Clock, LoggedWrite, Writer, make_group},
        node::{Node, backup, filled, restore},
    },
    polls::until,
};

const WRITERS: i64 = 8;

/// The writers' data on a restored node: how many writes each has, and its groups by step.
struct StoredGroups {
    steps: BTreeMap<i64, usize>,
    groups: BTreeMap<(i64, usize), i64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_under_writes_is_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let (data, restored, to) =
        (folder.path().join("data"), folder.path().join("restored"), folder.path().join("backup.db"));
    filled(&data, 400).await;
    let node = Node::start(&data).await;
    let (clock, stop) = (Arc::new(Clock::default()), Arc::new(AtomicBool::new(false)));
    let mut running = Vec::new();
    for id in 1..=WRITERS {
        let writer = Writer::new(id, &node.channel).await;
        let (channel, clock, stop) = (node.channel.clone(), Arc::clone(&clock), Arc::clone(&stop));
        running.push(tokio::spawn(async move {
            writer.write(channel, &clock, || stop.load(Ordering::Relaxed)).await
        }));
    }
    wait_for(&clock, 200).await;
    let (began, report, ended) = {
        let (clock, data, to) = (Arc::clone(&clock), data.clone(), to.clone());
        let take = move || (clock.tick(), backup(&data, &to), clock.tick());
        tokio::task::spawn_blocking(take).await.unwrap()
    };
    wait_for(&clock, ended + 200).await;
    stop.store(true, Ordering::Relaxed);
    let writers: Vec<Writer> = join_all(running).await.into_iter().map(Result::unwrap).collect();
    assert!(
        writers
            .iter()
            .flat_map(|writer| &writer.sent)
            .any(|sent| began < sent.at && sent.acknowledged.is_some_and(|at| at < ended)),
        "nothing was written while it was taken"
    );

    let result = restore(&to, &restored);
    assert_eq!((&result["users"], &result["groups"]), (&report["users"], &report["groups"]));
    assert_eq!(report["users"], 400 + WRITERS);
    let again = Node::start(&restored).await;
    let held = held(&again.channel).await;
    assert_eq!(report["groups"], held.groups.len());
    assert_is_cut(&writers, &held, began, ended);
    assert_codes_and_requests_belong(&again.channel, &held).await;
    assert_ids_are_new(&again.channel, &writers).await;
    drop((node, again));
    assert_sound(&restored).await;
}

async fn wait_for(clock: &Clock, moment: u64) {
    until(Duration::from_secs(60), async || clock.tick() >= moment).await;
}

async fn held(channel: &Channel) -> StoredGroups {
    let mut users = UserServiceClient::new(channel.clone());
    let mut steps = BTreeMap::new();
    for id in 1..=WRITERS {
        let request = users::GetUserRequest { user_id: id, consistency: None };
        let user = users.get_user(request).await.unwrap().into_inner().user.unwrap();
        steps.insert(id, user.params.get("step").map_or(0, |step| step.parse().unwrap()));
    }
    let request = groups::ExportGroupsRequest::default();
    let pages = GroupServiceClient::new(channel.clone()).export_groups(request).await.unwrap().into_inner();
    let groups = pages.map_ok(|page| page.groups).try_concat().await.unwrap().into_iter().map(|group| {
        let (writer, step) = group.name.split_once('/').unwrap();
        ((writer.parse().unwrap(), step.parse().unwrap()), group.group_id)
    });
    StoredGroups { steps, groups: groups.collect() }
}

/// Checks for each writer that the backup has a prefix of its writes: all writes acknowledged before the
/// backup began, and none sent after it ended. Checks across writers that no write is there without the
/// writes that were acknowledged before it was sent.
fn assert_is_cut(writers: &[Writer], held: &StoredGroups, began: u64, ended: u64) {
    let (mut inside, mut outside): (Vec<&LoggedWrite>, Vec<&LoggedWrite>) = (Vec::new(), Vec::new());
    for writer in writers {
        let made = held.groups.keys().filter(|(id, _)| *id == writer.id).count();
        for step in 1..=made {
            let id = held.groups[&(writer.id, step)];
            let sent = &writer.sent[2 * step - 2];
            assert!(sent.acknowledged.is_none() || sent.group_id == id, "{}/{step}", writer.id);
        }
        let raised = held.steps[&writer.id];
        assert!(raised == made || raised + 1 == made, "{made} groups and step {raised}");
        let (kept, lost) = writer.sent.split_at(made + raised);
        assert!(lost.iter().all(|sent| sent.acknowledged.is_none_or(|at| at > began)), "lost: {lost:?}");
        assert!(kept.iter().all(|sent| sent.at < ended), "from after the end: {kept:?}");
        inside.extend(kept);
        outside.extend(lost);
    }
    let newest = inside.iter().map(|sent| sent.at).max().unwrap();
    let missing = outside.iter().filter_map(|sent| sent.acknowledged).min().unwrap();
    assert!(missing > newest, "a write acknowledged at {missing} is missing, one sent at {newest} is not");
}

/// Checks that the tables with secrets and requests belong to the same snapshot.
async fn assert_codes_and_requests_belong(channel: &Channel, held: &StoredGroups) {
    let mut service = GroupServiceClient::new(channel.clone());
    for ((writer, step), id) in &held.groups {
        let request = groups::GetInviteCodeRequest { group_id: *id };
        assert_eq!(service.get_invite_code(request).await.unwrap().into_inner().invite_code.len(), 12);
        assert_eq!(make_group(*writer, *step, channel.clone()).await.unwrap(), *id, "the same request");
    }
}

async fn assert_ids_are_new(channel: &Channel, writers: &[Writer]) {
    let given = writers.iter().flat_map(|writer| &writer.sent).map(|sent| sent.group_id).max().unwrap();
    let new = make_group(99, 1, channel.clone()).await.unwrap();
    assert!(new > given + 1000, "{new} after {given}");
}

async fn assert_sound(data: &std::path::Path) {
    let options = kith_store_sqlite::SqliteOptions::new(data.join("kith.db"));
    let store = kith_store_sqlite::open(options).await.unwrap();
    assert_eq!(store.integrity_check().await.unwrap(), Vec::<String>::new());
    store.close().await;
}

#[tokio::test]
async fn token_after_restored_backup_asks_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (data, restored, to) =
        (folder.path().join("data"), folder.path().join("restored"), folder.path().join("backup.db"));
    let node = Node::start(&data).await;
    let before = create(&node.channel, 1).await;
    let epoch = backup(&data, &to)["epoch"].as_u64().unwrap();
    let mut tokens = vec![before, create(&node.channel, 2).await];
    drop(node);
    for id in 3..6 {
        let later = Node::start(&data).await;
        tokens.push(create(&later.channel, id).await);
    }
    let raised = restore(&to, &restored)["epoch"].as_u64().unwrap();
    assert!(raised > epoch + 4, "{raised} after {epoch}");
    let again = Node::start(&restored).await;
    tier(&again.channel, None).await;
    assert_eq!(tier(&again.channel, None).await, "memory");
    for token in tokens {
        assert_eq!(tier(&again.channel, Some(token)).await, "store");
    }
    let own = create(&again.channel, 7).await;
    assert_eq!(tier(&again.channel, Some(own)).await, "memory");
}

/// Creates a user and returns the write's token.
async fn create(channel: &Channel, user_id: i64) -> String {
    let user = users::User { user_id, user_name: format!("user {user_id}"), ..Default::default() };
    let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
    let answer = UserServiceClient::new(channel.clone()).create_user(request).await.unwrap();
    answer.into_inner().consistency_token
}

/// Returns the tier that answers a read of user 1.
async fn tier(channel: &Channel, token: Option<String>) -> String {
    let level = token.map(|token| Level::AtLeast(AtLeast { consistency_tokens: vec![token] }));
    let consistency = level.map(|level| Consistency { level: Some(level) });
    let request = users::GetUserRequest { user_id: 1, consistency };
    let answer = UserServiceClient::new(channel.clone()).get_user(request).await.unwrap();
    answer.metadata().get("kith-tier").unwrap().to_str().unwrap().to_owned()
}
