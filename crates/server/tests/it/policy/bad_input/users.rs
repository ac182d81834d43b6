//! Bad input, by the rows in the attack table: the stated code, and a healthy node afterwards.

use std::collections::BTreeMap;

use crate::node::{
    TestNode, assert_error, assert_invalid, assert_not_found, assert_reused, params, principal,
    update_of_user,
};
use kith_proto::{group::v1 as groups, user::v1::*};
use tonic::{Code, Request, Status};

fn named(name: &str) -> User {
    User { user_name: name.into(), ..Default::default() }
}

async fn try_create(node: &TestNode, user: User) -> Result<User, Status> {
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    Ok(node.users().create_user(request).await?.into_inner().user.unwrap())
}

async fn try_update(node: &TestNode, user: User, paths: &[&str]) -> Result<User, Status> {
    Ok(node.users().update_user(update_of_user(user, paths)).await?.into_inner().user.unwrap())
}

async fn assert_field_refused(node: &TestNode, user: User, field: &str) {
    assert_invalid(try_create(node, user).await, field);
    node.assert_healthy().await;
}

#[tokio::test]
async fn a21_ids_of_zero_and_below_are_refused() {
    let node = TestNode::start().await;
    for user_id in [0, -1, i64::MIN] {
        assert_invalid(node.users().get_user(GetUserRequest { user_id, consistency: None }).await, "user_id");
    }
    for group_id in [0, -1, i64::MIN] {
        let request = groups::GetGroupRequest { group_id, consistency: None };
        assert_invalid(node.groups().get_group(request).await, "group_id");
    }
    assert_field_refused(&node, User { user_id: -1, ..named("ann") }, "user_id").await;
}

#[tokio::test]
async fn a21_the_largest_id_is_an_id() {
    let node = TestNode::start().await;
    let user = try_create(&node, User { user_id: i64::MAX - 1, ..named("last") }).await.unwrap();
    assert_eq!(user.user_id, i64::MAX - 1);
    assert!(try_create(&node, named("next")).await.unwrap().user_id < i64::MAX - 1);
    node.assert_healthy().await;
}

