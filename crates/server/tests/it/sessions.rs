//! Sessions: what their answers carry, and what their reads show.

use kith_proto::{CONTRACT, user::v1::*};
use serde_json::json;
use tonic::{Code, Request, Status};

use crate::{
    consistency_tokens::{ANN, node_with, of_own_write, unreached},
    http::Connection,
    node::{TestNode, assert_refused},
    secured_node::{SecuredNode, by_token},
    sockets::{Socket, on},
};

fn get(sessions: &[&str]) -> Request<GetUserRequest> {
    let mut request = Request::new(GetUserRequest { user_id: ANN, consistency: None });
    for session in sessions {
        request.metadata_mut().append("kith-session", session.parse().unwrap());
    }
    request
}

/// Returns the session and the tier of an answer to a user.
async fn read(node: &SecuredNode, credential: &str, session: &str) -> (String, String) {
    let mut request = by_token(credential, get(&[session]).into_inner());
    request.metadata_mut().insert("kith-session", session.parse().unwrap());
    let answer = node.users().get_user(request).await.unwrap();
    let text = |name| answer.metadata().get(name).unwrap().to_str().unwrap().to_owned();
    (text("kith-session"), text("kith-tier"))
}

#[tokio::test]
async fn every_answer_has_the_number_of_the_contract() {
    let (node, number) = (TestNode::start().await, CONTRACT.to_string());
    let refused = node.users().get_user(get(&[])).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(refused.metadata().get("kith-contract").unwrap(), number.as_str());
    node.user("ann").await;
    let page = BatchGetUsersRequest { user_ids: vec![ANN], consistency: None };
    let answer = node.users().batch_get_users(page).await.unwrap();
    assert_eq!(answer.metadata().get("kith-contract").unwrap(), number.as_str());
    assert!(answer.metadata().get("kith-session").is_none(), "none was asked for");
}

#[tokio::test]
async fn session_goes_on_from_answer_to_answer() {
    let (node, signer) = node_with(|_| {}).await;
    let credential = signer.token(ANN);
    let (first, _) = read(&node, &credential, "").await;
    of_own_write(&node, &credential).await;
    let (second, tier) = read(&node, &credential, &first).await;
    assert_eq!(tier, "memory", "the node has applied all of it");
    assert_ne!(first, second);
    let (merged, _) = read(&node, &credential, &format!("{first}, {second}")).await;
    assert!(merged.len() < 300 && !merged.contains(','), "{merged}");
}

#[tokio::test]
async fn session_that_is_not_reached_reads_the_store() {
    let (node, signer) = node_with(|_| {}).await;
    let credential = signer.token(ANN);
    read(&node, &credential, "").await;
    let ahead = unreached(&node, &signer).await;
    let (session, tier) = read(&node, &credential, &ahead).await;
    assert_eq!(tier, "store");
    assert!(session.contains(&ahead), "it stays demanded");
    assert_eq!(read(&node, &credential, &session).await.1, "store");
}

#[tokio::test]
async fn session_that_no_node_answered_is_refused() {
    let node = TestNode::start().await;
    for sessions in [vec!["forged"], vec!["", "", "", "", ""]] {
        let refused: Status = node.users().get_user(get(&sessions)).await.unwrap_err();
        assert_refused(&refused, Code::InvalidArgument, "INVALID_METADATA", Some("kith-session"));
    }
}

#[tokio::test]
async fn error_of_known_outcome_carries_the_session() {
    let node = TestNode::start().await;
    let missing = node.users().get_user(get(&[""])).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    assert!(missing.metadata().get("kith-session").is_some());
}

#[tokio::test]
async fn json_has_session_and_contract_as_headers() {
    let node = TestNode::start().await;
    let mut connection = Connection::open(node.address).await;
    let headers = [("content-type", "application/json"), ("kith-session", "")];
    let answer = connection.post("/kith.user.v1.UserService/GetUser", &headers, b"{\"userId\": 7}").await;
    assert_eq!(answer.code, 404);
    assert_eq!(answer.header("kith-contract"), Some(CONTRACT.to_string().as_str()));
    assert!(answer.header("kith-session").is_some_and(|session| !session.is_empty()));
}

#[tokio::test]
async fn answers_on_a_socket_have_their_session() {
    let node = TestNode::start_with(on).await;
    let user = node.user("ann").await.user_id;
    let mut socket = Socket::greeted(node.address, &json!({"user": user, "session": "", "later": 1})).await;
    assert_eq!(socket.until("welcome").await["welcome"]["contract"], CONTRACT);
    socket.until("live").await;
    let first = socket.call("GetUser", &json!({"userId": user})).await["session"].clone();
    assert!(first.as_str().is_some_and(|session| !session.is_empty()), "{first}");
    let failed = socket.call("GetUser", &json!({"userId": 999})).await;
    assert!(failed["error"].is_object() && failed["session"].is_string(), "{failed}");
    let mut resumed = Socket::greeted(node.address, &json!({"user": user, "session": first})).await;
    resumed.until("live").await;
    let mut without = Socket::live(node.address, user).await;
    assert!(without.call("GetUser", &json!({"userId": user})).await["session"].is_null());
    let mut forged = Socket::greeted(node.address, &json!({"user": user, "session": "forged"})).await;
    let error = forged.until("error").await;
    assert_eq!(error["error"]["reason"], "INVALID_FIELD", "{error}");
}
