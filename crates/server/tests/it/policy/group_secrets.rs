//! Groups' secret parameters over gRPC: like users' secrets they are written, checked and never shown.

use crate::node::{
    TestNode, assert_denied, assert_exhausted, assert_invalid, assert_reused, params, principal,
    update_of_group,
};
use crate::relation_calls::with_users;
use kith_proto::{group::v1::*, r#type::v1::import_result};
use tonic::Status;

fn chess(pairs: &[(&str, &str)]) -> Group {
    Group {
        name: "Chess".into(),
        visibility: Visibility::Public.into(),
        params: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..Default::default()
    }
}

fn create(group: Group, request_id: &str) -> CreateGroupRequest {
    CreateGroupRequest { group: Some(group), request_id: request_id.into() }
}

async fn update(node: &TestNode, group: Group, paths: &[&str]) -> Result<Group, Status> {
    Ok(node.groups().update_group(update_of_group(group, paths)).await?.into_inner().group.unwrap())
}

fn to_verify(group_id: i64, secret: &str) -> VerifySecretRequest {
    VerifySecretRequest { group_id, name: "pwd".into(), secret: secret.into() }
}

async fn verified(node: &TestNode, group_id: i64, secret: &str) -> bool {
    node.groups().verify_secret(to_verify(group_id, secret)).await.unwrap().into_inner().verified
}

#[tokio::test]
async fn secret_is_in_no_answer() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let request = create(chess(&[("topic", "chess"), ("pwd", "needle")]), "once");
    let created = node.groups().create_group(request.clone()).await.unwrap().into_inner();
    let id = created.group.as_ref().unwrap().group_id;
    let again = node.groups().create_group(request).await.unwrap().into_inner();
    assert_eq!(created.group.as_ref().unwrap().params, params([("topic", "chess")]));

    let get = GetGroupRequest { group_id: id, consistency: None };
    let read = node.groups().get_group(principal(77, get)).await.unwrap().into_inner();
    let batch = BatchGetGroupsRequest { group_ids: vec![id], consistency: None };
    let batch = node.groups().batch_get_groups(batch).await.unwrap().into_inner();
    let search = SearchGroupsRequest { keyword: "chess".into(), ..Default::default() };
    let found = node.groups().search_groups(search).await.unwrap().into_inner();
    let export = ExportGroupsRequest { after_group_id: 0 };
    let mut export = node.groups().export_groups(export).await.unwrap().into_inner();
    let exported = export.message().await.unwrap().unwrap();
    let renamed = update(&node, Group { group_id: id, ..chess(&[("pwd", "needle")]) }, &["name"]).await;
    let all = format!("{created:?} {again:?} {read:?} {batch:?} {found:?} {exported:?} {renamed:?}");
    assert_eq!(all.matches("topic").count(), 7, "{all}");
    assert!(!all.contains("needle") && !all.contains("pwd"), "{all}");
    assert!(verified(&node, id, "needle").await);
}

#[tokio::test]
async fn secret_is_changed_kept_and_removed() {
    let node = TestNode::start_with_relations(|config| config.users.verify_tries_per_minute = 100).await;
    let id = node.group(chess(&[("pwd", "one")])).await.group_id;
    let with = |pairs: &[(&str, &str)]| Group { group_id: id, ..chess(pairs) };
    update(&node, with(&[("topic", "go")]), &["params"]).await.unwrap();
    assert!(verified(&node, id, "one").await, "the absence of a secret says nothing");
    // A change that drops the invite code keeps the other secrets.
    let open = Group { visibility: Visibility::Private.into(), ..with(&[("pwd", "two")]) };
    update(&node, open, &["visibility", "params.pwd"]).await.unwrap();
    assert!(verified(&node, id, "two").await && !verified(&node, id, "one").await);
    update(&node, with(&[]), &["visibility"]).await.unwrap();
    assert!(verified(&node, id, "two").await);
    let shown = update(&node, with(&[]), &["params.pwd"]).await.unwrap();
    assert_eq!(shown.params, params([("topic", "go")]));
    assert!(!verified(&node, id, "two").await && !verified(&node, id, "").await);
    assert!(!verified(&node, id + 1, "two").await);
}

#[tokio::test]
async fn secret_is_checked_by_owner_and_admins_only() {
    let (node, [ann, bob]) = with_users().await;
    let group = Group { creator_id: ann, ..chess(&[("pwd", "one")]) };
    let id = node.group(group).await.group_id;
    assert_denied(node.groups().verify_secret(principal(bob, to_verify(id, "one"))).await);
    let own = node.groups().verify_secret(principal(ann, to_verify(id, "one"))).await.unwrap();
    assert!(own.into_inner().verified);
    let other = VerifySecretRequest { name: "code".into(), ..to_verify(id, "one") };
    assert_invalid(node.groups().verify_secret(other).await, "name");
    for _ in 0..4 {
        assert!(!verified(&node, id, "guess").await);
    }
    assert_exhausted(node.groups().verify_secret(to_verify(id, "one")).await, "TOO_MANY_TRIES");
}

#[tokio::test]
async fn imported_and_repeated_secrets_are_hashed() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let record = ImportGroup { record: 1, group: Some(chess(&[("sid", "needle")])), ..Default::default() };
    let messages = tokio_stream::iter([ImportGroupsRequest { records: vec![record] }]);
    let mut answers = node.groups().import_groups(messages).await.unwrap().into_inner();
    let result = answers.message().await.unwrap().unwrap().results[0].result.clone().unwrap();
    let import_result::Result::Id(group_id) = result else { panic!("{result:?}") };
    let get = GetGroupRequest { group_id, consistency: None };
    let read = node.groups().get_group(get).await.unwrap().into_inner().group.unwrap();
    assert_eq!(read.params, params([]));
    let sid = VerifySecretRequest { name: "sid".into(), ..to_verify(group_id, "needle") };
    assert!(node.groups().verify_secret(sid).await.unwrap().into_inner().verified);
    node.groups().create_group(create(chess(&[("pwd", "one")]), "once")).await.unwrap();
    assert_reused(node.groups().create_group(create(chess(&[("pwd", "two")]), "once")).await, "request_id");
}

/// The record was stored before `note` became a secret's name.
#[tokio::test]
async fn secret_of_an_old_record_is_not_shown() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let id = node.group(chess(&[("note", "needle"), ("topic", "go")])).await.group_id;
    let data = node.stop().await;
    let data_dir = data.path().join("data");
    let node = TestNode::start_with_relations(|config| {
        config.data_dir = data_dir;
        config.users.secret_params.push("note".into());
    })
    .await;
    let get = GetGroupRequest { group_id: id, consistency: None };
    let read = node.groups().get_group(get).await.unwrap().into_inner().group.unwrap();
    assert_eq!(read.params, params([("topic", "go")]));
}
