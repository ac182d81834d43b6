//! Quotas for users who call with their tokens: on each surface, and the calls that count.

use std::time::Duration;

use kith_proto::{
    group::v1::{Group, Visibility},
    user::v1::*,
};
use kith_server::config::Config;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{
    edge::raw,
    http,
    node::{assert_refused, update_of_user},
    secured_node::{ALL, SecuredNode, acting, by, by_token},
    signing::Signer,
    sockets::Socket,
};

const ANN: i64 = 7;
const GROUP: i64 = 5;
/// More calls than any quota in these tests, and too few to last until a call is available again.
const MANY: usize = 200;

/// Starts a node with one user and one public group, whose users have these quotas.
async fn node_with(quotas: impl FnOnce(&mut Config)) -> (SecuredNode, Signer) {
    let signer = Signer::new(1);
    let node = SecuredNode::start_with([], signer.tokens(), |config| {
        config.ws.enabled = true;
        quotas(config);
    })
    .await;
    node.create_user(User { user_id: ANN, user_name: "ann".into(), ..Default::default() }).await;
    let visibility = Visibility::Public.into();
    node.create_group(Group { group_id: GROUP, name: "chess".into(), visibility, ..Default::default() })
        .await;
    (node, signer)
}

fn get(user_id: i64) -> GetUserRequest {
    GetUserRequest { user_id, consistency: None }
}

fn batch(count: i64) -> BatchGetUsersRequest {
    BatchGetUsersRequest { user_ids: (1..=count).collect(), consistency: None }
}

/// Checks that a refusal says which quota is used up. Returns when to call again.
fn exceeded(status: &Status, quota: &str) -> Duration {
    assert_refused(status, Code::ResourceExhausted, "QUOTA_EXCEEDED", None);
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata.get("quota").map(String::as_str), Some(quota));
    details.retry_info().unwrap().retry_delay.unwrap()
}

/// Makes many calls and returns the first refusal.
async fn first_refused<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> Status {
    for _ in 0..MANY {
        if let Err(status) = call().await {
            return status;
        }
    }
    panic!("{MANY} calls were answered")
}

#[tokio::test]
async fn calls_past_quota_are_refused_over_grpc() {
    let (node, signer) = node_with(|config| config.limits.user_calls_per_second = 5).await;
    let token = signer.token(ANN);
    let refused = first_refused(async || node.users().get_user(by_token(&token, get(ANN))).await).await;
    assert_eq!(exceeded(&refused, "calls"), Duration::from_secs(1));
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "1000");
    let other = node.users().get_user(by_token(&signer.token(8), get(ANN))).await;
    assert!(other.is_ok(), "others are not hindered: {other:?}");
}

