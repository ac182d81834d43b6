//! Answers are bounded by bytes: a client with the default 4 MiB limit reads every list, batch and export.

use std::collections::BTreeMap;

use crate::contract;
use crate::node::{TestNode, all_pages, assert_exhausted, params};
use futures::{StreamExt as _, stream};
use kith_proto::{
    group::v1::{self as groups, group_result},
    presence::v1::{BatchGetPresenceRequest, OpenSessionRequest},
    user::v1::{self as users, user_result},
};
use kith_service::rpc::answer_size::{ANSWER_BYTES, STREAM_MESSAGE_BYTES};
use prost::Message;
use prost_reflect::{Kind, MessageDescriptor, MethodDescriptor};
use tonic::{Code, Streaming};

/// The number of records, with 60,000 bytes each: two answers, and several stream messages.
const RECORDS: usize = 70;
const LARGE: usize = 60_000;
/// The bytes for the tokens in an answer.
const TOKENS: usize = 200;

fn large_user(number: usize) -> users::User {
    users::User {
        user_name: format!("user{number}"),
        email: "same@example.org".to_owned(),
        params: params([("text", &"x".repeat(LARGE))]),
        ..Default::default()
    }
}

fn large_group(number: usize) -> groups::Group {
    groups::Group {
        name: format!("group{number}"),
        tags: vec!["chess".to_owned()],
        visibility: groups::Visibility::Public.into(),
        params: params([("text", &"x".repeat(LARGE))]),
        ..Default::default()
    }
}

/// Starts a node with large users. Returns their ids in rising order.
async fn with_users() -> (TestNode, Vec<i64>) {
    let node = TestNode::start().await;
    let create = async |number| {
        let request = users::CreateUserRequest { user: Some(large_user(number)), ..Default::default() };
        node.users().create_user(request).await.unwrap().into_inner().user.unwrap().user_id
    };
    let mut ids: Vec<i64> = stream::iter(0..RECORDS).map(create).buffered(8).collect().await;
    ids.sort_unstable();
    (node, ids)
}

/// Starts a node with public groups of that size.
async fn with_groups() -> (TestNode, Vec<i64>) {
    let node = TestNode::start().await;
    let create = async |number| node.group(large_group(number)).await.group_id;
    let mut ids: Vec<i64> = stream::iter(0..RECORDS).map(create).buffered(8).collect().await;
    ids.sort_unstable();
    (node, ids)
}

#[tokio::test]
async fn large_users_are_answered_in_parts() {
    let (node, ids) = with_users().await;
    let exported = node.users().export_users(users::ExportUsersRequest::default()).await.unwrap();
    let ids_of = |users: &[users::User]| users.iter().map(|user| user.user_id).collect::<Vec<_>>();
    assert_exported(exported.into_inner(), |message| ids_of(&message.users), &ids).await;
    batch_users(&node, ids.clone()).await;
    let search = async |page_token| {
        let keyword = "same@example.org".to_owned();
        let request =
            users::SearchUsersRequest { keyword, page_size: 1000, page_token, ..Default::default() };
        node.users().search_users(request).await.unwrap().into_inner()
    };
    assert_paged(search, |page| (ids_of(&page.users), page.next_page_token.clone()), &ids).await;
}

/// Checks that a stream's messages are bounded, and have just these ids.
async fn assert_exported<M: Message>(mut stream: Streaming<M>, ids_of: impl Fn(&M) -> Vec<i64>, ids: &[i64]) {
    let mut exported = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        assert!(message.encoded_len() <= STREAM_MESSAGE_BYTES);
        exported.extend(ids_of(&message));
    }
    assert_eq!(exported, ids);
}