#[tokio::test]
async fn a22_an_unknown_user_is_not_found() {
    let node = TestNode::start().await;
    for _ in 0..2 {
        assert_not_found(node.users().get_user(GetUserRequest { user_id: 5, consistency: None }).await);
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a26_empty_long_misleading_names_are_refused() {
    let node = TestNode::start().await;
    let long = "x".repeat(65);
    let bad =
        ["", " ", &long, "a\u{7}b", "a\u{202E}b", "a\0b", "zero\u{200B}width", "bom\u{FEFF}", "line\nbreak"];
    for name in bad {
        assert_field_refused(&node, named(name), "user_name").await;
    }
    assert_field_refused(&node, User { nick_name: "a\u{202E}b".into(), ..named("ann") }, "nick_name").await;
    assert_field_refused(&node, User { nick_name: "x".repeat(129), ..named("ann") }, "nick_name").await;
    for blank in ["\u{200B}", "\u{3164}", "\u{2800}", " "] {
        assert_field_refused(&node, named(blank), "user_name").await;
        assert_field_refused(&node, User { nick_name: blank.into(), ..named("ann") }, "nick_name").await;
    }
    let folded_is_long = try_create(&node, named(&"ß".repeat(40))).await.unwrap();
    assert_eq!(folded_is_long.user_name, "ß".repeat(40));
}

#[tokio::test]
async fn a27_invalid_emails_and_phones_are_refused() {
    let node = TestNode::start().await;
    let long = format!("{}@example.org", "x".repeat(250));
    for email in ["ann", "@", "ann@", "a@b@c.org", "mailto:a@b.org", "a@[::1]", "a@b..org", &long] {
        assert_field_refused(&node, User { email: email.into(), ..named("ann") }, "email").await;
    }
    for phone in ["123", "13800138000", "+1", "+1234567890123456", "+12 34 56 78"] {
        assert_field_refused(&node, User { phone: phone.into(), ..named("ann") }, "phone").await;
    }
}

#[tokio::test]
async fn a28_invalid_ages_and_genders_are_refused() {
    let node = TestNode::start().await;
    for age in [-1, 151, 1000, i32::MIN] {
        assert_field_refused(&node, User { age, ..named("ann") }, "age").await;
    }
    for gender in [-1, 4, 99] {
        assert_field_refused(&node, User { gender, ..named("ann") }, "gender").await;
    }
}

#[tokio::test]
async fn a29_a30_operator_and_path_keys_are_refused() {
    let node = TestNode::start().await;
    for key in ["$set", "$where", "a.b", "", "_id", "__proto__", "a\0b", "ключ", "a b"] {
        assert_field_refused(&node, User { params: params([(key, "x")]), ..named("ann") }, "params").await;
    }
    assert_field_refused(&node, User { params: params([("key", "a\0b")]), ..named("ann") }, "params").await;
}

#[tokio::test]
async fn a31_too_many_or_too_large_params_are_refused() {
    let node = TestNode::start().await;
    let many: BTreeMap<_, _> = (0..10_001).map(|n| (format!("k{n}"), String::new())).collect();
    assert_field_refused(&node, User { params: many, ..named("ann") }, "params").await;
    let large = params([("k", &"x".repeat(65_536))]);
    assert_field_refused(&node, User { params: large, ..named("ann") }, "params").await;
    let huge = params([("k", &"x".repeat(2 << 20))]);
    let refused = try_create(&node, User { params: huge, ..named("ann") }).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    node.assert_healthy().await;
}

#[tokio::test]
async fn a31_params_cannot_grow_past_the_limit() {
    let node = TestNode::start().await;
    let id = try_create(&node, named("ann")).await.unwrap().user_id;
    let piece = |n: usize| User {
        user_id: id,
        params: [(format!("k{n}"), "x".repeat(16_000))].into(),
        ..Default::default()
    };
    for n in 0..4 {
        try_update(&node, piece(n), &[&format!("params.k{n}")]).await.unwrap();
    }
    assert_invalid(try_update(&node, piece(4), &["params.k4"]).await, "params");
    node.assert_healthy().await;
}

#[tokio::test]
async fn a32_a33_empty_or_forbidden_masks_are_refused() {
    let node = TestNode::start().await;
    let id = try_create(&node, named("ann")).await.unwrap().user_id;
    let user = || User { user_id: id, ..named("ann") };
    let paths =
        ["params.x.$[]", "params.", "params.$x", "user_id", "userId", "pwd", "ver", "version", "", "no_such"];
    for path in paths {
        assert_invalid(try_update(&node, user(), &[path]).await, "update_mask");
    }
    assert_invalid(try_update(&node, user(), &[]).await, "update_mask");
    node.assert_healthy().await;
}

#[tokio::test]
async fn a34_a35_keywords_are_compared_literally() {
    let node = TestNode::start().await;
    try_create(&node, User { email: "ann@example.org".into(), ..named("ann") }).await.unwrap();
    for keyword in [".*", "(a+)+$", "^", "%", "_nn", "a%", "{\"$ne\":null}", "' OR 1=1"] {
        let request = SearchUsersRequest { keyword: keyword.into(), ..Default::default() };
        assert!(node.users().search_users(request).await.unwrap().into_inner().users.is_empty(), "{keyword}");
    }
    for keyword in ["", &"x".repeat(255), &"x".repeat(10_240)] {
        let request = SearchUsersRequest { keyword: keyword.into(), ..Default::default() };
        assert_invalid(node.users().search_users(request).await, "keyword");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a36_texts_like_queries_are_stored_unchanged() {
    let node = TestNode::start().await;
    for (n, text) in ["'; DROP TABLE users;--", "' OR 1=1", "{\"$gt\":\"\"}", "<script>"].iter().enumerate() {
        let user = User { nick_name: (*text).into(), ..named(&format!("name{n}")) };
        let user = try_create(&node, user).await.unwrap();
        let read =
            node.users().get_user(GetUserRequest { user_id: user.user_id, consistency: None }).await.unwrap();
        assert_eq!(read.into_inner().user.unwrap().nick_name, *text);
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a62_a_replayed_request_has_no_second_effect() {
    let node = TestNode::start().await;
    let id = try_create(&node, named("ann")).await.unwrap().user_id;
    let user = User { user_id: id, age: 8, ..Default::default() };
    let request =
        || UpdateUserRequest { request_id: "replayed".into(), ..update_of_user(user.clone(), &["age"]) };
    let first = node.users().update_user(request()).await.unwrap().into_inner();
    for _ in 0..3 {
        assert_eq!(node.users().update_user(request()).await.unwrap().into_inner().user, first.user);
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a63_request_ids_that_are_none_are_refused() {
    let node = TestNode::start().await;
    for request_id in ["a b", "ä", "a/b", &"x".repeat(65)] {
        let request = CreateUserRequest { user: Some(named("ann")), request_id: request_id.into() };
        assert_invalid(node.users().create_user(request).await, "request_id");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a64_a_request_id_with_another_body_is_refused() {
    let node = TestNode::start().await;
    let request = |name| CreateUserRequest { user: Some(named(name)), request_id: "one".into() };
    node.users().create_user(request("ann")).await.unwrap();
    assert_reused(node.users().create_user(request("bob")).await, "request_id");
    let request = DeleteUserRequest { user_id: 1, request_id: "one".into(), ..Default::default() };
    assert_reused(node.users().delete_user(request).await, "request_id");
    let request = |age, secret| {
        let user = User { age, params: params([("pwd", secret)]), ..named("cid") };
        CreateUserRequest { user: Some(user), request_id: "two".into() }
    };
    node.users().create_user(request(30, "one")).await.unwrap();
    for other in [request(31, "one"), request(30, "another")] {
        assert_reused(node.users().create_user(other).await, "request_id");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a65_forms_of_a_taken_name_are_taken() {
    let node = TestNode::start().await;
    try_create(&node, named("José ﬃ")).await.unwrap();
    for form in ["JOSÉ FFI", "Jose\u{301} ffi", "Ｊｏｓé ﬃ", "josé ffi"] {
        assert_error(try_create(&node, named(form)).await, Code::AlreadyExists, "NAME_TAKEN");
    }
    assert_field_refused(&node, named("Jo\u{200D}sé ﬃ"), "user_name").await;
}

#[tokio::test]
async fn a66_reserved_names_and_look_alikes_refused() {
    let node = TestNode::start().await;
    for name in ["admin", "ADMIN", "аdmin", "ａｄｍｉｎ", "system"] {
        assert_field_refused(&node, named(name), "user_name").await;
    }
    let id = try_create(&node, named("ann")).await.unwrap().user_id;
    let refused = try_update(&node, User { user_id: id, ..named("rооt") }, &["user_name"]).await;
    assert_invalid(refused, "user_name");
}

#[tokio::test]
async fn a67_one_of_64_callers_gets_a_name() {
    let node = TestNode::start().await;
    let callers = (0..64).map(|_| try_create(&node, named("wanted")));
    let results = futures::future::join_all(callers).await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 63));
    for refused in lost {
        assert_error(refused, Code::AlreadyExists, "NAME_TAKEN");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a68_page_sizes_have_a_default_and_a_limit() {
    let node = TestNode::start().await;
    for (page_size, fine) in [(0, true), (1001, true), (i32::MAX, true), (-1, false)] {
        let request = SearchUsersRequest { keyword: "ann".into(), page_size, ..Default::default() };
        let answer = node.users().search_users(request).await;
        assert_eq!(answer.is_ok(), fine, "{page_size}");
        if !fine {
            assert_invalid(answer, "page_size");
        }
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a69_forged_or_foreign_tokens_are_refused() {
    let node = TestNode::start().await;
    for n in 0..3 {
        try_create(&node, User { email: "team@example.org".into(), ..named(&format!("u{n}")) })
            .await
            .unwrap();
    }
    let request = |keyword: &str, page_token: &str| SearchUsersRequest {
        keyword: keyword.into(),
        page_size: 1,
        page_token: page_token.into(),
        consistency: None,
    };
    let first = node.users().search_users(request("team@example.org", "")).await.unwrap().into_inner();
    let token = first.next_page_token;
    let mut flipped = token.clone().into_bytes();
    flipped[4] = if flipped[4] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    for (keyword, token) in [("team@example.org", "forged"), ("team@example.org", &flipped), ("u1", &token)] {
        assert_invalid(node.users().search_users(request(keyword, token)).await, "page_token");
    }
    let search =
        groups::SearchGroupsRequest { keyword: "u1".into(), page_token: token, ..Default::default() };
    assert_eq!(node.groups().search_groups(search).await.unwrap_err().code(), Code::InvalidArgument);
    node.assert_healthy().await;
}

#[tokio::test]
async fn a71_a_batch_of_too_many_ids_is_refused() {
    let node = TestNode::start().await;
    for count in [1001, 10_001] {
        let request = BatchGetUsersRequest { user_ids: (1..=count).collect(), consistency: None };
        assert_invalid(node.users().batch_get_users(request).await, "user_ids");
    }
    let request = BatchGetUsersRequest { user_ids: vec![1, 0], consistency: None };
    assert_invalid(node.users().batch_get_users(request).await, "user_ids");
    node.assert_healthy().await;
}

#[tokio::test]
async fn a72_id_given_1000_times_is_loaded_once() {
    let node = TestNode::start().await;
    let id = try_create(&node, named("ann")).await.unwrap().user_id;
    node.admin().flush_memory(kith_proto::admin::v1::FlushMemoryRequest::default()).await.unwrap();
    let loads = || async {
        let stats =
            node.admin().get_cache_stats(kith_proto::admin::v1::GetCacheStatsRequest {}).await.unwrap();
        let namespaces = stats.into_inner().namespaces;
        namespaces.into_iter().find(|namespace| namespace.namespace == "user").unwrap().loads
    };
    let before = loads().await;
    let request = BatchGetUsersRequest { user_ids: vec![id; 1000], consistency: None };
    assert_eq!(node.users().batch_get_users(request).await.unwrap().into_inner().results.len(), 1000);
    assert_eq!(loads().await - before, 1);
    node.assert_healthy().await;
}

#[tokio::test]
async fn an_acting_user_that_is_none_is_refused() {
    let node = TestNode::start().await;
    for text in ["", "ann", "0", "-1", "9223372036854775808"] {
        let mut request = Request::new(GetUserRequest { user_id: 1, consistency: None });
        request.metadata_mut().insert("kith-acting-user", text.parse().unwrap());
        let refused = node.users().get_user(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{text}: {refused:?}");
    }
    let request = principal(1, GetUserRequest { user_id: 1, consistency: None });
    assert_eq!(node.users().get_user(request).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_request_without_its_record_is_refused() {
    let node = TestNode::start().await;
    assert_invalid(node.users().create_user(CreateUserRequest::default()).await, "user");
    assert_invalid(node.groups().create_group(groups::CreateGroupRequest::default()).await, "group");
}
