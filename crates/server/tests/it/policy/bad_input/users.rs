//! Bad input, by the rows in the attack table: the stated code, and a healthy node afterwards.

use crate::node::{TestNode, assert_invalid, assert_reused, params, update_of_user};
use kith_proto::user::v1::*;
use tonic::{Code, Status};

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

#[tokio::test]
async fn a21_the_largest_id_is_an_id() {
    let node = TestNode::start().await;
    let user = try_create(&node, User { user_id: i64::MAX - 1, ..named("last") }).await.unwrap();
    assert_eq!(user.user_id, i64::MAX - 1);
    assert!(try_create(&node, named("next")).await.unwrap().user_id < i64::MAX - 1);
    node.assert_healthy().await;
}

#[tokio::test]
async fn a26_to_a31_wrong_records_are_refused() {
    let node = TestNode::start().await;
    let long_name = "x".repeat(65);
    let long_email = format!("{}@example.org", "x".repeat(250));
    let mut wrong = Vec::new();
    for name in ["", " ", &long_name, "\u{200B}", "\u{3164}", "\u{2800}"] {
        wrong.push((named(name), "user_name"));
    }
    for nick_name in [&"x".repeat(129), "\u{200B}", "\u{3164}", "\u{2800}", " "] {
        wrong.push((User { nick_name: nick_name.into(), ..named("ann") }, "nick_name"));
    }
    for email in ["ann", "@", "ann@", "a@b@c.org", "mailto:a@b.org", "a@[::1]", "a@b..org", &long_email] {
        wrong.push((User { email: email.into(), ..named("ann") }, "email"));
    }
    for phone in ["123", "13800138000", "+1", "+1234567890123456", "+12 34 56 78"] {
        wrong.push((User { phone: phone.into(), ..named("ann") }, "phone"));
    }
    for age in [-1, 151, 1000, i32::MIN] {
        wrong.push((User { age, ..named("ann") }, "age"));
    }
    for key in ["$set", "$where", "a.b", "", "_id", "__proto__", "a\0b", "ключ", "a b"] {
        wrong.push((User { params: params([(key, "x")]), ..named("ann") }, "params"));
    }
    let many = (0..10_001).map(|n| (format!("k{n}"), String::new())).collect();
    for params in [params([("key", "a\0b")]), many, params([("k", &"x".repeat(65_536))])] {
        wrong.push((User { params, ..named("ann") }, "params"));
    }
    for (user, field) in wrong {
        assert_invalid(try_create(&node, user).await, field);
    }
    let huge = params([("k", &"x".repeat(2 << 20))]);
    let refused = try_create(&node, User { params: huge, ..named("ann") }).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let folded_is_long = try_create(&node, named(&"ß".repeat(40))).await.unwrap();
    assert_eq!(folded_is_long.user_name, "ß".repeat(40));
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
async fn a35_empty_or_long_keywords_are_refused() {
    let node = TestNode::start().await;
    for keyword in ["", &"x".repeat(255), &"x".repeat(10_240)] {
        let request = SearchUsersRequest { keyword: keyword.into(), ..Default::default() };
        assert_invalid(node.users().search_users(request).await, "keyword");
    }
    node.assert_healthy().await;
}

#[tokio::test]
async fn a64_id_with_another_secret_is_refused() {
    let node = TestNode::start().await;
    let request = |age, secret| {
        let user = User { age, params: params([("pwd", secret)]), ..named("cid") };
        CreateUserRequest { user: Some(user), request_id: "two".into() }
    };
    node.users().create_user(request(30, "one")).await.unwrap();
    for other in [request(31, "one"), request(30, "another")] {
        assert_reused(node.users().create_user(other).await, "request_id");
    }
}

#[tokio::test]
async fn a66_reserved_names_and_look_alikes_refused() {
    let node = TestNode::start().await;
    for name in ["admin", "ADMIN", "аdmin", "ａｄｍｉｎ", "system"] {
        assert_invalid(try_create(&node, named(name)).await, "user_name");
    }
    let id = try_create(&node, named("ann")).await.unwrap().user_id;
    let refused = try_update(&node, User { user_id: id, ..named("rооt") }, &["user_name"]).await;
    assert_invalid(refused, "user_name");
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
