//! Users who call with their tokens: their rights, and when these end.

use std::{sync::Arc, time::Duration};

use kith_proto::{
    group::v1::{self as groups},
    message::v1::{ReceiveRequest, message_service_client::MessageServiceClient},
    relation::v1::{BatchGetRelationsRequest, relation_service_client::RelationServiceClient},
    r#type::v1::{Consistency, consistency::Level},
    user::v1::*,
};
use kith_server::auth::Tokens;
use tonic::{Code, Request, Status};

use crate::{
    edge::raw::{GET_USER, framed},
    node::{assert_denied, assert_error, assert_refused, update_of_group, update_of_user},
    secured_node::{ALL, SecuredNode, by, by_token},
    signing::Signer,
};

const ANN: i64 = 7;
const BOB: i64 = 8;
/// Every stream has to end within this time: a hang is a failure.
const BOUND: Duration = Duration::from_secs(20);

/// Starts a node that accepts the signer's tokens, with two users.
async fn node_with(tokens: Arc<Tokens>) -> SecuredNode {
    let node = SecuredNode::start_with([], tokens, |config| {
        config.users.user_params = vec!["lang".to_owned()];
        config.users.group_params = vec!["topic".to_owned()];
    })
    .await;
    for (user_id, name) in [(ANN, "ann"), (BOB, "bob")] {
        let email = format!("{name}@example.org");
        node.create_user(User { user_id, user_name: name.into(), email, ..Default::default() }).await;
    }
    node
}

async fn node() -> (SecuredNode, Signer) {
    let signer = Signer::new(1);
    (node_with(signer.tokens()).await, signer)
}

fn get(user_id: i64) -> GetUserRequest {
    GetUserRequest { user_id, consistency: None }
}

fn rename(user_id: i64, name: &str, request_id: &str) -> UpdateUserRequest {
    let user = User { user_id, user_name: name.into(), ..Default::default() };
    UpdateUserRequest { request_id: request_id.into(), ..update_of_user(user, &["user_name"]) }
}

#[tokio::test]
async fn a_user_reads_and_changes_what_is_its_own() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    let email = async |user| {
        let found = node.users().get_user(by_token(&token, get(user))).await.unwrap().into_inner();
        found.user.unwrap().email
    };
    assert_eq!(email(ANN).await, "ann@example.org");
    assert_eq!(email(BOB).await, "", "contacts are of their user");
    node.users().update_user(by_token(&token, rename(ANN, "anna", ""))).await.unwrap();
    assert_denied(node.users().update_user(by_token(&token, rename(BOB, "bert", ""))).await);
}

/// Covers threat A51.
#[tokio::test]
async fn a_user_names_no_acting_user_not_even_itself() {
    let (node, signer) = node().await;
    for acting in [ANN, BOB] {
        let mut request = by_token(&signer.token(ANN), get(BOB));
        request.metadata_mut().insert("kith-acting-user", acting.to_string().parse().unwrap());
        assert_error(node.users().get_user(request).await, Code::PermissionDenied, "ACTING_USER_REFUSED");
    }
}

/// Covers threat A50.
#[tokio::test]
async fn user_sees_and_sets_only_user_parameters() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    let change = |paths: &[&str]| {
        let params = [("lang", "en"), ("perm", "all"), ("pwd", "sesame-open-now")];
        let params = params.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        update_of_user(User { user_id: ANN, params, ..Default::default() }, paths)
    };
    for paths in [&["params.perm"][..], &["params"], &["*"], &["params.pwd"], &["params.lang", "params.perm"]]
    {
        assert_denied(node.users().update_user(by_token(&token, change(paths))).await);
    }
    node.users().update_user(by(ALL, change(&["params.perm"]))).await.unwrap();
    let updated =
        node.users().update_user(by_token(&token, change(&["params.lang"]))).await.unwrap().into_inner();
    let names = |user: Option<User>| user.unwrap().params.into_keys().collect::<Vec<_>>();
    assert_eq!(names(updated.user), ["lang"]);
    let own = node.users().get_user(by_token(&token, get(ANN))).await.unwrap().into_inner();
    assert_eq!(names(own.user), ["lang"]);
    let all = node.users().get_user(by(ALL, get(ANN))).await.unwrap().into_inner();
    assert_eq!(names(all.user), ["lang", "perm"], "services see and set them all");
}

