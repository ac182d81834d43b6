//! Users lose access by deletion, suspension or sign-out. Nothing in an account reaches the next account
//! under its id.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use kith_proto::{
    message::v1::{
        delivery::What, message_service_client::MessageServiceClient, send_message_request::To, *,
    },
    presence::v1::{OpenSessionRequest, presence_service_client::PresenceServiceClient},
    user::v1::{user_service_client::UserServiceClient, *},
};
use kith_server::config::Config;
use kith_store::{
    AccessChange, AccessStore, Applied, Outcome, StoreError, Stored, Stores, Timestamp, UserAccess, UserId,
    Write,
};
use serde_json::json;
use tonic::{Code, Request, Status, Streaming};

use crate::{
    bare_node, broken_store,
    edge::raw::GET_USER,
    http,
    node::{assert_error, assert_invalid, assert_not_found, principal, until, update_of_user},
    secured_node::{ALL, SecuredNode, acting, by, by_token},
    signing::Signer,
    sockets::Socket,
};

const ANN: i64 = 7;
const BOB: i64 = 8;
/// How far issuers' clocks may differ.
const LEEWAY: Duration = Duration::from_secs(30);

async fn node() -> (SecuredNode, Signer) {
    let signer = Signer::new(1);
    let node = SecuredNode::start_with([], signer.tokens(), |config| config.ws.enabled = true).await;
    for user in [ANN, BOB] {
        create(&node, user, &format!("user{user}")).await;
    }
    (node, signer)
}

async fn create(node: &SecuredNode, user_id: i64, name: &str) {
    node.create_user(User { user_id, user_name: name.into(), ..Default::default() }).await;
}

fn get(user_id: i64) -> GetUserRequest {
    GetUserRequest { user_id, consistency: None }
}

async fn get_as(node: &SecuredNode, token: &str) -> Result<User, Status> {
    let found = node.users().get_user(by_token(token, get(ANN))).await?;
    Ok(found.into_inner().user.unwrap())
}

fn messages(node: &SecuredNode) -> MessageServiceClient<tonic::transport::Channel> {
    MessageServiceClient::new(node.channel.clone())
}

fn to(user: i64, id: &str, body: &str) -> SendMessageRequest {
    let (to, body) = (Some(To::UserId(user)), body.to_owned().into());
    SendMessageRequest { to, client_message_id: id.into(), body, ..Default::default() }
}

/// Opens a stream that has begun.
async fn receive(node: &SecuredNode, token: &str) -> Streaming<ReceiveResponse> {
    let request = ReceiveRequest { user_id: ANN, now: true, ..Default::default() };
    let mut stream = messages(node).receive(by_token(token, request)).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    stream
}

/// Returns the cursor after the next message, which has this body.
async fn next_message(stream: &mut Streaming<ReceiveResponse>, body: &str) -> String {
    loop {
        let response = tokio::time::timeout(LEEWAY, stream.message()).await.unwrap().unwrap().unwrap();
        for delivery in response.deliveries {
            if let Some(What::Message(found)) = delivery.what {
                assert_eq!(found.body, body);
                return response.cursor;
            }
        }
    }
}

/// Returns the status with which the stream ends.
async fn end_of(stream: &mut Streaming<ReceiveResponse>) -> Status {
    loop {
        match tokio::time::timeout(LEEWAY, stream.message()).await.expect("it ends in time") {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ends with an error"),
            Err(status) => return status,
        }
    }
}

async fn live(node: &SecuredNode, token: &str) -> Socket {
    let mut socket = Socket::greeted(node.address, &json!({"credential": token})).await;
    socket.until("live").await;
    socket
}

fn rename(name: &str) -> UpdateUserRequest {
    let user = User { user_id: ANN, nick_name: name.into(), ..Default::default() };
    UpdateUserRequest { request_id: "once".into(), ..update_of_user(user, &["nick_name"]) }
}

/// Deletes the user, and releases its id at once, without the minute for which it is held.
async fn delete(node: &SecuredNode) {
    let request = DeleteUserRequest { user_id: ANN, ..Default::default() };
    node.users().delete_user(by(ALL, request)).await.unwrap();
    node.stores().users.release_id(UserId::new(ANN).unwrap(), Timestamp::now()).await.unwrap();
}

/// Returns the first token that is accepted for the account after a deletion, by an issuer whose clock is
/// ahead.
async fn next_token(node: &SecuredNode, signer: &Signer) -> String {
    let mut token = String::new();
    until(async || {
        token = signer.token_made(ANN, SystemTime::now() + LEEWAY - Duration::from_millis(500));
        get_as(node, &token).await.is_ok()
    })
    .await;
    token
}

