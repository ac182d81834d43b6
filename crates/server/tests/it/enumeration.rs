//! An acting user cannot find things out by trying: rows A54 to A58 in the threats.

use crate::group_calls::make;
use crate::node::{TestNode, assert_exhausted, assert_invalid, params, principal};
use kith_proto::{group::v1 as groups, user::v1 as users};
use tonic::Status;
use tonic_types::StatusExt as _;

const CURIOUS: i64 = 77;
const OWNER: i64 = 5;

/// Users who try, and a user who owns a group.
async fn try_outs(node: &TestNode) {
    for user_id in [OWNER, CURIOUS, CURIOUS + 1] {
        let user = users::User { user_id, user_name: format!("tries{user_id}"), ..Default::default() };
        let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
        node.users().create_user(request).await.unwrap();
    }
}

async fn people(node: &TestNode) -> i64 {
    try_outs(node).await;
    let user = users::User {
        user_name: "Ann".into(),
        email: "ann@example.org".into(),
        phone: "+8613800138000".into(),
        params: params([("title", "Dr"), ("pwd", "correct horse"), ("sid", "session")]),
        ..Default::default()
    };
    let request = users::CreateUserRequest { user: Some(user), ..Default::default() };
    node.users().create_user(request).await.unwrap().into_inner().user.unwrap().user_id
}

async fn search(node: &TestNode, user: i64, keyword: &str) -> Result<Vec<users::User>, Status> {
    let request = users::SearchUsersRequest { keyword: keyword.into(), ..Default::default() };
    Ok(node.users().search_users(principal(user, request)).await?.into_inner().users)
}

async fn search_groups(
    node: &TestNode,
    user: i64,
    keyword: &str,
    r#match: groups::KeywordMatch,
) -> Result<Vec<groups::Group>, Status> {
    let request = groups::SearchGroupsRequest {
        keyword: keyword.into(),
        r#match: r#match.into(),
        ..Default::default()
    };
    Ok(node.groups().search_groups(principal(user, request)).await?.into_inner().groups)
}

#[tokio::test]
async fn a54_refused_address_lists_reveal_nothing() {
    let node = TestNode::start().await;
    people(&node).await;
    let mut answered = 0;
    // The loop uses a minute's quota, and the part that is restored every two seconds meanwhile.
    for number in 0..60 {
        match search(&node, CURIOUS, &format!("{number}@example.org")).await {
            Ok(found) => answered += usize::from(found.is_empty()),
            Err(_) => break,
        }
    }
    assert!((30..50).contains(&answered), "{answered} were answered");
    let mut refusals = Vec::new();
    for keyword in ["ann@example.org", "nobody@example.org", ""] {
        let refused = assert_exhausted(search(&node, CURIOUS, keyword).await, "TOO_MANY_TRIES");
        let wait = refused.get_error_details().retry_info().unwrap().retry_delay.unwrap();
        assert!(wait.as_secs() > 0, "{wait:?}");
        let mut names: Vec<_> = refused.metadata().keys().map(|key| format!("{key:?}")).collect();
        names.sort();
        refusals.push((refused.message().to_owned(), refused.details().to_vec(), names));
    }
    assert!(refusals.windows(2).all(|two| two[0] == two[1]), "{refusals:?}");
    assert_exhausted(
        search_groups(&node, CURIOUS, "chess", groups::KeywordMatch::Exact).await,
        "TOO_MANY_TRIES",
    );
    assert_eq!(
        search(&node, CURIOUS + 1, "ann@example.org").await.unwrap().len(),
        1,
        "others are not hindered"
    );
}

#[tokio::test]
async fn a54_names_cannot_be_tried_by_find_either() {
    let node = TestNode::start_with(|config| config.limits.searches_per_minute = 2).await;
    people(&node).await;
    let find = |name: &str| users::FindUserByNameRequest { user_name: name.into(), consistency: None };
    node.users().find_user_by_name(principal(CURIOUS, find("ann"))).await.unwrap();
    assert!(search(&node, CURIOUS, "bob").await.unwrap().is_empty(), "both count");
    let mut refusals = Vec::new();
    for name in ["ann", "nobody", ""] {
        let refused = assert_exhausted(
            node.users().find_user_by_name(principal(CURIOUS, find(name))).await,
            "TOO_MANY_TRIES",
        );
        refusals.push(refused.message().to_owned());
    }
    assert!(refusals.windows(2).all(|two| two[0] == two[1]), "{refusals:?}");
    for _ in 0..5 {
        node.users().find_user_by_name(find("ann")).await.unwrap();
    }
}