/// Creates Ann's group with a parameter for users and a parameter for services.
async fn group_of_ann(node: &SecuredNode) -> groups::Group {
    let params = [("topic", "chess"), ("verified", "yes")].map(|(name, value)| (name.into(), value.into()));
    let visibility = groups::Visibility::Public.into();
    let group = groups::Group {
        creator_id: ANN,
        name: "chess".into(),
        visibility,
        params: params.into(),
        ..Default::default()
    };
    node.create_group(group).await
}

fn param_names(group: Option<groups::Group>) -> Vec<String> {
    group.unwrap().params.into_keys().collect()
}

#[tokio::test]
async fn user_sees_group_parameters_for_users() {
    let (node, signer) = node().await;
    let created = group_of_ann(&node).await;
    let mut client = node.groups();
    let get = || groups::GetGroupRequest { group_id: created.group_id, consistency: None };
    let batch = groups::BatchGetGroupsRequest { group_ids: vec![created.group_id], consistency: None };
    let search = groups::SearchGroupsRequest { keyword: "chess".into(), ..Default::default() };
    for token in [ANN, BOB].map(|user| signer.token(user)) {
        let one = client.get_group(by_token(&token, get())).await.unwrap().into_inner().group;
        let many = client.batch_get_groups(by_token(&token, batch.clone())).await.unwrap().into_inner();
        let found = client.search_groups(by_token(&token, search.clone())).await.unwrap().into_inner();
        let many = many.results.into_iter().map(|result| match result.result {
            Some(groups::group_result::Result::Group(group)) => group,
            other => panic!("{other:?}"),
        });
        let groups: Vec<_> = one.into_iter().chain(many).chain(found.groups).collect();
        assert_eq!(groups.len(), 3);
        for group in groups {
            assert_eq!(param_names(Some(group)), ["topic"]);
        }
    }
    let all = client.get_group(by(ALL, get())).await.unwrap().into_inner().group;
    assert_eq!(param_names(all), ["topic", "verified"], "services see them all");
    let for_user = client.get_group(crate::secured_node::acting(ALL, BOB, get())).await.unwrap();
    assert_eq!(param_names(for_user.into_inner().group), ["topic", "verified"], "also for a user");
}

#[tokio::test]
async fn user_sets_group_parameters_for_users() {
    let (node, signer) = node().await;
    let (token, created) = (signer.token(ANN), group_of_ann(&node).await);
    let mut client = node.groups();
    let params = [("topic", "go"), ("verified", "by ann")].map(|(name, value)| (name.into(), value.into()));
    let group = groups::Group { params: params.into(), ..created };
    let change = |paths: &[&str]| update_of_group(group.clone(), paths);
    for paths in [&["params.verified"][..], &["params"], &["*"], &["params.topic", "params.verified"]] {
        assert_denied(client.update_group(by_token(&token, change(paths))).await);
    }
    let updated = client.update_group(by_token(&token, change(&["params.topic"]))).await.unwrap();
    let shown = updated.into_inner().group.unwrap();
    assert_eq!(shown.params, [("topic".to_owned(), "go".to_owned())].into());
    let create = |group| groups::CreateGroupRequest { group: Some(group), ..Default::default() };
    let named = groups::Group { group_id: 0, version: 0, ..group.clone() };
    assert_denied(client.create_group(by_token(&token, create(named.clone()))).await);
    let fine = groups::Group { params: shown.params, ..named };
    let own = client.create_group(by_token(&token, create(fine))).await.unwrap().into_inner();
    assert_eq!(param_names(own.group), ["topic"]);
}

#[tokio::test]
async fn wrong_tokens_get_the_text_of_wrong_keys() {
    let (node, signer) = node().await;
    let wrong_key = node.users().get_user(by_token("unknown", get(ANN))).await.unwrap_err();
    let token = signer.token(ANN);
    let changed = format!("{}A.{}", &token[..token.len() - 90], &token[token.len() - 86..]);
    for wrong in [Signer::new(2).token(ANN), changed, signer.token_for(ANN, Duration::ZERO), "x".repeat(8193)]
    {
        let refused = node.users().get_user(by_token(&wrong, get(ANN))).await;
        let refused = assert_error(refused, Code::Unauthenticated, "CREDENTIALS_REFUSED");
        assert_eq!(refused.message(), wrong_key.message());
    }
    let two = [format!("Bearer {token}"), format!("Bearer {token}")];
    let two: Vec<_> = two.iter().map(|value| ("authorization", value.as_str())).collect();
    let refused = node.grpc(GET_USER, &two, framed(&[8, 7])).await.unwrap();
    assert_refused(&refused, Code::Unauthenticated, "CREDENTIALS_REFUSED", None);
    let good = node.users().get_user(by_token(&token, get(ANN))).await;
    assert!(good.is_ok(), "{good:?}");
}

