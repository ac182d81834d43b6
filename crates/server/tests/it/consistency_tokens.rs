//! Users' consistency tokens: which are accepted, and their cost.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kith_proto::{
    application::v1::{Decision, application_service_client::ApplicationServiceClient},
    r#type::v1::{AtLeast, Consistency, consistency::Level},
    user::v1::*,
};
use kith_server::config::Config;
use tonic::{Code, Status};

use crate::{
    application_calls::{decision, of_user, to_be_friends},
    node::{assert_invalid, assert_refused, update_of_user},
    secured_node::{ALL, SecuredNode, by, by_token},
    signing::Signer,
};

pub const ANN: i64 = 7;
const BOB: i64 = 8;

/// Starts a node with two users. Returns it with the first user's token.
pub async fn node_with(change: impl FnOnce(&mut Config)) -> (SecuredNode, Signer) {
    let signer = Signer::new(1);
    let node = SecuredNode::start_with([], signer.tokens(), change).await;
    for (user_id, name) in [(ANN, "ann"), (BOB, "bob")] {
        node.create_user(User { user_id, user_name: name.into(), ..Default::default() }).await;
    }
    (node, signer)
}

fn get_with(token: &str) -> GetUserRequest {
    let level = Level::AtLeast(AtLeast { consistency_tokens: vec![token.to_owned()] });
    GetUserRequest { user_id: ANN, consistency: Some(Consistency { level: Some(level) }) }
}

/// Returns the tier that answers a user who reads with this consistency token.
async fn tier(node: &SecuredNode, credential: &str, token: &str) -> Result<String, Status> {
    let answer = node.users().get_user(by_token(credential, get_with(token))).await?;
    Ok(answer.metadata().get("kith-tier").unwrap().to_str().unwrap().to_owned())
}

/// Returns the token from the user's own write.
pub async fn of_own_write(node: &SecuredNode, credential: &str) -> String {
    let user = User { user_id: ANN, nick_name: "Ann".into(), ..Default::default() };
    let update = by_token(credential, update_of_user(user, &["nick_name"]));
    node.users().update_user(update).await.unwrap().into_inner().consistency_token
}

/// Returns a token that no memory has reached, from a repeated decision.
pub async fn unreached(node: &SecuredNode, signer: &Signer) -> String {
    let (ann, bob) = (signer.token(ANN), signer.token(BOB));
    let mut calls = ApplicationServiceClient::new(node.channel.clone());
    let applied = calls.apply(by_token(&bob, to_be_friends(ANN))).await.unwrap().into_inner();
    let mut accept = decision(of_user(ANN), applied.application.unwrap().application_id, Decision::Accept);
    accept.request_id = "once".to_owned();
    calls.decide(by_token(&ann, accept.clone())).await.unwrap();
    calls.decide(by_token(&ann, accept)).await.unwrap().into_inner().consistency_token
}

/// Returns a token's bytes up to its epoch, and those after its number.
fn around_number(token: &str) -> (Vec<u8>, Vec<u8>) {
    let bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
    let ends: Vec<usize> = (1..bytes.len()).filter(|at| bytes[*at] < 0x80).map(|at| at + 1).collect();
    (bytes[..ends[1]].to_vec(), bytes[ends[2]..].to_vec())
}

#[tokio::test]
async fn forged_token_does_not_reach_the_store() {
    let (node, signer) = node_with(|_| {}).await;
    let credential = signer.token(ANN);
    let own = of_own_write(&node, &credential).await;
    assert_eq!(tier(&node, &credential, &own).await.unwrap(), "memory");
    let (before, after) = around_number(&own);
    // The number is 2^42 - 1: beyond every log.
    let number = [0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    let forged = URL_SAFE_NO_PAD.encode([&before[..], &number, &after].concat());
    let refused = node.users().get_user(by_token(&credential, get_with(&forged))).await;
    assert_invalid(refused, "consistency.at_least.consistency_tokens");
    // The previous form had no code.
    let forged = URL_SAFE_NO_PAD.encode([&before[..], &number].concat());
    assert_eq!(tier(&node, &credential, &forged).await.unwrap(), "memory");
    let of_service = node.users().get_user(by(ALL, get_with(&forged))).await.unwrap();
    assert_eq!(of_service.metadata().get("kith-tier").unwrap(), "store");
}

#[tokio::test]
async fn read_that_a_token_sends_to_store_counts() {
    let (node, signer) = node_with(|config| config.limits.user_records_per_minute = 100).await;
    let credential = signer.token(ANN);
    let (own, unreached) = (of_own_write(&node, &credential).await, unreached(&node, &signer).await);
    let batch = BatchGetUsersRequest { user_ids: (1..=96).collect(), consistency: None };
    node.users().batch_get_users(by_token(&credential, batch)).await.unwrap();
    // The quota has four records left: a record for each read, and one for the store.
    assert_eq!(tier(&node, &credential, &own).await.unwrap(), "memory");
    assert_eq!(tier(&node, &credential, &unreached).await.unwrap(), "store");
    let refused = tier(&node, &credential, &unreached).await.unwrap_err();
    assert_refused(&refused, Code::ResourceExhausted, "QUOTA_EXCEEDED", None);
}
