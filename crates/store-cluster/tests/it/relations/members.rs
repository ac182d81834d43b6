//! Members that several nodes change at once, and dead nodes' changes.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use kith_store::{
    Applied, ChangeContext, FeedRecord, GroupId, MEMBERS_AT_ONCE, Member, MemberChange, MemberKey,
    MemberRefusal, MembersUpdated, Request, Role, Roster, StoreError, Stores, Timestamp, UserId, Version,
    Write,
};
use tokio::time::Instant;

use super::{
    BOUND, Stage,
    feed::{AT_ONCE, assert_delivered, assert_delivered_within, marks, open, open_after},
    now, user,
};

const LARGE: u32 = 1_000_000;
const OWNER: i64 = 1;
/// In each round 48 changes cross each other. The second number, under `KITH_FULL=1`, makes some ten
/// thousand.
const ROUNDS: [usize; 2] = [8, 210];
/// Rounds in which requests come at once.
const REPEATED: u32 = 40;

fn group(id: i64) -> GroupId {
    GroupId::new(id).unwrap()
}

fn key(of: i64, id: i64) -> MemberKey {
    MemberKey { group: group(of), user: user(id) }
}

fn service() -> ChangeContext {
    ChangeContext { by: None, members_max: LARGE, bans_max: LARGE, history: false }
}

fn with_request(id: &str) -> Write {
    Write { request: Some(Request { id: id.parse().unwrap(), fingerprint: [7; 32] }), ..now() }
}

async fn change(
    stores: &Stores,
    of: i64,
    change: MemberChange,
) -> Result<Applied<MembersUpdated>, StoreError> {
    stores.members.change_members(group(of), change, service(), now()).await
}

/// Three nodes over one group, which has an owner.
async fn three_nodes(stage: &Stage, of: i64) -> [Stores; 3] {
    change(&stage.stores, of, MemberChange::AddFounder(user(OWNER))).await.unwrap();
    let (second, third) = (stage.node(|_| ()).await, stage.node(|cql| cql.clock_ahead = 60_000).await);
    [stage.stores.clone(), second.0, third.0]
}

async fn roster(stores: &Stores, of: i64) -> Roster {
    stores.members.rosters(&[group(of)]).await.unwrap()[0]
}

async fn all(stores: &Stores, of: i64) -> Vec<Member> {
    stores.members.member_list(group(of), Role::Member, None, 1_000).await.unwrap()
}

async fn groups(stores: &Stores, of: i64) -> Vec<GroupId> {
    stores.members.memberships(user(of), None, 10).await.unwrap()
}

/// The members' ordinals are below the roster's, and none is used twice; returns the member with each.
async fn ordinals(stores: &Stores, of: i64) -> BTreeMap<UserId, u32> {
    let members = all(stores, of).await;
    let roster = roster(stores, of).await;
    assert_eq!(members.len(), roster.count as usize, "those who are there are those who were counted");
    let taken: BTreeSet<u32> = members.iter().map(|member| member.ordinal).collect();
    assert_eq!(taken.len(), members.len(), "none has the ordinal of another");
    assert!(taken.last().is_none_or(|last| *last < roster.ordinals));
    members.iter().map(|member| (member.key.user, member.ordinal)).collect()
}