/// Checks that two bounded pages have just these ids. `page` returns ids and the next page's token.
async fn assert_paged<M: Message>(
    mut page: impl AsyncFnMut(String) -> M,
    read: impl Fn(&M) -> (Vec<i64>, String),
    ids: &[i64],
) {
    let mut pages = 0;
    let found = all_pages(async |page_token| {
        let page = page(page_token).await;
        assert!(page.encoded_len() <= ANSWER_BYTES + TOKENS);
        pages += 1;
        Ok(read(&page))
    });
    assert_eq!((found.await.unwrap(), pages), (ids.to_vec(), 2));
}

#[tokio::test]
async fn large_groups_are_answered_in_parts() {
    let (node, ids) = with_groups().await;
    let exported = node.groups().export_groups(groups::ExportGroupsRequest::default()).await.unwrap();
    let ids_of = |groups: &[groups::Group]| groups.iter().map(|group| group.group_id).collect::<Vec<_>>();
    assert_exported(exported.into_inner(), |message| ids_of(&message.groups), &ids).await;
    batch_groups(&node, ids.clone()).await;
    let search = async |page_token| {
        let keyword = "chess".to_owned();
        let request =
            groups::SearchGroupsRequest { keyword, page_size: 1000, page_token, ..Default::default() };
        node.groups().search_groups(request).await.unwrap().into_inner()
    };
    assert_paged(search, |page| (ids_of(&page.groups), page.next_page_token.clone()), &ids).await;
}

async fn batch_users(node: &TestNode, ids: Vec<i64>) {
    let (mut wanted, mut rounds, mut read) = (ids.clone(), 0, Vec::new());
    while !wanted.is_empty() {
        let request = users::BatchGetUsersRequest { user_ids: wanted.clone(), consistency: None };
        let results = node.users().batch_get_users(request).await.unwrap().into_inner().results;
        assert_eq!(results.iter().map(|result| result.user_id).collect::<Vec<_>>(), wanted);
        wanted.clear();
        for result in results {
            match result.result.unwrap() {
                user_result::Result::User(user) => read.push(user.user_id),
                user_result::Result::Error(error) => {
                    let code = Code::from(error.code);
                    assert_eq!((code, &*error.reason), (Code::ResourceExhausted, "ANSWER_TOO_LARGE"));
                    wanted.push(result.user_id);
                }
                user_result::Result::NotFound(_) => panic!("user {} exists", result.user_id),
            }
        }
        rounds += 1;
    }
    assert_eq!((read, rounds), (ids, 2));
}

async fn batch_groups(node: &TestNode, ids: Vec<i64>) {
    let request = groups::BatchGetGroupsRequest { group_ids: ids.clone(), consistency: None };
    let results = node.groups().batch_get_groups(request).await.unwrap().into_inner().results;
    let is_there =
        |result: &&groups::GroupResult| matches!(result.result, Some(group_result::Result::Group(_)));
    let read = results.iter().take_while(is_there).count();
    assert_eq!(read, ANSWER_BYTES / (LARGE + 200), "groups of {LARGE} bytes and a little");
    for left_out in &results[read..] {
        let Some(group_result::Result::Error(error)) = &left_out.result else { panic!("{left_out:?}") };
        assert_eq!(error.reason, "ANSWER_TOO_LARGE");
    }
}

#[tokio::test]
async fn answer_without_pages_is_refused_as_a_whole() {
    const SESSIONS: usize = 40;
    let node = TestNode::start_with(|config| config.presence.sessions_max = 64).await;
    let user_id = node.user("ann").await.user_id;
    let long = |kind: &str, number: usize| format!("{kind}{number:062}");
    let mut gateway_token = String::new();
    for number in 0..SESSIONS {
        let (device_id, gateway_id) = (long("de", number), long("ga", 0));
        let request = OpenSessionRequest { user_id, device_id, gateway_id, gateway_token };
        gateway_token = node.presence().open_session(request).await.unwrap().into_inner().gateway_token;
    }
    let request = BatchGetPresenceRequest { user_ids: vec![user_id; 1000] };
    assert_exhausted(node.presence().batch_get_presence(request).await, "ANSWER_TOO_LARGE");
    node.assert_healthy().await;
}