#[tokio::test(flavor = "multi_thread")]
async fn old_account_ends_with_its_deletion() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    let (mut socket, mut stream) = (live(&node, &token).await, receive(&node, &token).await);
    delete(&node).await;
    socket.assert_closed(1008, "CREDENTIALS_REFUSED").await;
    assert_error(Err::<(), _>(end_of(&mut stream).await), Code::Unauthenticated, "CREDENTIALS_REFUSED");
    create(&node, ANN, "next").await;
    assert_error(get_as(&node, &token).await, Code::Unauthenticated, "CREDENTIALS_REFUSED");
    let update = node.users().update_user(by_token(&token, rename("mine"))).await;
    assert_error(update, Code::Unauthenticated, "CREDENTIALS_REFUSED");
    let mut socket = Socket::greeted(node.address, &json!({"credential": token})).await;
    socket.assert_closed(1008, "CREDENTIALS_REFUSED").await;
    let found = node.users().get_user(by(ALL, get(ANN))).await.unwrap().into_inner().user.unwrap();
    assert_eq!((found.user_name.as_str(), found.nick_name.as_str()), ("next", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn next_account_continues_nothing_of_the_old() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    let mut stream = receive(&node, &token).await;
    let bob = signer.token(BOB);
    messages(&node).send_message(by_token(&bob, to(ANN, "", "to the old"))).await.unwrap();
    let cursor = next_message(&mut stream, "to the old").await;
    let send = async |token: &str| {
        messages(&node).send_message(by_token(token, to(BOB, "a", "hi"))).await.unwrap().into_inner().seq
    };
    let seq = send(&token).await;
    assert_eq!(send(&token).await, seq, "it is repeated");
    node.users().update_user(by_token(&token, rename("old"))).await.unwrap();
    delete(&node).await;
    create(&node, ANN, "next").await;
    let token = next_token(&node, &signer).await;
    let mut stream = receive(&node, &token).await;
    messages(&node).send_message(by_token(&bob, to(ANN, "", "to the next"))).await.unwrap();
    next_message(&mut stream, "to the next").await;
    let resumed = ReceiveRequest { user_id: ANN, cursor, ..Default::default() };
    assert_invalid(messages(&node).receive(by_token(&token, resumed)).await, "cursor");
    assert!(send(&token).await > seq, "the id is its own");
    node.users().update_user(by_token(&token, rename("next"))).await.expect("its request id is its own");
    assert_eq!(get_as(&node, &token).await.unwrap().nick_name, "next");
}

/// Returns Ann's access, as services see it.
async fn access(node: &SecuredNode) -> kith_proto::user::v1::UserAccess {
    let request = GetUserAccessRequest { user_id: ANN, consistency: None };
    node.users().get_user_access(by(ALL, request)).await.unwrap().into_inner().access.unwrap()
}

async fn suspend(node: &SecuredNode, until: Option<SystemTime>) {
    let (until, reason) = (until.map(Into::into), "spam".to_owned());
    let request = SuspendUserRequest { user_id: ANN, until, reason, ..Default::default() };
    node.users().suspend_user(by(ALL, request)).await.unwrap();
}

async fn sign_out(node: &SecuredNode, issued_before: Option<SystemTime>) -> Result<(), Status> {
    let issued_before = issued_before.map(Into::into);
    let request = SignOutUserRequest { user_id: ANN, issued_before, ..Default::default() };
    node.users().sign_out_user(by(ALL, request)).await.map(drop)
}

#[tokio::test]
async fn first_token_of_a_new_user_is_taken() {
    let (node, signer) = node().await;
    // The token's clock is behind.
    let token = signer.token_made(ANN, SystemTime::now() - LEEWAY);
    assert!(get_as(&node, &token).await.is_ok());
    let access = access(&node).await;
    assert_eq!((access.suspended, access.tokens_issued_from), (false, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn suspension_ends_access_on_all_surfaces() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    let (mut socket, mut stream) = (live(&node, &token).await, receive(&node, &token).await);
    suspend(&node, None).await;
    let suspended = |answer: Result<(), Status>| {
        assert_error(answer, Code::PermissionDenied, "USER_SUSPENDED");
    };
    suspended(get_as(&node, &token).await.map(drop));
    suspended(node.users().get_user(acting(ALL, ANN, get(BOB))).await.map(drop));
    suspended(messages(&node).receive(by_token(&token, ReceiveRequest::default())).await.map(drop));
    let for_user = ReceiveRequest { user_id: ANN, now: true, ..Default::default() };
    suspended(messages(&node).receive(by(ALL, for_user)).await.map(drop));
    suspended(Err(end_of(&mut stream).await));
    socket.assert_closed(1008, "USER_SUSPENDED").await;
    let mut socket = Socket::greeted(node.address, &json!({"credential": token})).await;
    socket.assert_closed(1008, "USER_SUSPENDED").await;
    let bearer = format!("Bearer {token}");
    let headers = [http::JSON, ("authorization", bearer.as_str())];
    let answer = http::send(node.address, "POST", GET_USER, &headers, r#"{"userId": 7}"#).await;
    answer.assert_refused(403, "permission_denied", "USER_SUSPENDED");
    let session = OpenSessionRequest {
        user_id: ANN,
        device_id: "phone".into(),
        gateway_id: "gw".into(),
        ..Default::default()
    };
    let opened = PresenceServiceClient::new(node.channel.clone()).open_session(by(ALL, session)).await;
    suspended(opened.map(drop));
}

#[tokio::test]
async fn services_as_themselves_use_a_suspended_user() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    suspend(&node, None).await;
    let seen = access(&node).await;
    assert_eq!((seen.suspended, seen.suspension_reason.as_str()), (true, "spam"));
    node.users().update_user(by(ALL, rename("by a service"))).await.unwrap();
    let for_other = node.users().get_user(acting(ALL, BOB, get(ANN))).await.unwrap().into_inner();
    assert_eq!(for_other.user.unwrap().nick_name, "by a service", "others see the user");
    let resume = ResumeUserRequest { user_id: ANN, ..Default::default() };
    node.users().resume_user(by(ALL, resume)).await.unwrap();
    assert!(get_as(&node, &token).await.is_ok());
    let seen = access(&node).await;
    assert_eq!((seen.suspended, seen.suspension_reason.as_str()), (false, ""));
}

#[tokio::test]
async fn suspension_ends_at_its_time() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    suspend(&node, Some(SystemTime::now() + Duration::from_millis(300))).await;
    assert_error(get_as(&node, &token).await, Code::PermissionDenied, "USER_SUSPENDED");
    until(async || get_as(&node, &token).await.is_ok()).await;
    let past =
        SuspendUserRequest { user_id: ANN, until: Some(SystemTime::now().into()), ..Default::default() };
    assert_invalid(node.users().suspend_user(by(ALL, past)).await, "until");
    let unknown = SuspendUserRequest { user_id: 99, ..Default::default() };
    assert_not_found(node.users().suspend_user(by(ALL, unknown)).await);
    let unknown = GetUserAccessRequest { user_id: 99, consistency: None };
    assert_not_found(node.users().get_user_access(by(ALL, unknown)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_out_refuses_earlier_tokens_alone() {
    let (node, signer) = node().await;
    let now = SystemTime::now();
    let (earlier, later) =
        (signer.token_made(ANN, now - Duration::from_secs(60)), signer.token_made(ANN, now));
    let (mut old, mut new) = (live(&node, &earlier).await, live(&node, &later).await);
    sign_out(&node, Some(now - Duration::from_secs(1))).await.unwrap();
    old.assert_closed(1008, "CREDENTIALS_REFUSED").await;
    assert_error(get_as(&node, &earlier).await, Code::Unauthenticated, "CREDENTIALS_REFUSED");
    assert!(get_as(&node, &later).await.is_ok());
    let answer = new.call("GetUser", &json!({"userId": ANN})).await;
    assert_eq!(answer["answer"]["user"]["userId"], "7", "{answer}");
    sign_out(&node, Some(now - Duration::from_secs(120))).await.unwrap();
    assert_error(get_as(&node, &earlier).await, Code::Unauthenticated, "CREDENTIALS_REFUSED");
    sign_out(&node, None).await.unwrap();
    assert_error(get_as(&node, &later).await, Code::Unauthenticated, "CREDENTIALS_REFUSED");
    assert!(access(&node).await.tokens_issued_from.is_some());
    let ahead = sign_out(&node, Some(SystemTime::now() + Duration::from_secs(90))).await;
    assert_invalid(ahead, "issued_before");
}

/// The node ends the stream of a device that has lost its network, before it notices the loss.
#[tokio::test(flavor = "multi_thread")]
async fn lost_peer_of_a_signed_out_socket_is_named() {
    let (node, signer) = node().await;
    let watch = by(ALL, WatchOfflineRequest::default());
    let mut pushes = messages(&node).watch_offline(watch).await.unwrap().into_inner();
    pushes.message().await.unwrap().unwrap();
    // The peer reads no more, so it does not answer.
    let socket = live(&node, &signer.token(ANN)).await;
    let sent = messages(&node).send_message(by_token(&signer.token(BOB), to(ANN, "m1", "hi"))).await;
    sign_out(&node, None).await.unwrap();
    let next = tokio::time::timeout(LEEWAY, pushes.message()).await.expect("it is named").unwrap().unwrap();
    let named: Vec<_> = next.messages.into_iter().map(|message| (message.seq, message.user_ids)).collect();
    assert_eq!(named, [(sent.unwrap().into_inner().seq, vec![ANN])]);
    drop(socket);
}

/// A store that gives no answer about users' access, until it is back.
#[derive(Debug)]
struct AwayAccesses {
    store: Arc<dyn AccessStore>,
    is_back: Arc<AtomicBool>,
}

fn away<T>() -> Result<T, StoreError> {
    Err(broken_store::away(Outcome::NotApplied))
}

#[async_trait]
impl AccessStore for AwayAccesses {
    async fn accesses(&self, users: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError> {
        if self.is_back.load(Ordering::Relaxed) { self.store.accesses(users).await } else { away() }
    }

    async fn strong_accesses(&self, _: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError> {
        away()
    }

    async fn change_access(
        &self,
        _: UserId,
        _: AccessChange,
        _: Write,
    ) -> Result<Applied<UserAccess>, StoreError> {
        away()
    }
}

/// Returns stores that do not answer about users' access until this is set.
fn without_access(file: &kith_store_sqlite::SqliteHandle) -> (Stores, Arc<AtomicBool>) {
    let (mut stores, is_back) = (file.stores(), Arc::<AtomicBool>::default());
    let store = Arc::clone(&stores.accesses);
    stores.accesses = Arc::new(AwayAccesses { store, is_back: Arc::clone(&is_back) });
    (stores, is_back)
}

#[tokio::test]
async fn stream_of_an_unknown_account_has_no_cursor() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let (stores, is_back) = without_access(&file);
    let (edge, _services) = bare_node::serve(&stores, &Config::default()).await;
    let ann = bare_node::user(&edge, 0, "ann").await;
    let mut messages = MessageServiceClient::new(edge.clone());
    let mut open =
        async |request: ReceiveRequest| messages.receive(principal(ann, request)).await.unwrap().into_inner();
    let now = || ReceiveRequest { now: true, ..Default::default() };
    let first = open(now()).await.message().await.unwrap().unwrap();
    assert_eq!(first.cursor, "", "it could be refused later");
    let mut stream = open(now()).await;
    is_back.store(true, Ordering::Relaxed);
    until(async || is_known(&edge, ann).await).await;
    let cursor = stream.message().await.unwrap().unwrap().cursor;
    assert_ne!(cursor, "", "it is known by now");
    let again = open(ReceiveRequest { cursor, ..Default::default() }).await.message().await.unwrap().unwrap();
    assert!(matches!(again.deliveries[0].what, Some(What::Live(_))), "{again:?}");
}

/// Returns whether the node lets the user change something: then it knows its account.
async fn is_known(edge: &kith_server::edge::Edge, user: i64) -> bool {
    let change = User { user_id: user, nick_name: "anna".into(), ..Default::default() };
    let change = principal(user, update_of_user(change, &["nick_name"]));
    UserServiceClient::new(edge.clone()).update_user(change).await.is_ok()
}

#[tokio::test]
async fn unreadable_access_fails_writes_alone() {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let (stores, _) = without_access(&file);
    let (edge, _services) = bare_node::serve(&stores, &Config::default()).await;
    let ann = bare_node::user(&edge, 0, "ann").await;
    let mut users = UserServiceClient::new(edge);
    let user = User { user_id: ann, nick_name: "anna".into(), ..Default::default() };
    let change = || update_of_user(user.clone(), &["nick_name"]);
    for _ in 0..2 {
        assert!(users.get_user(principal(ann, get(ann))).await.is_ok());
        let refused = users.update_user(principal(ann, change())).await;
        assert_error(refused, Code::Unavailable, "STORE_UNAVAILABLE");
    }
    assert!(users.update_user(Request::new(change())).await.is_ok(), "a service as itself");
}
