//! Groups over gRPC, as callers use them.

use crate::node::{
    TestNode, all_pages, assert_denied, assert_forbidden, assert_invalid, assert_not_found, params,
    principal, update_of_group,
};
use crate::relation_calls::users;
use kith_proto::{
    group::v1::*,
    user::v1::{CreateUserRequest, User},
};
use tonic::Code;

fn chess() -> Group {
    Group {
        name: "Chess at noon".into(),
        tags: vec!["下棋".into(), "Games".into(), "games".into()],
        visibility: Visibility::Public.into(),
        params: params([("lang", "zh")]),
        ..Default::default()
    }
}

async fn search(node: &TestNode, keyword: &str, r#match: KeywordMatch) -> Vec<i64> {
    let request =
        SearchGroupsRequest { keyword: keyword.into(), r#match: r#match.into(), ..Default::default() };
    let groups = node.groups().search_groups(request).await.unwrap().into_inner().groups;
    groups.into_iter().map(|group| group.group_id).collect()
}

async fn code(node: &TestNode, group_id: i64) -> Result<String, tonic::Status> {
    let answer = node.groups().get_invite_code(GetInviteCodeRequest { group_id }).await?;
    Ok(answer.into_inner().invite_code)
}

#[tokio::test]
async fn created_group_has_defaults_and_unique_tags() {
    let node = TestNode::start().await;
    let created = node.group(chess()).await;
    assert_eq!(created.tags, ["下棋", "Games"]);
    assert_eq!((created.r#type(), created.visibility()), (GroupType::Chat, Visibility::Public));
    assert_eq!((created.join_policy(), created.history_for_new_members), (JoinPolicy::Approval, false));
    let request = GetGroupRequest { group_id: created.group_id, consistency: None };
    assert_eq!(node.groups().get_group(request).await.unwrap().into_inner().group.unwrap(), created);
    let private = node.group(Group { name: "Quiet".into(), ..Default::default() }).await;
    assert_eq!(private.visibility(), Visibility::Private);
}

async fn import(node: &TestNode, group: Group) {
    let records = vec![ImportGroup { record: 1, group: Some(group), ..Default::default() }];
    let messages = tokio_stream::iter([ImportGroupsRequest { records }]);
    node.groups().import_groups(messages).await.unwrap().into_inner().message().await.unwrap();
}

/// The group's picture in each answer that has it.
async fn icons(node: &TestNode, group_id: i64) -> [String; 4] {
    let mut client = node.groups();
    let get = GetGroupRequest { group_id, consistency: None };
    let get = client.get_group(get).await.unwrap().into_inner();
    let batch = BatchGetGroupsRequest { group_ids: vec![group_id], consistency: None };
    let batch = client.batch_get_groups(batch).await.unwrap().into_inner().results.remove(0);
    let Some(group_result::Result::Group(in_batch)) = batch.result else { panic!("{batch:?}") };
    let keyword = SearchGroupsRequest { keyword: "下棋".into(), ..Default::default() };
    let found = client.search_groups(keyword).await.unwrap().into_inner().groups.remove(0);
    let export = ExportGroupsRequest { after_group_id: group_id - 1 };
    let export = client.export_groups(export).await.unwrap().into_inner().message().await.unwrap();
    let exported = export.unwrap().groups.remove(0);
    [get.group.unwrap(), in_batch, found, exported].map(|group| group.icon)
}

#[tokio::test]
async fn picture_is_set_shown_and_removed() {
    let node = TestNode::start().await;
    let first = "https://img.example.org/将.png?size=64";
    let group_id = node.group(Group { icon: first.into(), ..chess() }).await.group_id;
    assert_eq!(icons(&node, group_id).await, [first; 4]);
    let update = async |icon: &str, mask: &str| {
        let change = Group { group_id, icon: icon.into(), r#type: 1, join_policy: 1, ..chess() };
        node.groups().update_group(update_of_group(change, &[mask])).await.map(|answer| answer.into_inner())
    };
    update("lost", "tags").await.unwrap();
    assert_eq!(icons(&node, group_id).await, [first; 4], "the mask does not name it");
    for (icon, mask) in [("key-of-2", "icon"), ("", "icon"), ("key-of-3", "*"), ("", "*")] {
        assert_eq!(update(icon, mask).await.unwrap().group.unwrap().icon, icon);
        assert_eq!(icons(&node, group_id).await, [icon; 4]);
    }
    assert_invalid(update(&"é".repeat(2_049), "icon").await, "icon");
    let longest = "é".repeat(2_048);
    import(&node, Group { group_id: group_id + 1, icon: longest.clone(), ..chess() }).await;
    let request = GetGroupRequest { group_id: group_id + 1, consistency: None };
    let imported = node.groups().get_group(request).await.unwrap().into_inner().group.unwrap();
    assert_eq!(imported.icon, longest);
}

#[tokio::test]
async fn public_groups_are_found_by_tag_and_prefix() {
    let node = TestNode::start().await;
    let id = node.group(chess()).await.group_id;
    node.group(Group { name: "Chess in secret".into(), tags: vec!["games".into()], ..Default::default() })
        .await;
    for keyword in ["下棋", "GAMES", "chess at noon"] {
        assert_eq!(search(&node, keyword, KeywordMatch::Exact).await, [id], "{keyword}");
    }
    for keyword in ["下", "Ga", "CHESS", "chess at noon", "Chess at no"] {
        assert_eq!(search(&node, keyword, KeywordMatch::Prefix).await, [id], "{keyword}");
    }
    assert!(search(&node, "chess", KeywordMatch::Exact).await.is_empty());
    assert!(search(&node, "chess at noon, or later", KeywordMatch::Prefix).await.is_empty());
}

#[tokio::test]
async fn changed_tags_and_visibility_are_searched() {
    let node = TestNode::start().await;
    let id = node.group(chess()).await.group_id;
    let change = Group { group_id: id, tags: vec!["go".into()], ..Default::default() };
    node.groups().update_group(update_of_group(change, &["tags"])).await.unwrap();
    assert!(search(&node, "games", KeywordMatch::Exact).await.is_empty());
    assert_eq!(search(&node, "go", KeywordMatch::Exact).await, [id]);
    let change = Group { group_id: id, visibility: Visibility::Private.into(), ..Default::default() };
    node.groups().update_group(update_of_group(change, &["visibility"])).await.unwrap();
    assert!(search(&node, "go", KeywordMatch::Exact).await.is_empty());
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

#[tokio::test]
async fn only_who_made_a_group_and_services_change_it() {
    let node = TestNode::start_with_relations(|_| {}).await;
    let [ann, bob] = users(&node).await;
    let request =
        CreateGroupRequest { group: Some(Group { creator_id: 0, ..chess() }), ..Default::default() };
    let group =
        node.groups().create_group(principal(ann, request)).await.unwrap().into_inner().group.unwrap();
    assert_eq!(group.creator_id, ann);
    let change = || {
        update_of_group(
            Group { group_id: group.group_id, name: "New".into(), ..Default::default() },
            &["name"],
        )
    };
    assert_denied(node.groups().update_group(principal(bob, change())).await);
    node.groups().update_group(principal(ann, change())).await.unwrap();
    node.groups().update_group(change()).await.unwrap();
    let secret = GetInviteCodeRequest { group_id: group.group_id };
    assert_eq!(
        node.groups().get_invite_code(principal(bob, secret)).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    let dismiss = DismissGroupRequest { group_id: group.group_id, ..Default::default() };
    assert_eq!(
        node.groups().dismiss_group(principal(bob, dismiss.clone())).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    assert_eq!(node.groups().dismiss_group(principal(ann, dismiss)).await.unwrap().into_inner().version, 4);
    let foreign =
        CreateGroupRequest { group: Some(Group { creator_id: bob, ..chess() }), ..Default::default() };
    assert_eq!(
        node.groups().create_group(principal(ann, foreign)).await.unwrap_err().code(),
        Code::PermissionDenied
    );
}

#[tokio::test]
async fn the_creator_cannot_be_changed() {
    let node = TestNode::start().await;
    let [ann] = users(&node).await;
    let id = node.group(Group { creator_id: ann, ..chess() }).await.group_id;
    let change = Group { group_id: id, creator_id: ann + 1, ..chess() };
    assert_invalid(
        node.groups().update_group(update_of_group(change.clone(), &["creator_id"])).await,
        "update_mask",
    );
    let change = Group { r#type: 1, join_policy: 1, ..change };
    let updated = node
        .groups()
        .update_group(update_of_group(change, &["*"]))
        .await
        .unwrap()
        .into_inner()
        .group
        .unwrap();
    assert_eq!(updated.creator_id, ann);
}

#[tokio::test]
async fn private_group_shows_its_code_to_no_reader() {
    let node = TestNode::start().await;
    let ann = node.user("ann").await.user_id;
    let group = node.group(Group { name: "Quiet".into(), creator_id: ann, ..Default::default() }).await;
    let secret = code(&node, group.group_id).await.unwrap();
    let request = GetGroupRequest { group_id: group.group_id, consistency: None };
    let read = node.groups().get_group(principal(ann, request)).await.unwrap().into_inner();
    assert!(!format!("{read:?}").contains(&secret));
}

#[tokio::test]
async fn tags_with_key_characters_do_not_collide() {
    let node = TestNode::start().await;
    let tags = ["a:b", "{a}", "a*", "a?", "=a", "^a", "a b", "'; DROP TABLE groups;--", "' OR 1=1"];
    let mut ids = Vec::new();
    for tag in tags {
        ids.push(node.group(Group { tags: vec![tag.into()], ..chess() }).await.group_id);
    }
    for (tag, id) in tags.iter().zip(&ids) {
        assert_eq!(search(&node, tag, KeywordMatch::Exact).await, [*id], "{tag}");
    }
    assert!(search(&node, "*", KeywordMatch::Prefix).await.is_empty());
}

#[tokio::test]
async fn found_groups_come_in_pages_by_ascending_id() {
    let node = TestNode::start().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(node.group(chess()).await.group_id);
    }
    let found = all_pages(async |page_token| {
        let keyword = "games".to_owned();
        let request = SearchGroupsRequest { keyword, page_size: 2, page_token, ..Default::default() };
        let page = node.groups().search_groups(request).await?.into_inner();
        Ok((page.groups, page.next_page_token))
    });
    let found = found.await.unwrap().into_iter().map(|group| group.group_id);
    assert_eq!(found.collect::<Vec<_>>(), ids);
}

#[tokio::test]
async fn creators_of_groups_exist() {
    let node = TestNode::start().await;
    let ann = node.user("ann").await.user_id;
    node.delete_user(ann).await;
    for creator_id in [ann, 4_711] {
        let group = Group { creator_id, ..chess() };
        let request = CreateGroupRequest { group: Some(group), ..Default::default() };
        assert_not_found(node.groups().create_group(request).await);
        let request = CreateGroupRequest { group: Some(chess()), ..Default::default() };
        assert_not_found(node.groups().create_group(principal(creator_id, request)).await);
    }
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