#[tokio::test]
async fn strong_reads_and_big_batches_need_services() {
    let (node, signer) = node().await;
    let token = signer.token(ANN);
    let strong =
        || GetUserRequest { consistency: Some(Consistency { level: Some(Level::Strong(true)) }), ..get(ANN) };
    assert_denied(node.users().get_user(by_token(&token, strong())).await);
    assert!(node.users().get_user(by(ALL, strong())).await.is_ok());
    let batch = |count| BatchGetUsersRequest { user_ids: (1..=count).collect(), ..Default::default() };
    assert!(node.users().batch_get_users(by_token(&token, batch(100))).await.is_ok());
    let refused = node.users().batch_get_users(by_token(&token, batch(101))).await;
    assert_error(refused, Code::InvalidArgument, "INVALID_FIELD");
    assert!(node.users().batch_get_users(by(ALL, batch(101))).await.is_ok());
    let relations =
        BatchGetRelationsRequest { user_id: ANN, target_ids: (1..=101).collect(), ..Default::default() };
    let refused = RelationServiceClient::new(node.channel.clone())
        .batch_get_relations(by_token(&token, relations))
        .await;
    assert_error(refused, Code::InvalidArgument, "INVALID_FIELD");
}

#[tokio::test]
async fn request_ids_belong_to_their_user() {
    let (node, signer) = node().await;
    let change = async |request: Request<UpdateUserRequest>| node.users().update_user(request).await;
    for (user, name) in [(ANN, "anna"), (BOB, "bert")] {
        let token = signer.token(user);
        let first = change(by_token(&token, rename(user, name, "once"))).await.unwrap().into_inner();
        let again = change(by_token(&token, rename(user, name, "once"))).await.unwrap().into_inner();
        assert_eq!(first.user, again.user);
    }
}

/// Opens this user's stream of new messages.
async fn receive(
    node: &SecuredNode,
    token: &str,
) -> tonic::Streaming<kith_proto::message::v1::ReceiveResponse> {
    let request = ReceiveRequest { user_id: ANN, now: true, ..Default::default() };
    let stream = MessageServiceClient::new(node.channel.clone()).receive(by_token(token, request)).await;
    let mut stream = stream.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    stream
}

async fn end<T>(mut stream: tonic::Streaming<T>) -> Status {
    let ended = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ends with a status"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(BOUND, ended).await.expect("an end in time")
}

#[tokio::test]
async fn a_stream_ends_with_its_token() {
    let (node, signer) = node().await;
    let stream = receive(&node, &signer.token_for(ANN, Duration::from_millis(1500))).await;
    assert_refused(&end(stream).await, Code::Unauthenticated, "CREDENTIALS_REFUSED", None);
}

#[tokio::test]
async fn stream_ends_with_its_signing_key() {
    let (old, new) = (Signer::new(1), Signer::new(2));
    let tokens = old.tokens();
    let node = node_with(Arc::clone(&tokens)).await;
    let stream = receive(&node, &old.token(ANN)).await;
    assert!(tokens.replace(vec![new.issuer()]));
    assert_refused(&end(stream).await, Code::Unauthenticated, "CREDENTIALS_REFUSED", None);
    let refused = node.users().get_user(by_token(&old.token(ANN), get(ANN))).await;
    assert_error(refused, Code::Unauthenticated, "CREDENTIALS_REFUSED");
    assert!(node.users().get_user(by_token(&new.token(ANN), get(ANN))).await.is_ok());
}

#[tokio::test]
async fn without_a_caller_the_issuer_closes_the_node() {
    let signer = Signer::new(1);
    let node = crate::edge::serve_by(
        |edge| edge.with_credentials(Arc::new(kith_server::auth::Callers::new(Vec::new())), signer.tokens()),
        |_| {},
        |routes| routes,
    )
    .await;
    let mut client = node.users().await;
    let refused = client.get_user(get(crate::edge::service::FINE)).await;
    assert_error(refused, Code::Unauthenticated, "CREDENTIALS_MISSING");
    assert!(client.get_user(by_token(&signer.token(ANN), get(crate::edge::service::FINE))).await.is_ok());
}
