//! Sockets whose users prove themselves by tokens.

use std::{sync::Arc, time::Duration};

use kith_proto::{
    presence::v1::{GetPresenceRequest, PresenceState, presence_service_client::PresenceServiceClient},
    user::v1::User,
};
use kith_server::auth::{Callers, Tokens};
use kith_service::error::Error;
use serde_json::{Value, json};
use tonic::Status;

use crate::{
    edge::{ServedEdge, serve_by, until},
    node,
    secured_node::{ALL, SecuredNode, by, key_of},
    signing::Signer,
    sockets::{
        Socket,
        messages::{FakeMessages, reset},
    },
};

const ANN: i64 = 7;

/// Starts a node with the domains.
async fn secured(tokens: Arc<Tokens>) -> SecuredNode {
    let node = SecuredNode::start_with([], tokens, |config| config.ws.enabled = true).await;
    for user_id in [ANN, 8] {
        let user = User { user_id, user_name: format!("user{user_id}"), ..Default::default() };
        node.create_user(user).await;
    }
    node
}

/// Starts a node whose messages are what the test gives them.
async fn fake(fake: &FakeMessages, tokens: Arc<Tokens>, waiting: usize) -> ServedEdge {
    let on = |config: &mut kith_server::config::Config| {
        config.ws.enabled = true;
        config.ws.sockets_waiting = waiting;
    };
    let closed =
        |edge: kith_server::edge::Edge| edge.with_credentials(Arc::new(Callers::new(Vec::new())), tokens);
    serve_by(closed, on, |routes| routes.add_service(fake.clone())).await
}

async fn live(address: std::net::SocketAddr, token: &str) -> Socket {
    let mut socket = Socket::greeted(address, &credential(token)).await;
    socket.until("live").await;
    socket
}

fn credential(token: &str) -> Value {
    json!({"credential": token})
}

#[tokio::test]
async fn the_token_says_whose_socket_it_is() {
    let signer = Signer::new(1);
    let node = secured(signer.tokens()).await;
    let mut socket = Socket::greeted(node.address, &credential(&signer.token(ANN))).await;
    assert_eq!(socket.next().await["welcome"]["userId"], "7");
    socket.until("live").await;
    let own = socket.call("SendMessage", &json!({"conversationId": "d7-8", "senderId": 7, "clientMessageId": "a", "contentType": "text/plain", "body": "aGk="})).await;
    assert_eq!(own["answer"]["seq"], "1", "{own}");
    let other = socket.call("SendMessage", &json!({"conversationId": "d7-8", "senderId": 8, "clientMessageId": "b", "contentType": "text/plain", "body": "aGk="})).await;
    assert_eq!(other["error"]["reason"], "NOT_ALLOWED", "{other}");
}

#[tokio::test]
async fn socket_user_is_online_with_callers() {
    let signer = Signer::new(1);
    let node = secured(signer.tokens()).await;
    let is_online = async || {
        let request = by(ALL, GetPresenceRequest { user_id: ANN });
        let answer = PresenceServiceClient::new(node.channel.clone()).get_presence(request).await.unwrap();
        answer.into_inner().presence.unwrap().state() == PresenceState::Online
    };
    let socket = live(node.address, &signer.token(ANN)).await;
    // A node that has just started does not know yet whether a user without a session is offline.
    node::until_within(Duration::from_secs(20), async || is_online().await).await;
    socket.close().await;
    node::until_within(Duration::from_secs(20), async || !is_online().await).await;
}

#[tokio::test]
async fn other_credentials_open_no_socket() {
    let signer = Signer::new(1);
    let node = secured(signer.tokens()).await;
    let expired = signer.token_for(ANN, Duration::ZERO);
    for wrong in [key_of(ALL), String::new(), "a.b.c".to_owned(), Signer::new(2).token(ANN), expired] {
        let mut socket = Socket::greeted(node.address, &credential(&wrong)).await;
        let error = socket.assert_closed(1008, "CREDENTIALS_REFUSED").await;
        assert!(wrong.is_empty() || !error.to_string().contains(&wrong));
    }
    for hello in [json!({"user": 7}), json!({"user": 7, "credential": signer.token(ANN)}), json!({})] {
        let mut socket = Socket::greeted(node.address, &hello).await;
        socket.assert_closed(1008, "INVALID_FIELD").await;
    }
}

#[tokio::test]
async fn a_socket_ends_with_its_token() {
    let signer = Signer::new(1);
    let node = secured(signer.tokens()).await;
    let mut socket = live(node.address, &signer.token_for(ANN, Duration::from_millis(1500))).await;
    socket.assert_closed(1008, "CREDENTIALS_REFUSED").await;
}

#[tokio::test]
async fn socket_ends_with_its_signing_key() {
    let signer = Signer::new(1);
    let tokens = signer.tokens();
    let node = secured(Arc::clone(&tokens)).await;
    let mut socket = live(node.address, &signer.token(ANN)).await;
    assert!(tokens.replace(vec![Signer::new(2).issuer()]));
    socket.assert_closed(1008, "CREDENTIALS_REFUSED").await;
}

#[tokio::test]
async fn a_socket_is_as_old_as_a_stream_may_be_at_most() {
    let (messages, signer) = (FakeMessages::new(), Signer::new(1));
    let node = fake(&messages, signer.tokens(), 1).await;
    let mut socket = live(node.address, &signer.token(ANN)).await;
    messages.say(Err(Status::from(Error::deadline())));
    assert_eq!(socket.closed().await, (1001, vec![]));
}

#[tokio::test]
async fn later_hello_moves_position_not_user() {
    let (messages, signer) = (FakeMessages::new(), Signer::new(1));
    let node = fake(&messages, signer.tokens(), 1).await;
    let mut socket = live(node.address, &signer.token(ANN)).await;
    let reset_by = async |socket: &mut Socket| {
        messages.say(Ok(reset()));
        socket.until("reset").await;
    };
    reset_by(&mut socket).await;
    socket.send(&json!({"hello": {"credential": signer.token(ANN), "cursor": "c-9"}})).await;
    socket.until("live").await;
    until("the cursor arrives", || messages.requests().last().is_some_and(|last| last.cursor == "c-9")).await;
    reset_by(&mut socket).await;
    socket.send(&json!({ "hello": credential(&signer.token(8)) })).await;
    assert_eq!(socket.closed().await.0, 1008);
}
