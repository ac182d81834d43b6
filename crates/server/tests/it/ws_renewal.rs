//! Sockets that go on with their user's next token.

use std::{sync::Arc, time::Duration};

use kith_proto::user::v1::User;
use kith_server::auth::{Callers, Tokens};
use kith_service::error::Error;
use serde_json::{Value, json};
use tonic::Status;

use crate::{
    edge::{ServedEdge, serve_by, until},
    secured_node::SecuredNode,
    signing::Signer,
    sockets::{
        Socket,
        messages::{FakeMessages, live_response, message, reset},
        on,
    },
};

const ANN: i64 = 7;
/// Long enough to open a socket and to renew it.
const SHORT: Duration = Duration::from_secs(3);

/// Starts a node whose messages are what the test gives them.
async fn node(fake: &FakeMessages, tokens: Arc<Tokens>) -> ServedEdge {
    let enable = |config: &mut kith_server::config::Config| config.ws.enabled = true;
    let closed =
        |edge: kith_server::edge::Edge| edge.with_credentials(Arc::new(Callers::new(Vec::new())), tokens);
    serve_by(closed, enable, |routes| routes.add_service(fake.clone())).await
}

async fn live(node: &ServedEdge, token: &str) -> Socket {
    let mut socket = Socket::greeted(node.address, &json!({"credential": token})).await;
    socket.until("live").await;
    socket
}

fn renewal(token: &str) -> Value {
    json!({"renew": {"credential": token}})
}

/// Returns the whole seconds in a duration such as `599s`.
fn seconds(text: &Value) -> u64 {
    text.as_str().and_then(|text| text.strip_suffix('s')).expect("a duration").parse().unwrap()
}

async fn renewed(socket: &mut Socket, token: &str) {
    socket.send(&renewal(token)).await;
    let left = seconds(&socket.until("renewed").await["renewed"]["expiresIn"]);
    assert!((590..=600).contains(&left), "{left} s");
}

#[tokio::test]
async fn renewed_socket_outlives_its_first_token() {
    let (fake, signer) = (FakeMessages::new(), Signer::new(1));
    let node = node(&fake, signer.tokens()).await;
    let mut socket =
        Socket::greeted(node.address, &json!({"credential": signer.token_for(ANN, SHORT)})).await;
    let left = seconds(&socket.until("welcome").await["welcome"]["expiresIn"]);
    assert!(left <= SHORT.as_secs(), "{left} s");
    socket.until("live").await;
    fake.say(Ok(message("d7-8", 4, "c-1")));
    socket.until("message").await;
    renewed(&mut socket, &signer.token(ANN)).await;
    fake.begin_with(vec![live_response("c-1")]);
    until("the stream is opened again", || fake.requests().len() == 2).await;
    let again = fake.requests().remove(1);
    assert_eq!((again.cursor.as_str(), again.now, again.positions.len()), ("c-1", false, 0));
    fake.say(Ok(message("d7-8", 5, "c-2")));
    let next = socket.next().await;
    assert_eq!((&next["message"]["seq"], &next["cursor"]), (&json!("5"), &json!("c-2")), "no list, no live");
    let answer = socket.call("SendMessage", &json!({"userId": 8})).await;
    assert_eq!(answer["answer"], json!({"seq": "7"}), "calls have the new token too");
}

#[tokio::test]
async fn renewed_socket_receives_from_a_whole_node() {
    let signer = Signer::new(1);
    let node = SecuredNode::start_with([], signer.tokens(), |config| config.ws.enabled = true).await;
    let user = User { user_id: ANN, user_name: "ann".into(), ..Default::default() };
    node.create_user(user).await;
    let first = signer.token_for(ANN, SHORT);
    let mut socket = Socket::greeted(node.address, &json!({"credential": first})).await;
    socket.until("live").await;
    renewed(&mut socket, &signer.token(ANN)).await;
    // A socket with only the first token ends when the token does.
    let mut other = Socket::greeted(node.address, &json!({"credential": first})).await;
    let frames = other.closed().await.1;
    assert_eq!(frames.last().unwrap()["error"]["reason"], "CREDENTIALS_REFUSED");
    let text = json!({"conversationId": "d7-7", "contentType": "text/plain", "body": "aGk="});
    socket.send(&json!({"id": 1, "call": "SendMessage", "body": text})).await;
    assert_eq!(socket.until("message").await["message"]["seq"], "1");
}

#[tokio::test]
async fn age_of_a_socket_counts_from_its_renewal() {
    let (fake, signer) = (FakeMessages::new(), Signer::new(1));
    let node = node(&fake, signer.tokens()).await;
    let mut socket = live(&node, &signer.token(ANN)).await;
    renewed(&mut socket, &signer.token(ANN)).await;
    fake.say(Err(Status::from(Error::deadline())));
    until("the stream is opened again", || fake.requests().len() == 2).await;
    fake.say(Ok(message("d7-8", 5, "c-2")));
    assert_eq!(socket.until("message").await["message"]["seq"], "5");
    fake.say(Err(Status::from(Error::deadline())));
    assert_eq!(socket.closed().await.0, 1001, "it was not renewed again");
}

#[tokio::test]
async fn renewal_that_crosses_a_reset_moves_nothing() {
    let (fake, signer) = (FakeMessages::new(), Signer::new(1));
    let node = node(&fake, signer.tokens()).await;
    let mut socket = live(&node, &signer.token(ANN)).await;
    fake.say(Ok(reset()));
    renewed(&mut socket, &signer.token(ANN)).await;
    let hello = json!({"credential": signer.token(ANN), "positions": {"d7-8": 3}});
    socket.send(&json!({ "hello": hello })).await;
    socket.until("live").await;
    let requests = fake.requests();
    assert_eq!(requests.len(), 2, "a renewal begins no stream");
    assert!(!requests[1].now && requests[1].positions.len() == 1, "{requests:?}");
}

#[tokio::test]
async fn renewal_keeps_its_user() {
    let (fake, signer) = (FakeMessages::new(), Signer::new(1));
    let node = node(&fake, signer.tokens()).await;
    for (token, reason) in [
        (signer.token(8), "STATE_FORBIDS"),
        (Signer::new(2).token(ANN), "CREDENTIALS_REFUSED"),
        (signer.token_for(ANN, Duration::ZERO), "CREDENTIALS_REFUSED"),
        (String::new(), "CREDENTIALS_REFUSED"),
    ] {
        let mut socket = live(&node, &signer.token(ANN)).await;
        socket.send(&renewal(&token)).await;
        let error = socket.assert_closed(1008, reason).await;
        assert!(token.is_empty() || !error.to_string().contains(&token), "{error}");
    }
    for wrong in
        [json!({}), json!({"user": 7}), json!({"credential": 7}), json!([signer.token(ANN)]), json!(7)]
    {
        let mut socket = live(&node, &signer.token(ANN)).await;
        socket.send(&json!({ "renew": wrong })).await;
        socket.assert_closed(1008, "INVALID_FIELD").await;
    }
}

#[tokio::test]
async fn trusted_socket_has_nothing_to_renew() {
    let fake = FakeMessages::new();
    let node = crate::edge::serve_with(on, |routes| routes.add_service(fake.clone())).await;
    let mut socket = Socket::greeted(node.address, &json!({"user": 7})).await;
    assert_eq!(socket.until("welcome").await["welcome"].get("expiresIn"), None);
    socket.until("live").await;
    socket.send(&renewal("a.b.c")).await;
    let error = socket.assert_closed(1008, "INVALID_FIELD").await;
    assert!(error["error"]["message"].as_str().unwrap().starts_with("renew.credential"), "{error}");
}