/// How an answer with several records is bounded.
#[derive(Clone, Copy)]
enum Bound {
    /// Bounded by bytes, for any records: pages end, batches answer with errors, streams send another
    /// message.
    Bytes,
    /// Bounded by how many records there are and by each record's size.
    Records(usize, usize),
    /// Bounded by bytes as a whole: if limits are raised above the defaults, the call is refused.
    Refused(usize, usize),
}

/// The bytes that this many 4-byte characters take.
const fn chars(number: usize) -> usize {
    4 * number
}

/// The bytes that a record's error takes.
const ERROR: usize = 400;
/// The bytes that a kind of reactions takes with its count.
const KIND: usize = 48;
/// The bytes that a record's numbers and times take.
const NUMBERS: usize = 150;

/// Returns every method whose answer has a list, with the default configuration.
fn bounds() -> BTreeMap<&'static str, Bound> {
    use Bound::{Bytes, Records, Refused};
    let id = 11;
    let member = chars(64) + NUMBERS;
    let relation = chars(64) + 2 * NUMBERS;
    let application = chars(200) + chars(64) + 2 * NUMBERS;
    let session = 2 * 66 + 16;
    let error = ERROR;
    let mut bounds = bounds_of_messages();
    bounds.extend([
        ("BatchGetUsers", Bytes),
        ("SearchUsers", Bytes),
        ("ExportUsers", Bytes),
        ("ImportUsers", Records(500, error)),
        ("BatchGetGroups", Bytes),
        ("SearchGroups", Bytes),
        ("ExportGroups", Bytes),
        ("ImportGroups", Records(500, error)),
        // These methods return one record, like GetUser.
        ("CreateGroup", Bytes),
        ("GetGroup", Bytes),
        ("UpdateGroup", Bytes),
        ("AddMembers", Records(100, member)),
        ("RemoveMembers", Records(100, id)),
        ("UnbanMembers", Records(100, id)),
        ("ListBans", Records(1000, NUMBERS)),
        ("BatchIsMember", Records(1000, error)),
        ("ListMembers", Records(1000, member)),
        ("ImportMembers", Records(500, error)),
        ("ExportMembers", Records(1000, member + 16 * 24)),
        ("ListMemberships", Records(1000, id)),
        ("ListCommonGroups", Records(1000, id)),
        ("SyncMembers", Records(1000, member + id)),
        ("BatchGetRelations", Records(1000, relation + error)),
        ("ListFollowing", Records(1000, NUMBERS)),
        ("ListFans", Records(1000, NUMBERS)),
        ("ListFriends", Records(1000, id)),
        ("ListBlocks", Records(1000, relation)),
        ("ListDoNotDisturb", Records(1000, relation)),
        ("ListCommonFollowing", Records(1000, id)),
        ("ListFansIFollow", Records(1000, id)),
        ("ListFriendsInGroup", Records(1000, id)),
        ("ImportFollows", Records(500, error)),
        ("ImportSettings", Records(500, error)),
        ("ExportSettings", Records(1000, relation)),
        ("ListApplications", Bytes),
        ("ListRelationLog", Records(1000, NUMBERS)),
        ("MarkReceived", Records(100, application)),
        ("MarkRead", Records(100, application)),
        ("Heartbeat", Records(1000, 80)),
        ("GetPresence", Refused(20, session)),
        ("BatchGetPresence", Refused(1000 * 20, session)),
        ("WatchPresence", Refused(20, session)),
        ("ListGateways", Records(1000, 90)),
        ("ListActiveGateways", Refused(10_000, 80)),
        ("ListActiveMembers", Bytes),
        // Methods for operators are bounded by the number of nodes, namespaces and methods.
        ("GetNode", Records(100, 100)),
        ("ListNodes", Records(1000, 500)),
        ("InspectKey", Records(1000, 500)),
        ("FlushMemory", Records(1000, 500)),
        ("GetCacheStats", Records(100, 1000)),
        ("Resync", Records(100, 1000)),
        ("WatchNode", Records(200, 1000)),
        ("VerifyEdges", Records(1000, 40)),
        ("RepairEdges", Records(1000, 40)),
    ]);
    bounds
}