#[tokio::test]
async fn a54_hits_and_misses_have_the_same_form() {
    let node = TestNode::start_with(|config| config.limits.searches_per_minute = 2).await;
    people(&node).await;
    let mut forms = Vec::new();
    for keyword in ["ann@example.org", "nobody@example.org"] {
        let request = users::SearchUsersRequest { keyword: keyword.into(), ..Default::default() };
        let answer = node.users().search_users(principal(CURIOUS, request)).await.unwrap();
        let mut names: Vec<_> = answer.metadata().keys().map(|key| format!("{key:?}")).collect();
        names.sort();
        forms.push((names, answer.get_ref().next_page_token.clone()));
    }
    assert_eq!(forms[0], forms[1]);
    assert!(search(&node, CURIOUS, "ann@example.org").await.is_err());
    for _ in 0..100 {
        let request = users::SearchUsersRequest { keyword: "ann@example.org".into(), ..Default::default() };
        assert_eq!(node.users().search_users(request).await.unwrap().into_inner().users.len(), 1);
    }
}

#[tokio::test]
async fn a55_found_users_show_no_contact_or_secret() {
    let node = TestNode::start().await;
    let id = people(&node).await;
    let mut seen = Vec::new();
    for keyword in ["ann@example.org", "+8613800138000", "ann"] {
        seen.extend(search(&node, CURIOUS, keyword).await.unwrap());
    }
    let request = users::FindUserByNameRequest { user_name: "ann".into(), consistency: None };
    seen.extend(node.users().find_user_by_name(principal(CURIOUS, request)).await.unwrap().into_inner().user);
    let request = users::GetUserRequest { user_id: id, consistency: None };
    seen.extend(node.users().get_user(principal(CURIOUS, request)).await.unwrap().into_inner().user);
    let request = users::BatchGetUsersRequest { user_ids: vec![id], consistency: None };
    let batch = node.users().batch_get_users(principal(CURIOUS, request)).await.unwrap().into_inner();
    for result in batch.results {
        let Some(users::user_result::Result::User(user)) = result.result else { panic!("{result:?}") };
        seen.push(user);
    }
    assert_eq!(seen.len(), 6);
    for user in seen {
        assert_eq!((user.email.as_str(), user.phone.as_str()), ("", ""));
        assert_eq!(user.params, params([("title", "Dr")]));
    }
    let own = search(&node, id, "ann@example.org").await.unwrap().remove(0);
    assert_eq!((own.phone.as_str(), own.params), ("+8613800138000", params([("title", "Dr")])));
}

#[tokio::test]
async fn a56_private_group_is_never_found() {
    let node = TestNode::start().await;
    try_outs(&node).await;
    let group = groups::Group {
        name: "Quiet corner".into(),
        tags: vec!["silence".into()],
        visibility: groups::Visibility::Private.into(),
        ..Default::default()
    };
    let id = make(&node, OWNER, group).await;
    let keywords = ["quiet corner".to_owned(), "Quiet".to_owned(), "silence".to_owned(), id.to_string()];
    for keyword in &keywords {
        for r#match in [groups::KeywordMatch::Exact, groups::KeywordMatch::Prefix] {
            for user in [OWNER, CURIOUS] {
                let found = search_groups(&node, user, keyword, r#match).await.unwrap();
                assert!(found.is_empty(), "{keyword} {match:?} by {user}");
            }
            let request = groups::SearchGroupsRequest {
                keyword: keyword.clone(),
                r#match: r#match.into(),
                ..Default::default()
            };
            assert!(node.groups().search_groups(request).await.unwrap().into_inner().groups.is_empty());
        }
    }
}

#[tokio::test]
async fn a58_no_answer_holds_the_invite_code() {
    let node = TestNode::start().await;
    let group = groups::Group {
        name: "Chess".into(),
        visibility: groups::Visibility::Public.into(),
        join_policy: groups::JoinPolicy::Code.into(),
        params: params([("lang", "zh")]),
        ..Default::default()
    };
    let id = node.group(group.clone()).await.group_id;
    let code = groups::GetInviteCodeRequest { group_id: id };
    let code = node.groups().get_invite_code(code).await.unwrap().into_inner().invite_code;
    let mut seen = search_groups(&node, CURIOUS, "chess", groups::KeywordMatch::Exact).await.unwrap();
    let request = groups::GetGroupRequest { group_id: id, consistency: None };
    seen.extend(node.groups().get_group(principal(CURIOUS, request)).await.unwrap().into_inner().group);
    let request = groups::BatchGetGroupsRequest { group_ids: vec![id], consistency: None };
    let batch = node.groups().batch_get_groups(principal(CURIOUS, request)).await.unwrap().into_inner();
    for result in batch.results {
        let Some(groups::group_result::Result::Group(group)) = result.result else { panic!("{result:?}") };
        seen.push(group);
    }
    let mut export =
        node.groups().export_groups(groups::ExportGroupsRequest::default()).await.unwrap().into_inner();
    seen.extend(export.message().await.unwrap().unwrap().groups);
    assert_eq!(seen.len(), 4);
    for group in seen {
        assert!(!format!("{group:?}").contains(&code));
        assert_eq!(group.params, params([("lang", "zh")]));
    }
    let named = groups::Group { params: params([("code", "mine")]), ..group };
    let request = groups::CreateGroupRequest { group: Some(named), ..Default::default() };
    assert_invalid(node.groups().create_group(request).await, "params");
}