#[tokio::test]
async fn calls_past_quota_are_refused_over_json() {
    let (node, signer) = node_with(|config| config.limits.user_calls_per_second = 5).await;
    let bearer = format!("Bearer {}", signer.token(ANN));
    let headers = [http::JSON, ("authorization", bearer.as_str())];
    for _ in 0..MANY {
        let answer = http::send(node.address, "POST", http::GET_USER, &headers, r#"{"userId": 7}"#).await;
        if answer.code != 200 {
            answer.assert_refused(429, "resource_exhausted", "QUOTA_EXCEEDED");
            assert_eq!(answer.header("retry-after"), Some("1"));
            let retry = answer.json()["details"].as_array().unwrap().iter().any(|detail| {
                detail["type"] == "google.rpc.RetryInfo" && detail["debug"]["retryDelay"] == "1s"
            });
            assert!(retry, "{}", answer.json());
            return;
        }
    }
    panic!("{MANY} calls were answered");
}

#[tokio::test]
async fn calls_past_quota_are_refused_over_grpc_web() {
    let (node, signer) = node_with(|config| config.limits.user_calls_per_second = 5).await;
    let bearer = format!("Bearer {}", signer.token(ANN));
    let kind = "application/grpc-web+proto";
    let headers = [("content-type", kind), ("accept", kind), ("authorization", bearer.as_str())];
    let body = [0, 0, 0, 0, 2, 8, 7];
    for _ in 0..MANY {
        let answer = http::send(node.address, "POST", http::GET_USER, &headers, body).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if !text.contains("grpc-status:0") {
            assert!(
                answer.header("grpc-status") == Some("8") || text.contains("grpc-status:8"),
                "{answer:?}"
            );
            return;
        }
    }
    panic!("{MANY} calls were answered");
}

#[tokio::test]
async fn calls_past_quota_leave_a_socket_open() {
    let (node, signer) = node_with(|config| config.limits.user_calls_per_second = 5).await;
    let mut socket = Socket::greeted(node.address, &json!({"credential": signer.token(ANN)})).await;
    socket.until("live").await;
    for _ in 0..MANY {
        let answer = socket.call("GetUser", &json!({"userId": 7})).await;
        if let Some(error) = answer.get("error") {
            assert_eq!(error["reason"], "QUOTA_EXCEEDED", "{answer}");
            let again = socket.call("GetUser", &json!({"userId": 7})).await;
            assert_eq!(again["id"], 1, "it is still answered: {again}");
            return;
        }
    }
    panic!("{MANY} calls were answered");
}

/// Opens a socket with this token. Returns the error with which it is refused; `None`: it is live.
async fn refused_hello(node: &SecuredNode, token: &str) -> Option<(Value, u16)> {
    let mut socket = Socket::greeted(node.address, &json!({"credential": token})).await;
    loop {
        let frame = socket.next().await;
        if frame.get("error").is_some() {
            return Some((frame, socket.closed().await.0));
        }
        if frame.get("live").is_some() {
            socket.close().await;
            return None;
        }
    }
}

#[tokio::test]
async fn a_hello_past_the_quota_is_asked_to_come_again() {
    let (node, signer) = node_with(|config| config.limits.user_calls_per_second = 1).await;
    let token = signer.token(ANN);
    for _ in 0..MANY {
        if let Some((frame, code)) = refused_hello(&node, &token).await {
            assert_eq!((frame["error"]["reason"].as_str(), code), (Some("QUOTA_EXCEEDED"), 1013), "{frame}");
            return;
        }
    }
    panic!("{MANY} sockets were opened");
}

#[tokio::test]
async fn writes_have_a_quota_of_their_own() {
    let (node, signer) = node_with(|config| config.limits.user_writes_per_second = 2).await;
    let token = signer.token(ANN);
    let user = User { user_id: ANN, nick_name: "Ann".into(), ..Default::default() };
    let rename = || update_of_user(user.clone(), &["nick_name"]);
    let refused = first_refused(async || node.users().update_user(by_token(&token, rename())).await).await;
    assert_eq!(exceeded(&refused, "writes"), Duration::from_secs(1));
    let read = node.users().get_user(by_token(&token, get(ANN))).await;
    assert!(read.is_ok(), "reads go on: {read:?}");
}

/// A message or text so large that it counts as the whole quota in [`node_of_bytes`].
const LARGE: usize = 160 << 10;

/// Starts a node whose users may make 10 calls a second, or one call with [`LARGE`].
async fn node_of_bytes() -> (SecuredNode, String) {
    let (node, signer) = node_with(|config| config.limits.user_calls_per_second = 10).await;
    (node, signer.token(ANN))
}

/// Returns whether a few calls, whose number is within the quota, are refused for their size.
async fn is_refused(mut call: impl AsyncFnMut() -> bool) -> bool {
    for _ in 0..8 {
        if call().await {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn unpacked_bytes_count_as_calls() {
    let (node, token) = node_of_bytes().await;
    let bearer = format!("Bearer {token}");
    let message = [&[0x08, 0x07][..], &raw::unknown_field(LARGE)].concat();
    let zstd = zstd::stream::encode_all(message.as_slice(), 0).unwrap();
    assert!(zstd.len() < 1 << 10);
    for (packing, body) in [("zstd", raw::flagged(1, zstd.len(), &zstd)), ("identity", raw::framed(&message))]
    {
        let headers = [("authorization", bearer.as_str()), ("grpc-encoding", packing)];
        let refused = is_refused(async || {
            let status = node.grpc(raw::GET_USER, &headers, body.clone()).await;
            status.is_some_and(|status| exceeded(&status, "calls") > Duration::ZERO)
        });
        assert!(refused.await, "{packing}");
    }
}

#[tokio::test]
async fn bytes_of_json_count_as_calls() {
    let (node, token) = node_of_bytes().await;
    let text = format!(r#"{{"userId": 7{}}}"#, " ".repeat(LARGE));
    let bearer = format!("Bearer {token}");
    let headers = [http::JSON, ("authorization", bearer.as_str())];
    let refused = is_refused(async || {
        let answer = http::send(node.address, "POST", http::GET_USER, &headers, &text).await;
        answer.code != 200 && answer.reason() == "QUOTA_EXCEEDED"
    });
    assert!(refused.await);
    let mut socket = Socket::greeted(node.address, &json!({"credential": token})).await;
    socket.until("live").await;
    let refused = is_refused(async || {
        socket.text(&format!(r#"{{"id": 1, "call": "GetUser", "body": {text}}}"#)).await;
        let answer = socket.next().await;
        answer.get("error").is_some_and(|error| error["reason"] == "QUOTA_EXCEEDED")
    });
    assert!(refused.await, "on a socket");
}

#[tokio::test]
async fn records_past_quota_are_refused_until_refill() {
    let (node, signer) = node_with(|config| config.limits.user_records_per_minute = 100).await;
    let token = signer.token(ANN);
    node.users().batch_get_users(by_token(&token, batch(100))).await.unwrap();
    let refused = node.users().batch_get_users(by_token(&token, batch(50))).await.unwrap_err();
    let wait = exceeded(&refused, "records");
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1", "its caller is to see it");
    assert!(wait > Duration::from_secs(10) && wait <= Duration::from_secs(30), "{wait:?}");
    let refused = first_refused(async || node.users().get_user(by_token(&token, get(ANN))).await).await;
    assert_eq!(exceeded(&refused, "records"), Duration::from_secs(1));
}

#[tokio::test]
async fn hello_lists_past_the_records_quota() {
    let (node, signer) = node_with(|config| config.limits.user_records_per_minute = 100).await;
    let token = signer.token(ANN);
    node.users().batch_get_users(by_token(&token, batch(100))).await.unwrap();
    for _ in 0..2 {
        assert_eq!(refused_hello(&node, &token).await, None, "what is delivered is not counted");
    }
    let mut socket = Socket::greeted(node.address, &json!({"credential": token})).await;
    socket.until("live").await;
    let own = socket.call("ListConversations", &json!({"userId": ANN})).await;
    assert_eq!(own["error"]["reason"], "QUOTA_EXCEEDED", "a call is: {own}");
}

#[tokio::test]
async fn services_have_no_quota_also_for_a_user() {
    let (node, _signer) = node_with(|config| {
        config.limits.user_calls_per_second = 5;
        config.limits.user_writes_per_second = 5;
        config.limits.user_records_per_minute = 100;
    })
    .await;
    for _ in 0..MANY {
        node.users().get_user(by(ALL, get(ANN))).await.unwrap();
        node.users().batch_get_users(acting(ALL, ANN, batch(50))).await.unwrap();
    }
}

/// Returns methods and messages for calls that read many records, made by a user who may.
fn reads(user: i64) -> Vec<(&'static str, Value)> {
    let ids: Vec<i64> = (1..=60).collect();
    let page = |mut message: Value| {
        message["pageSize"] = json!(60);
        message
    };
    let conversation = format!("d{user}-100000");
    vec![
        ("user.v1.UserService/BatchGetUsers", json!({"userIds": ids})),
        ("user.v1.UserService/SearchUsers", page(json!({"keyword": "ann"}))),
        ("group.v1.GroupService/BatchGetGroups", json!({"groupIds": ids})),
        ("group.v1.GroupService/SearchGroups", page(json!({"keyword": "chess"}))),
        ("member.v1.MemberService/ListMembers", page(json!({"groupId": GROUP}))),
        ("member.v1.MemberService/SyncMembers", page(json!({"groupId": GROUP}))),
        ("member.v1.MemberService/BatchIsMember", json!({"groupId": GROUP, "userIds": ids})),
        ("member.v1.MemberService/ListMemberships", page(json!({"userId": user}))),
        ("member.v1.MemberService/ListCommonGroups", page(json!({"userId": user, "otherId": ANN}))),
        ("relation.v1.RelationService/BatchGetRelations", json!({"userId": user, "targetIds": ids})),
        ("relation.v1.RelationService/ListFollowing", page(json!({"userId": ANN}))),
        ("relation.v1.RelationService/ListFans", page(json!({"userId": ANN}))),
        ("relation.v1.RelationService/ListFriends", page(json!({"userId": ANN}))),
        ("relation.v1.RelationService/ListBlocks", page(json!({"userId": user}))),
        ("relation.v1.RelationService/ListCommonFollowing", page(json!({"userId": user, "otherId": ANN}))),
        ("presence.v1.PresenceService/BatchGetPresence", json!({"userIds": ids})),
        ("application.v1.ApplicationService/ListRelationLog", page(json!({"userId": user}))),
        ("message.v1.MessageService/ListConversations", page(json!({"userId": user}))),
        (
            "message.v1.MessageService/PullMessages",
            json!({"userId": user, "conversationId": conversation, "limit": 60}),
        ),
        (
            "message.v1.MessageService/History",
            json!({"userId": user, "conversationId": conversation, "limit": 60}),
        ),
        ("notice.v1.NoticeService/ListNotices", page(json!({"audienceId": 1, "readerId": user}))),
        (
            "receipt.v1.ReceiptService/ListReaders",
            page(json!({"conversationId": format!("g{GROUP}"), "seq": 1})),
        ),
    ]
}

async fn call(node: &SecuredNode, token: &str, method: &str, message: &Value) -> http::Answer {
    let bearer = format!("Bearer {token}");
    let headers = [http::JSON, ("authorization", bearer.as_str())];
    http::send(node.address, "POST", &format!("/kith.{method}"), &headers, message.to_string()).await
}

#[tokio::test]
async fn every_list_and_batch_counts_records() {
    let (node, signer) = node_with(|config| config.limits.user_records_per_minute = 100).await;
    for (number, user) in (0..reads(1).len()).zip(1_000..) {
        let token = signer.token(user);
        node.users().batch_get_users(by_token(&token, batch(100))).await.unwrap();
        let (method, message) = &reads(user)[number];
        let answer = call(&node, &token, method, message).await;
        assert_eq!((answer.code, answer.reason().as_str()), (429, "QUOTA_EXCEEDED"), "{method}: {answer:?}");
    }
}

#[tokio::test]
async fn list_counts_what_it_answers() {
    let (node, signer) = node_with(|config| config.limits.user_records_per_minute = 100).await;
    let token = signer.token(ANN);
    // The pages repeat until their sizes add up to many times the quota; all answers and one page are less
    // than the quota.
    for _ in 0..2 {
        for (method, message) in reads(ANN).iter().filter(|(_, message)| message.get("pageSize").is_some()) {
            let answer = call(&node, &token, method, message).await;
            assert_ne!(answer.code, 429, "{method}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn refusals_and_calls_are_counted_by_metrics() {
    let recorder = PrometheusBuilder::new().build_recorder();
    // The test's node runs on this thread.
    let _here = metrics::set_default_local_recorder(&recorder);
    let (node, signer) = node_with(|config| config.limits.user_calls_per_second = 5).await;
    let token = signer.token(ANN);
    first_refused(async || node.users().get_user(by_token(&token, get(ANN))).await).await;
    node.users().get_user(by(ALL, get(404))).await.unwrap_err();
    node.users().get_user(by("unknown", get(ANN))).await.unwrap_err();
    let text = recorder.handle().render();
    for line in [
        r#"kith_user_quota_refused_total{quota="calls"} 1"#,
        r#"kith_caller_calls_total{caller="default",code="OK"} 2"#,
        r#"kith_caller_calls_total{caller="default",code="NOT_FOUND"} 1"#,
        r#"kith_caller_calls_total{caller="(user)",code="RESOURCE_EXHAUSTED"} 1"#,
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("unknown\",code=\"UNAUTH"), "who proves nothing is no caller: {text}");
}
