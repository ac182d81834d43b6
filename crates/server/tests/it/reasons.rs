//! A caller can get every error reason, with its code, the next step, and a link that leads to its entry.

use crate::{
    broken_store,
    change_calls::keeping,
    dialog_calls,
    edge::raw::{self, GET_USER},
    group_calls, http, message_calls, message_streams,
    node::{TestNode, params, principal, until},
    notice_calls,
    secured_node::{self, SecuredNode},
    signing::Signer,
};
use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use kith_proto::{
    application::v1 as applications,
    change::v1::{GetCursorRequest, ReadChangesRequest, change_service_client::ChangeServiceClient},
    group::v1 as groups,
    member::v1::{JoinRequest, RemoveMembersRequest},
    message::v1::{MarkReadRequest, send_message_request::To},
    notice::v1 as notices,
    presence::v1::OpenSessionRequest,
    user::v1::*,
};
use kith_server::{
    auth::{Rights, Scope},
    config::{Backend, Config, Secret},
    edge::{Edge, Routes},
};
use kith_service::error::{Reason, Retry};
use kith_store::{Outcome, StoreError};
use prost::Message;
use tonic::{Request, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt as _;

/// The number of ids in a batch.
const LARGE_BATCH: usize = 40_000;

/// An error, and the place where it occurred.
type FoundError = (&'static str, Status);

fn named(name: &str) -> CreateUserRequest {
    let user = User { user_name: name.into(), ..Default::default() };
    CreateUserRequest { user: Some(user), ..Default::default() }
}

fn with_id(user_id: i64, name: &str) -> CreateUserRequest {
    let user = User { user_id, user_name: name.into(), ..Default::default() };
    CreateUserRequest { user: Some(user), ..Default::default() }
}

/// Makes a group without an invite code.
fn open_group() -> groups::Group {
    let visibility = groups::Visibility::Public.into();
    groups::Group { name: "open".into(), visibility, ..Default::default() }
}

fn get(user_id: i64) -> GetUserRequest {
    GetUserRequest { user_id, consistency: None }
}

/// Makes a call that no contract client makes.
async fn raw(node: &TestNode, path: &str, headers: &[(&str, &str)], message: &impl Message) -> Status {
    let body = raw::framed(&message.encode_to_vec());
    raw::call(node.address, path, headers, body).await.unwrap().status().clone()
}

async fn of_the_message(node: &TestNode) -> Vec<FoundError> {
    let mut users = node.users();
    let mut large = named("large");
    large.user.as_mut().unwrap().params = params([("note", &"x".repeat(300 << 10))]);
    let mut by_nobody = Request::new(get(1));
    by_nobody.metadata_mut().insert("kith-acting-user", "ann".parse().unwrap());
    vec![
        ("an id of 0", users.get_user(get(0)).await.unwrap_err()),
        ("an acting user that is no number", users.get_user(by_nobody).await.unwrap_err()),
        ("another message", raw(node, GET_USER, &[], &named("a user where that message has its id")).await),
        ("a large message", users.create_user(large).await.unwrap_err()),
        ("a large answer", large_answer(node).await),
        ("brotli", raw(node, GET_USER, &[("grpc-encoding", "br")], &get(1)).await),
        ("no method", raw(node, "/kith.user.v1.UserService/Greet", &[], &get(1)).await),
        ("no service", raw(node, "/kith.greet.v1.Greeter/Greet", &[], &get(1)).await),
        ("no service to be well", health_of(node, "kith.greet.v1.Greeter").await),
    ]
}

/// Reads one user so often that not even the errors for records that do not fit have room.
async fn large_answer(node: &TestNode) -> Status {
    let mut large = named("large");
    large.user.as_mut().unwrap().params = params([("note", &"x".repeat(60_000))]);
    let user = node.users().create_user(large).await.unwrap().into_inner().user.unwrap();
    let request = BatchGetUsersRequest { user_ids: vec![user.user_id; LARGE_BATCH], consistency: None };
    node.users().batch_get_users(request).await.unwrap_err()
}

/// Returns the errors that only HTTP callers see.
async fn of_http(node: &TestNode) -> Vec<FoundError> {
    let text = [("content-type", "text/plain")];
    let page = [("origin", "https://other.example")];
    vec![
        ("a page", raw(node, GET_USER, &page, &get(1)).await),
        ("a GET", http::send(node.address, "GET", GET_USER, &[], "").await.status()),
        ("a text", http::send(node.address, "POST", GET_USER, &text, "{}").await.status()),
    ]
}

async fn health_of(node: &TestNode, service: &str) -> Status {
    let request = HealthCheckRequest { service: service.to_owned() };
    HealthClient::new(node.channel.clone()).check(request).await.unwrap_err()
}

async fn of_the_record(node: &TestNode) -> Vec<FoundError> {
    let mut users = node.users();
    let ann = node.user("ann").await;
    let group = node.group(open_group()).await;
    let once = |name: &str| CreateUserRequest { request_id: "once".into(), ..named(name) };
    users.create_user(once("bob")).await.unwrap();
    let deleted = DeleteUserRequest { user_id: ann.user_id, expected_version: 9, ..Default::default() };
    let code = groups::GetInviteCodeRequest { group_id: group.group_id };
    vec![
        ("another body", users.create_user(once("cid")).await.unwrap_err()),
        ("nobody", users.get_user(get(5)).await.unwrap_err()),
        ("an id in use", users.create_user(with_id(ann.user_id, "dan")).await.unwrap_err()),
        ("a name in use", users.create_user(named("ANN")).await.unwrap_err()),
        ("another version", users.delete_user(deleted.clone()).await.unwrap_err()),
        ("no code to get", node.groups().get_invite_code(code).await.unwrap_err()),
        ("a banned user", banned(node, ann.user_id).await),
        ("a muted member", muted(node, ann.user_id).await),
        ("a message that does not exist", marked(node, ann.user_id, dialog_calls::to_mark("g1", 1)).await),
        ("a mark of many ranges", mark_with_gaps(node, ann.user_id).await),
        ("another user", users.delete_user(principal(ann.user_id + 1, deleted)).await.unwrap_err()),
        ("guessing", guessed(node, ann.user_id).await),
        ("one device too many", connected(node, ann.user_id).await),
        ("applying", crowded(node, ann.user_id).await),
        ("receiving", received_twice(node, ann.user_id).await),
        ("a second audience", announced_to_another(node).await),
        ("a second reader", registered_twice(node).await),
    ]
}

async fn banned(node: &TestNode, user_id: i64) -> Status {
    let group_id = node.group(open_group()).await.group_id;
    let ban = RemoveMembersRequest { group_id, user_ids: vec![user_id], ban: true, ..Default::default() };
    node.members().remove_members(ban).await.unwrap();
    let join = JoinRequest { group_id, user_id, ..Default::default() };
    node.members().join(join).await.unwrap_err()
}

async fn muted(node: &TestNode, user_id: i64) -> Status {
    let group_id = node.group(open_group()).await.group_id;
    group_calls::add(node, group_id, &[user_id]).await;
    group_calls::mute(node, group_id, user_id, Some(4_000_000_000)).await;
    let message = message_calls::text(To::GroupId(group_id), "hi");
    message_calls::send(node, user_id, message).await.unwrap_err()
}

/// Sends a mark that is refused, in the user's group without messages.
async fn marked(node: &TestNode, user_id: i64, request: MarkReadRequest) -> Status {
    let group_id = group_calls::chat(node, user_id, &[]).await;
    let request = MarkReadRequest { conversation_id: format!("g{group_id}"), ..request };
    dialog_calls::mark(node, user_id, request).await.unwrap_err()
}

/// Makes more unread ranges than a dialog may have, with 100 in each mark.
async fn mark_with_gaps(node: &TestNode, user_id: i64) -> Status {
    let group_id = group_calls::chat(node, user_id, &[]).await;
    let id = format!("g{group_id}");
    message_calls::fill(node, &id, 600).await;
    for first in [2, 202, 402] {
        let ranges: Vec<(i64, i64)> = (0..100).map(|at| (first + 2 * at, first + 2 * at)).collect();
        if let Err(refused) =
            dialog_calls::mark(node, user_id, dialog_calls::to_mark_ranges(&id, &ranges)).await
        {
            return refused;
        }
    }
    unreachable!("256 ranges may be unread")
}

/// Connects two devices although a user may have only one device.
async fn connected(node: &TestNode, user_id: i64) -> Status {
    let of = |device: &str| OpenSessionRequest {
        user_id,
        device_id: device.to_owned(),
        gateway_id: "gw".to_owned(),
        ..Default::default()
    };
    let first = node.presence().open_session(of("phone")).await.unwrap().into_inner();
    let second = OpenSessionRequest { gateway_token: first.gateway_token, ..of("tablet") };
    node.presence().open_session(second).await.unwrap_err()
}

/// Makes two tries although one try a minute is allowed.
async fn guessed(node: &TestNode, user_id: i64) -> Status {
    let guess = VerifySecretRequest { user_id, name: "pwd".into(), secret: "guess".into() };
    node.users().verify_secret(guess.clone()).await.unwrap();
    node.users().verify_secret(guess).await.unwrap_err()
}

/// Makes two applications although one application may be pending.
async fn crowded(node: &TestNode, user_id: i64) -> Status {
    let kind = applications::Kind::Friend.into();
    for name in ["eve", "fay"] {
        let applicant_id = node.user(name).await.user_id;
        let request = applications::ApplyRequest { kind, applicant_id, user_id, ..Default::default() };
        if let Err(refused) = node.applications().apply(request).await {
            return refused;
        }
    }
    unreachable!("one may be pending")
}

/// Opens two streams although one stream may be open.
async fn received_twice(node: &TestNode, user_id: i64) -> Status {
    let _first = message_streams::live(node, user_id).await;
    message_streams::open(node, user_id, message_streams::now()).await.err().unwrap()
}

/// Uses two audiences although there may be one audience.
async fn announced_to_another(node: &TestNode) -> Status {
    notice_calls::audience(node, 1, false).await;
    let audience = notices::Audience { audience_id: 2, name: "b".into(), ..Default::default() };
    let request = notices::RegisterAudienceRequest { audience: Some(audience), ..Default::default() };
    node.notices().register_audience(request).await.unwrap_err()
}

/// Registers two readers although an audience may have one reader.
async fn registered_twice(node: &TestNode) -> Status {
    let reader = |reader_id| notices::Reader { reader_id, since: None };
    let request = notices::RegisterReadersRequest { audience_id: 1, readers: [1, 2].map(reader).to_vec() };
    node.notices().register_readers(request).await.unwrap_err()
}

/// Returns the errors from a store that fails, and from a store that misses the deadline.
async fn of_the_store() -> Vec<FoundError> {
    let source = broken_store::driver;
    let (outcome, unknown) = (Outcome::NotApplied, Outcome::Unknown);
    let faults = [
        ("a full store", Some(StoreError::Full { source: source() })),
        ("a store away", Some(StoreError::Unavailable { outcome: unknown, source: source() })),
        ("no store", Some(StoreError::NotConfigured { setting: "store.cql.contact_points" })),
        ("a busy store", Some(StoreError::Overloaded)),
        ("a store that fails", Some(StoreError::Internal { outcome, source: source() })),
        ("a damaged store", Some(StoreError::Corrupt { source: source() })),
        ("a silent store", None),
    ];
    let mut got = Vec::new();
    for (fault, error) in faults {
        let mut config = Config::default();
        config.limits.deadline_default = Duration::from_millis(50);
        let (mut users, _file) = broken_store::node(error, &config).await;
        got.push((fault, users.create_user(with_id(7, "ann")).await.unwrap_err()));
    }
    got
}

/// Starts a node that waits for a MongoDB that does not exist.
async fn of_the_start() -> Vec<FoundError> {
    let uri = "mongodb://127.0.0.1:1/?replicaSet=none&directConnection=false";
    let node = TestNode::start_with(|config| {
        config.store.backend = Backend::Cluster;
        config.store.mongodb.uri = Some(Secret::new(uri.to_owned()));
    })
    .await;
    let refused = node.users().get_user(get(1)).await.unwrap_err();
    node.stop().await;
    vec![("a node that starts", refused)]
}

/// Starts a node that serves callers with keys.
async fn of_the_caller() -> Vec<FoundError> {
    let callers = [
        ("for-users".to_owned(), Rights::of(&[Scope::UserRead, Scope::Act])),
        ("for-itself".to_owned(), Rights::of(&[Scope::UserRead, Scope::UserOwn])),
    ];
    let signer = Signer::new(1);
    let one_call = |config: &mut Config| config.limits.user_calls_per_second = 1;
    let node = SecuredNode::start_with(callers, signer.tokens(), one_call).await;
    let mut users = user_service_client::UserServiceClient::new(node.channel.clone());
    let delete = DeleteUserRequest { user_id: 7, ..Default::default() };
    vec![
        ("no key", users.get_user(get(7)).await.unwrap_err()),
        ("an unknown key", users.get_user(secured_node::by("unknown", get(7))).await.unwrap_err()),
        ("a key that reads", users.delete_user(secured_node::by("for-itself", delete)).await.unwrap_err()),
        ("a key for users", users.get_user(secured_node::by("for-users", get(7))).await.unwrap_err()),
        ("a suspended user", suspended(&mut users, &signer.token(8)).await),
        ("too many calls of a user", too_many_calls(&mut users, &signer.token(7)).await),
        (
            "a key for no user",
            users.get_user(secured_node::acting("for-itself", 7, get(7))).await.unwrap_err(),
        ),
    ]
}

async fn suspended(
    users: &mut user_service_client::UserServiceClient<tonic::transport::Channel>,
    token: &str,
) -> Status {
    let all = secured_node::ALL;
    users.create_user(secured_node::by(all, with_id(8, "bob"))).await.unwrap();
    let suspend = SuspendUserRequest { user_id: 8, ..Default::default() };
    users.suspend_user(secured_node::by(all, suspend)).await.unwrap();
    users.get_user(secured_node::by_token(token, get(8))).await.unwrap_err()
}

async fn too_many_calls(
    users: &mut user_service_client::UserServiceClient<tonic::transport::Channel>,
    token: &str,
) -> Status {
    for _ in 0..100 {
        match users.get_user(secured_node::by_token(token, get(7))).await {
            Err(status) if status.code() == tonic::Code::ResourceExhausted => return status,
            Ok(_) | Err(_) => {}
        }
    }
    panic!("a hundred calls within a second are refused")
}

/// The node may know of the other generation 100 ms later.
async fn of_an_expired_cursor() -> Vec<FoundError> {
    let node = SecuredNode::start_with([], Signer::new(1).tokens(), keeping).await;
    let mut client = ChangeServiceClient::new(node.channel.clone());
    let cursor = client.get_cursor(secured_node::by(secured_node::ALL, GetCursorRequest {})).await;
    let cursor = cursor.unwrap().into_inner().cursor;
    node.stores().changes.begin_generation(true).await.unwrap();
    let mut found = None;
    until(async || {
        let read = ReadChangesRequest { cursor: cursor.clone(), ..Default::default() };
        found = client.read_changes(secured_node::by(secured_node::ALL, read)).await.err();
        found.is_some()
    })
    .await;
    vec![("a cursor of another generation", found.unwrap())]
}

async fn of_the_stop(node: TestNode) -> Vec<FoundError> {
    let request = HealthCheckRequest::default();
    let mut watch = HealthClient::new(node.channel.clone()).watch(request).await.unwrap().into_inner();
    watch.message().await.unwrap();
    let ended = tokio::spawn(async move {
        loop {
            if let Err(status) = watch.message().await {
                return status;
            }
        }
    });
    node.stop().await;
    vec![("a node that stops", ended.await.unwrap())]
}

#[tokio::test]
async fn every_reason_can_be_got_and_says_what_to_do() {
    let node = TestNode::start_with(|config| {
        config.users.verify_tries_per_minute = 1;
        config.limits.batch_ids = LARGE_BATCH;
        config.presence.sessions_max = 1;
        config.messages.receivers_of_user = 1;
        config.applications.pending_max = 1;
        (config.notices.audiences_max, config.notices.readers_max) = (1, 1);
    })
    .await;
    let mut got = of_the_message(&node).await;
    got.extend(of_http(&node).await);
    got.extend(of_the_record(&node).await);
    got.extend(of_the_store().await);
    got.extend(of_the_start().await);
    got.extend(of_the_caller().await);
    got.extend(of_an_expired_cursor().await);
    got.extend(of_the_stop(node).await);
    let reasons: BTreeSet<_> = got.iter().map(|(what, status)| checked_reason(what, status)).collect();
    let missing: Vec<_> = Reason::ALL.iter().filter(|reason| !reasons.contains(reason)).collect();
    assert!(missing.is_empty(), "no call of this test got {missing:?}");
}

/// Returns the reason that an error names. Checks that everything else in it matches the reason's table
/// entry.
fn checked_reason(what: &str, status: &Status) -> Reason {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("{what}: no reason in {status:?}"));
    let reason = Reason::find(&info.reason).unwrap_or_else(|| panic!("{what}: {status:?}"));
    assert_eq!((info.domain.as_str(), status.code()), ("kith", reason.code()), "{what}");
    let wait = match reason.entry().retry {
        Retry::After(time) => Some(time),
        Retry::Never | Retry::AfterReading | Retry::WithMoreTime => None,
    };
    assert_eq!(details.retry_info().and_then(|info| info.retry_delay), wait, "{what}");
    let link = &details.help().unwrap_or_else(|| panic!("{what}: no link in {status:?}")).links[0];
    assert_eq!(link.description, format!("kith errors {}", reason.name()), "{what}");
    assert!(leads_somewhere(&link.url), "{what}: {}", link.url);
    let bytes = String::from_utf8_lossy(status.details()).into_owned() + status.message();
    for secret in ["hunter2", "db.example", "SELECT"] {
        assert!(!bytes.contains(secret), "{what}: {bytes}");
    }
    reason
}

/// Returns whether the file exists, with a heading that the anchor names.
fn leads_somewhere(url: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let (file, anchor) = url.split_once('#').unwrap();
    let text = fs::read_to_string(root.join(file)).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("## ")).any(|heading| heading.to_lowercase() == anchor)
}

#[test]
fn a_link_that_leads_nowhere_is_noticed() {
    assert!(leads_somewhere("docs/reference/errors.md#name_taken"));
    assert!(!leads_somewhere("docs/reference/errors.md#name_gone"));
    assert!(!leads_somewhere("docs/reference/mistakes.md#name_taken"));
}

#[tokio::test]
async fn refused_encoding_names_the_accepted_ones() {
    let node = TestNode::start().await;
    let status = raw(&node, GET_USER, &[("grpc-encoding", "br")], &get(1)).await;
    let accepted = status.metadata().get("grpc-accept-encoding").unwrap().to_str().unwrap();
    for encoding in ["identity", "gzip", "zstd"] {
        assert!(accepted.split(',').any(|one| one.trim() == encoding), "{accepted}");
    }
}

#[tokio::test]
async fn absent_store_is_reported_before_bad_input() {
    let edge = Edge::new(Routes::default(), &Config::default().limits);
    let mut users = user_service_client::UserServiceClient::new(edge);
    assert_eq!(checked_reason("starting", &users.get_user(get(0)).await.unwrap_err()), Reason::Starting);
}