fn bounds_of_messages() -> BTreeMap<&'static str, Bound> {
    use Bound::{Bytes, Records};
    BTreeMap::from([
        ("PullMessages", Bytes),
        ("PullBySeqs", Bytes),
        ("History", Bytes),
        ("BatchSend", Records(100, ERROR)),
        ("GetMaxSeqs", Records(1000, ERROR)),
        // It returns one record, like GetUser.
        ("RecallMessage", Bytes),
        ("EditMessage", Bytes),
        // At most 64 kinds of a message, and 20 of a user.
        ("React", Records(64, KIND)),
        ("Unreact", Records(64, KIND)),
        ("BatchGetReactions", Records(100, 64 * KIND + 20 * KIND)),
        ("ListReactions", Bytes),
        ("CreateConversation", Bytes),
        ("GetConversation", Bytes),
        ("ListConversations", Bytes),
        ("CountUnread", Records(2000, 60)),
        ("GetReadSeqs", Bytes),
        ("ImportMessages", Records(500, ERROR)),
        ("ImportDialogs", Records(500, ERROR)),
        ("ExportDialogs", Bytes),
        // Receipts: bits and ordinal lists are bounded by the ordinals that a call computes.
        ("GetReceipt", Bytes),
        ("BatchGetReceipts", Bytes),
        ("ListReaders", Records(1000, NUMBERS)),
        ("ListUnread", Records(1000, NUMBERS)),
        ("ListLeft", Records(1000, NUMBERS)),
        ("ListOrdinals", Records(1000, NUMBERS)),
        // Sequences: a range is two numbers, and has at least one number.
        ("ReserveSeqs", Records(1000, NUMBERS)),
        // Changes: a position, and at most four numbers and a conversation.
        ("ReadChanges", Records(1000, 300)),
        // Notices: a record has at most 64 KiB of body and 64 KiB of parameters.
        ("PublishNotice", Bytes),
        ("UpdateNotice", Bytes),
        ("GetNotice", Bytes),
        ("ListNotices", Bytes),
        ("MarkUnread", Records(1000, 11)),
        ("GetReadState", Records(1000, 20)),
        ("CountReaders", Records(100, 40)),
        ("ListReaders", Records(1000, 11)),
        // An answer has a page of messages and everything that fits before it.
        ("Receive", Bytes),
        ("WatchOffline", Bytes),
    ])
}

/// Returns whether a message has a list, itself or nested.
fn has_list(message: &MessageDescriptor) -> bool {
    message.fields().any(|field| {
        let within = matches!(field.kind(), Kind::Message(inner) if inner.package_name().starts_with("kith") && has_list(&inner));
        (field.is_list() && !field.is_map()) || within
    })
}

#[test]
fn every_list_in_an_answer_has_a_bound_in_bytes() {
    let methods = contract::methods();
    let lists = methods.iter().filter(|method| has_list(&method.output()));
    let mut lists: Vec<&str> = lists.map(MethodDescriptor::name).collect();
    lists.sort_unstable();
    // Two services have a GetMaxSeqs; the table has the larger answer.
    lists.dedup();
    let bounds = bounds();
    assert_eq!(
        lists,
        bounds.keys().copied().collect::<Vec<_>>(),
        "methods whose answer has a list, and those of the table"
    );
    for (name, bound) in bounds {
        if let Bound::Records(most, bytes) | Bound::Refused(most, bytes) = bound {
            assert!(most * bytes <= ANSWER_BYTES, "{name}: {most} records of {bytes} bytes");
        }
    }
}
