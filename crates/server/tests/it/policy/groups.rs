//! Groups over gRPC, as callers use them.

use crate::node::{TestNode, assert_forbidden, assert_invalid, params, update_of_group};
use crate::relation_calls::users;
use kith_proto::{
    group::v1::*,
    user::v1::{CreateUserRequest, User},
};

fn chess() -> Group {
    Group {
        name: "Chess at noon".into(),
        tags: vec!["下棋".into(), "Games".into(), "games".into()],
        visibility: Visibility::Public.into(),
        params: params([("lang", "zh")]),
        ..Default::default()
    }
}

async fn code(node: &TestNode, group_id: i64) -> Result<String, tonic::Status> {
    let answer = node.groups().get_invite_code(GetInviteCodeRequest { group_id }).await?;
    Ok(answer.into_inner().invite_code)
}

#[tokio::test]
async fn created_group_has_defaults_and_unique_tags() {
    let node = TestNode::start().await;
    let created = node.group(Group { icon: "將.png".into(), ..chess() }).await;
    assert_eq!(created.tags, ["下棋", "Games"]);
    assert_eq!((created.r#type(), created.visibility()), (GroupType::Chat, Visibility::Public));
    assert_eq!((created.join_policy(), created.history_for_new_members), (JoinPolicy::Approval, false));
    let request = GetGroupRequest { group_id: created.group_id, consistency: None };
    assert_eq!(node.groups().get_group(request).await.unwrap().into_inner().group.unwrap(), created);
    let change = Group { group_id: created.group_id, icon: "key-of-2".into(), ..Default::default() };
    let changed = node.groups().update_group(update_of_group(change.clone(), &["icon"])).await.unwrap();
    let changed = changed.into_inner().group.unwrap();
    assert_eq!((changed.icon.as_str(), &changed.tags), ("key-of-2", &created.tags));
    let long = Group { icon: "é".repeat(2_049), ..change };
    assert_invalid(node.groups().update_group(update_of_group(long, &["icon"])).await, "icon");
    let private = node.group(Group { name: "Quiet".into(), ..Default::default() }).await;
    assert_eq!(private.visibility(), Visibility::Private);
    let [ann] = users(&node).await;
    let id = node.group(Group { creator_id: ann, ..chess() }).await.group_id;
    let change = Group { group_id: id, creator_id: ann + 1, ..chess() };
    let refused = node.groups().update_group(update_of_group(change, &["creator_id"])).await;
    assert_invalid(refused, "update_mask");
}

#[tokio::test]
async fn invite_code_exists_only_while_needed() {
    let node = TestNode::start().await;
    let id = node.group(chess()).await.group_id;
    assert_forbidden(code(&node, id).await);
    let change = Group { group_id: id, visibility: Visibility::Private.into(), ..Default::default() };
    node.groups().update_group(update_of_group(change, &["visibility"])).await.unwrap();
    let first = code(&node, id).await.unwrap();
    assert_eq!(first.len(), 12);
    let request = RotateInviteCodeRequest { group_id: id, request_id: "rotate-1".into() };
    let rotated = node.groups().rotate_invite_code(request.clone()).await.unwrap().into_inner();
    assert_ne!(rotated.invite_code, first);
    assert_eq!(code(&node, id).await.unwrap(), rotated.invite_code);
    let again = node.groups().rotate_invite_code(request).await.unwrap().into_inner();
    assert_eq!((again.invite_code, again.version), (rotated.invite_code, rotated.version));
    let change = Group { group_id: id, visibility: Visibility::Public.into(), ..Default::default() };
    node.groups().update_group(update_of_group(change, &["visibility"])).await.unwrap();
    assert_forbidden(code(&node, id).await);
}

/// Callers may choose the ids that the node would allocate next, for groups and for users.
#[tokio::test]
async fn occupied_ids_are_passed_over() {
    let node = TestNode::start_with(|config| config.ids.block = 10).await;
    let first = node.group(chess()).await.group_id;
    // There are more ids than attempts, from the middle of a block into another.
    for group_id in first + 1..first + 35 {
        node.group(Group { group_id, ..chess() }).await;
    }
    let next = node.group(chess()).await.group_id;
    assert!(next >= first + 35, "{next}");
    let first = node.user("first").await.user_id;
    for user_id in first + 1..first + 35 {
        let user = User { user_id, user_name: format!("chosen{user_id}"), ..Default::default() };
        let request = CreateUserRequest { user: Some(user), ..Default::default() };
        node.users().create_user(request).await.unwrap();
    }
    assert!(node.user("next").await.user_id >= first + 35);
}