/// Each of these has the group in its list if it is in it, and else not.
async fn agree(stores: &Stores, of: i64, users: impl Iterator<Item = i64>) {
    let members = ordinals(stores, of).await;
    for id in users {
        let expected = if members.contains_key(&user(id)) { vec![group(of)] } else { Vec::new() };
        assert_eq!(groups(stores, id).await, expected, "the groups of {id}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn concurrent_joins_respect_the_limit() {
    let stage = Stage::open().await;
    let nodes = three_nodes(&stage, 7).await;
    let terms = ChangeContext { members_max: 41, ..service() };
    let joins = (0..64).map(|at| {
        let join = MemberChange::Join(user(100 + at));
        nodes[usize::try_from(at).unwrap() % 3].members.change_members(group(7), join, terms, now())
    });
    let joined = join_all(joins).await;
    let refused =
        |answer: &&Result<_, StoreError>| matches!(answer, Err(StoreError::Member(MemberRefusal::Full)));
    assert_eq!(joined.iter().filter(|answer| answer.is_ok()).count(), 40, "{joined:?}");
    assert_eq!(joined.iter().filter(refused).count(), 24, "{joined:?}");
    let (roster, ordinals) = (roster(&nodes[1], 7).await, ordinals(&nodes[1], 7).await);
    assert_eq!((roster.count, roster.ordinals, roster.version.get()), (41, 41, 41));
    assert_eq!(ordinals.into_values().collect::<BTreeSet<_>>(), (0..41).collect());
    agree(&nodes[2], 7, 100..164).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn concurrent_join_and_leave_are_consistent() {
    let stage = Stage::open().await;
    let nodes = three_nodes(&stage, 7).await;
    let users = 100..116;
    change(&nodes[0], 7, MemberChange::Add(users.clone().map(user).collect())).await.unwrap();
    let before = ordinals(&nodes[0], 7).await;
    let full = std::env::var_os("KITH_FULL").is_some_and(|full| full == "1");
    for round in 0..ROUNDS[usize::from(full)] {
        let changes = users.clone().flat_map(|id| {
            let one = [
                MemberChange::Join(user(id)),
                MemberChange::Leave(user(id)),
                MemberChange::Remove(vec![user(id), user(id + 1)]),
            ];
            one.into_iter().zip(usize::try_from(id).unwrap() + round..).map(|(change, at)| (at, change))
        });
        let made = changes.map(|(at, one)| {
            let node = &nodes[at % 3];
            change(node, 7, one)
        });
        for made in join_all(made).await {
            let expected = matches!(made, Ok(_) | Err(StoreError::Member(MemberRefusal::NotAMember)));
            assert!(expected, "{made:?}");
        }
        agree(&nodes[0], 7, users.clone()).await;
    }
    change(&nodes[1], 7, MemberChange::Add(users.clone().map(user).collect())).await.unwrap();
    assert_eq!(ordinals(&nodes[2], 7).await, before, "a returning member keeps its ordinal");
    agree(&nodes[2], 7, users).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn largest_change_is_made_and_replayed() {
    let stage = Stage::open().await;
    let users: Vec<UserId> = (0..).map(|at| user(i64::MAX - 1_000 + at)).take(MEMBERS_AT_ONCE).collect();
    change(&stage.stores, 7, MemberChange::AddFounder(user(OWNER))).await.unwrap();
    change(&stage.stores, 7, MemberChange::Add(users.clone())).await.unwrap();
    let long = Member::remark(&"\u{20bb7}".repeat(64)).unwrap();
    let remarks =
        users.iter().map(|user| change(&stage.stores, 7, MemberChange::Remark(*user, long.clone())));
    for made in join_all(remarks).await {
        made.unwrap();
    }
    let remove = || {
        let remove = MemberChange::Remove(users.clone());
        stage.stores.members.change_members(group(7), remove, service(), with_request("largest"))
    };
    let first = remove().await.unwrap();
    assert_eq!((first.record.rows.len(), &first.record.rows[0].member.remark), (MEMBERS_AT_ONCE, &long));
    let again = remove().await.unwrap();
    assert!(again.replayed && !first.replayed);
    assert_eq!(again.record, first.record);
}

/// The first join fills the group, and the first leaving leaves nothing to be left: the repetition would be
/// refused by either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn own_effect_does_not_refuse_a_request() {
    let stage = Stage::open().await;
    let nodes = three_nodes(&stage, 7).await;
    let terms = ChangeContext { members_max: 2, ..service() };
    for round in 0..REPEATED {
        let changes = [("join", MemberChange::Join(user(100))), ("leave", MemberChange::Leave(user(100)))];
        for (id, one) in changes {
            let request = with_request(&format!("{id}-{round}"));
            let asked = nodes
                .iter()
                .map(|node| node.members.change_members(group(7), one.clone(), terms, request.clone()));
            let answers: Vec<_> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
            assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1, "{answers:?}");
            assert!(answers.iter().all(|answer| answer.record == answers[0].record), "{answers:?}");
        }
    }
    assert_eq!(roster(&nodes[1], 7).await.version.get(), 1 + 2 * i64::from(REPEATED));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn aborted_caller_does_not_stop_other_changes() {
    let stage = Stage::open().await;
    change(&stage.stores, 7, MemberChange::AddFounder(user(OWNER))).await.unwrap();
    let joins: Vec<_> = (100..140)
        .map(|id| {
            let stores = stage.stores.clone();
            tokio::spawn(async move { change(&stores, 7, MemberChange::Join(user(id))).await })
        })
        .collect();
    for gone in joins.iter().step_by(2) {
        gone.abort();
    }
    for stays in joins.into_iter().skip(1).step_by(2) {
        stays.await.unwrap().unwrap();
    }
    let members = ordinals(&stage.stores, 7).await;
    assert!((100..140).skip(1).step_by(2).all(|id| members.contains_key(&user(id))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn sweep_writes_group_lists_of_a_dead_node() {
    let stage = Stage::open().await;
    change(&stage.stores, 7, MemberChange::Add(vec![user(3)])).await.unwrap();
    let (dying, node) = stage.node(|cql| cql.fail_point = Some("members_written")).await;
    change(&dying, 7, MemberChange::Add(vec![user(2)])).await.unwrap_err();
    change(&dying, 7, MemberChange::Leave(user(3))).await.unwrap_err();
    drop((dying, node));
    let members: Vec<MemberKey> = all(&stage.stores, 7).await.into_iter().map(|member| member.key).collect();
    assert_eq!(members, [key(7, 2)], "both are written");
    assert!(groups(&stage.stores, 2).await.is_empty() && !groups(&stage.stores, 3).await.is_empty());
    let give_up = Instant::now() + BOUND;
    while groups(&stage.stores, 2).await.is_empty() || !groups(&stage.stores, 3).await.is_empty() {
        assert!(Instant::now() < give_up, "no node ends it");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    agree(&stage.stores, 7, 2..4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn cut_request_is_ended_by_its_repetition() {
    let stage = Stage::open().await;
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("members_written")).await;
    let add = || MemberChange::Add(vec![user(2)]);
    dying.members.change_members(group(7), add(), service(), with_request("again")).await.unwrap_err();
    let again =
        stage.stores.members.change_members(group(7), add(), service(), with_request("again")).await.unwrap();
    assert!(again.replayed);
    assert_eq!((again.record.roster.version, again.record.rows.len()), (Version::FIRST, 1));
    assert_eq!(groups(&stage.stores, 2).await, [group(7)], "before it was acknowledged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn member_and_roster_changes_are_fed() {
    let stage = Stage::open().await;
    let mut feeds = open(&stage.stores).await;
    let found = change(&stage.stores, 7, MemberChange::AddFounder(user(OWNER))).await.unwrap().record;
    let mut expected = BTreeMap::from([(FeedRecord::Member(key(7, OWNER)), found.roster.version)]);
    for id in 100..110 {
        let added = change(&stage.stores, 7, MemberChange::Add(vec![user(id), user(id + 50)])).await.unwrap();
        for row in added.record.rows {
            expected.insert(FeedRecord::Member(row.member.key), row.member.version);
        }
    }
    let left = change(&stage.stores, 7, MemberChange::Leave(user(105))).await.unwrap().record;
    expected.insert(FeedRecord::Member(key(7, 105)), left.roster.version);
    let muted = change(&stage.stores, 7, MemberChange::MuteAll(Some(Timestamp(9)))).await.unwrap().record;
    expected.insert(FeedRecord::Roster(group(7)), muted.roster.version);
    assert_delivered(&mut feeds, expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn feed_reports_group_changes_of_dead_node() {
    let stage = Stage::open().await;
    let mut feeds = open(&stage.stores).await;
    assert_delivered(&mut feeds, changes_of_dead_node(&stage).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn successor_feeds_the_change_of_a_dead_node() {
    let stage = Stage::open().await;
    let mut feeds = open(&stage.stores).await;
    let marks = marks(&mut feeds).await;
    drop(feeds);
    let expected = changes_of_dead_node(&stage).await;
    assert_delivered_within(AT_ONCE, &mut open_after(&stage.stores, &marks).await, expected).await;
}

/// Two members and a mute for all, by a node that dies after each change.
async fn changes_of_dead_node(stage: &Stage) -> BTreeMap<FeedRecord, Version> {
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("members_written")).await;
    change(&dying, 7, MemberChange::Add(vec![user(2), user(3)])).await.unwrap_err();
    change(&dying, 7, MemberChange::MuteAll(Some(Timestamp(9)))).await.unwrap_err();
    let (first, second) = (Version::FIRST, Version::FIRST.next());
    let members = [2, 3].map(|id| (FeedRecord::Member(key(7, id)), first));
    members.into_iter().chain([(FeedRecord::Roster(group(7)), second)]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn ring_of_changes_is_overwritten_in_order() {
    let stage = Stage::open().await;
    let stores = &stage.stores;
    change(stores, 7, MemberChange::AddFounder(user(OWNER))).await.unwrap();
    for from in (0..1_100).step_by(100) {
        let named = (from..from + 100).map(|at| {
            let remark = Member::remark(&at.to_string()).unwrap();
            change(stores, 7, MemberChange::Remark(user(OWNER), remark))
        });
        for made in join_all(named).await {
            made.unwrap();
        }
    }
    let last = roster(stores, 7).await.version;
    assert_eq!(last.get(), 1_101);
    let after = |version, id| kith_store::MemberChangeEvent {
        version: Version::new(version).unwrap(),
        user: user(id),
    };
    let changes = async |after, limit| stores.members.member_changes(group(7), after, limit).await.unwrap();
    assert_eq!(changes(after(100, OWNER), 5_000).await, None, "too many since");
    let found = changes(after(101, OWNER), 5_000).await.unwrap();
    let versions: Vec<i64> = found.iter().map(|changed| changed.version.get()).collect();
    assert_eq!(versions, (102..=1_101).collect::<Vec<_>>());
    assert_eq!(changes(after(1_000, OWNER), 30).await.unwrap(), found[899..929]);
    assert_eq!(changes(after(1_102, OWNER), 30).await, None, "it never was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn group_ends_in_steps_with_its_lists() {
    let stage = Stage::open().await;
    let stores = &stage.stores;
    change(stores, 7, MemberChange::AddFounder(user(OWNER))).await.unwrap();
    for from in [100, 200, 300] {
        change(stores, 7, MemberChange::Add((from..from + 100).map(user).collect())).await.unwrap();
    }
    assert_eq!(stores.members.end_members(group(7), 250, Timestamp::now()).await.unwrap(), 51);
    agree(stores, 7, 100..400).await;
    assert_eq!(stores.members.end_members(group(7), 250, Timestamp::now()).await.unwrap(), 0);
    agree(stores, 7, 100..400).await;
    let Roster { count, ordinals, owner, .. } = roster(stores, 7).await;
    assert_eq!((count, ordinals, owner), (0, 301, None));
    assert!(groups(stores, OWNER).await.is_empty());
    assert!(stores.members.member_list(group(7), Role::Admin, None, 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn ban_by_a_node_that_dies_is_found_by_its_user() {
    let stage = Stage::open().await;
    let members = &stage.stores.members;
    let (dying, _node) = stage.node(|cql| cql.fail_point = Some("members_written")).await;
    change(&dying, 7, MemberChange::Ban(vec![user(2)], None)).await.unwrap_err();
    let ban = members.ban(key(7, 2), Timestamp::now()).await.unwrap();
    assert!(ban.is_some(), "it is written");
    assert_eq!(members.banned_from(user(2), None, 10).await.unwrap(), [group(7)]);
    change(&dying, 7, MemberChange::Unban(vec![user(2)])).await.unwrap_err();
    assert_eq!(members.ban(key(7, 2), Timestamp::now()).await.unwrap(), None);
    change(&stage.stores, 7, MemberChange::Ban(vec![user(2)], None)).await.unwrap();
    assert_eq!(members.banned_from(user(2), None, 10).await.unwrap(), [group(7)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Cassandra: run cargo xtask test"]
async fn acknowledged_ban_is_seen_by_every_node() {
    let stage = Stage::open().await;
    let nodes = three_nodes(&stage, 7).await;
    for round in 0..12 {
        let (id, at) = (100 + round, usize::try_from(round).unwrap());
        let joins = (0..3).map(|node| change(&nodes[node], 7, MemberChange::Join(user(id))));
        let ban = async {
            change(&nodes[at % 3], 7, MemberChange::Ban(vec![user(id)], None)).await.unwrap();
            change(&nodes[(at + 1) % 3], 7, MemberChange::Join(user(id))).await
        };
        let (joined, refused) = tokio::join!(join_all(joins), ban);
        let is_banned =
            |answer: &Result<_, StoreError>| matches!(answer, Err(StoreError::Member(MemberRefusal::Banned)));
        assert!(is_banned(&refused), "{refused:?}");
        assert!(joined.iter().all(|answer| answer.is_ok() || is_banned(answer)), "{joined:?}");
    }
    assert_eq!(all(&stage.stores, 7).await.len(), 1, "the owner");
}
