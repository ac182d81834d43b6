//! Users over gRPC, as callers use them.

use crate::node::{
    TestNode, all_pages, assert_error, assert_exhausted, assert_forbidden, assert_invalid, assert_not_found,
    params, update_of_user,
};
use kith_proto::{
    r#type::v1::{AtLeast, Consistency, consistency::Level},
    user::v1::*,
};
use tonic::Code;

fn ann() -> User {
    User {
        user_name: "Ann".into(),
        nick_name: "安".into(),
        email: "Ann@Example.org".into(),
        phone: "+8613800138000".into(),
        gender: Gender::Female.into(),
        age: 30,
        region: "Zürich".into(),
        icon: "https://example.org/ann.png".into(),
        params: params([("title", "Dr"), ("pwd", "correct horse")]),
        ..Default::default()
    }
}

async fn create(node: &TestNode, user: User) -> CreateUserResponse {
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    node.users().create_user(request).await.unwrap().into_inner()
}

fn get(user_id: i64) -> GetUserRequest {
    GetUserRequest { user_id, consistency: None }
}

#[tokio::test]
async fn created_and_updated_user_is_read_back() {
    let node = TestNode::start().await;
    let created = create(&node, ann()).await.user.unwrap();
    assert!(created.user_id >= 10_000_000_000);
    assert_eq!(created.version, 1);
    let mut expected = ann();
    expected.params.remove("pwd");
    expected.user_id = created.user_id;
    expected.version = 1;
    expected.create_time = created.create_time;
    expected.update_time = created.update_time;
    assert_eq!(created, expected);
    let read = node.users().get_user(get(created.user_id)).await.unwrap().into_inner().user.unwrap();
    assert_eq!(read, expected);
    let change = User {
        user_id: created.user_id,
        nick_name: "Annie".into(),
        age: 31,
        params: params([("lang", "de")]),
        ..Default::default()
    };
    let request = update_of_user(change, &["nick_name", "params.lang", "params.title"]);
    let updated = node.users().update_user(request).await.unwrap().into_inner().user.unwrap();
    assert_eq!((updated.nick_name.as_str(), updated.age, updated.version), ("Annie", 30, 2));
    assert_eq!(updated.params, params([("lang", "de")]));
    let read = node.users().get_user(get(created.user_id)).await.unwrap().into_inner().user.unwrap();
    assert_eq!(read, updated);
    let change = User { user_id: created.user_id, user_name: "bob".into(), ..Default::default() };
    let updated =
        node.users().update_user(update_of_user(change, &["*"])).await.unwrap().into_inner().user.unwrap();
    assert_eq!((updated.user_name.as_str(), updated.email.as_str(), updated.age), ("bob", "", 0));
    assert!(updated.params.is_empty());
    assert!(
        verify(&node, created.user_id, "correct horse").await,
        "a whole change that says nothing of a secret leaves it"
    );
}

async fn verify(node: &TestNode, user_id: i64, secret: &str) -> bool {
    let request = VerifySecretRequest { user_id, name: "pwd".into(), secret: secret.into() };
    node.users().verify_secret(request).await.unwrap().into_inner().verified
}

#[tokio::test]
async fn secret_is_verified_changed_never_shown() {
    let node = TestNode::start().await;
    let id = create(&node, ann()).await.user.unwrap().user_id;
    assert!(verify(&node, id, "correct horse").await);
    assert!(!verify(&node, id, "wrong").await);
    let change = User { user_id: id, params: params([("pwd", "battery")]), ..Default::default() };
    let updated = node
        .users()
        .update_user(update_of_user(change, &["params.pwd"]))
        .await
        .unwrap()
        .into_inner()
        .user
        .unwrap();
    assert_eq!(updated.params, params([("title", "Dr")]));
    assert!(verify(&node, id, "battery").await);
    node.users()
        .update_user(update_of_user(User { user_id: id, ..Default::default() }, &["params.pwd"]))
        .await
        .unwrap();
    assert!(!verify(&node, id, "battery").await);
}

#[tokio::test]
async fn sixth_secret_try_in_a_minute_is_refused() {
    let node = TestNode::start().await;
    let id = create(&node, ann()).await.user.unwrap().user_id;
    for _ in 0..5 {
        assert!(!verify(&node, id, "wrong").await);
    }
    let request = VerifySecretRequest { user_id: id, name: "pwd".into(), secret: "correct horse".into() };
    assert_exhausted(node.users().verify_secret(request).await, "TOO_MANY_TRIES");
}

#[tokio::test]
async fn a_stale_update_is_aborted_and_changes_nothing() {
    let node = TestNode::start().await;
    let id = node.user("ann").await.user_id;
    let mut request = update_of_user(User { user_id: id, age: 5, ..Default::default() }, &["age"]);
    request.expected_version = 7;
    assert_error(node.users().update_user(request).await, Code::Aborted, "VERSION_CONFLICT");
    assert_eq!(node.users().get_user(get(id)).await.unwrap().into_inner().user.unwrap().version, 1);
}

#[tokio::test]
async fn deleted_user_is_gone_and_its_id_is_held() {
    // A cluster without a relation store has nothing that holds the id.
    let node = TestNode::start_with_relations(|_| {}).await;
    let user = User { user_id: 7, user_name: "ann".into(), ..Default::default() };
    create(&node, user).await;
    let request = DeleteUserRequest { user_id: 7, ..Default::default() };
    assert_eq!(node.users().delete_user(request).await.unwrap().into_inner().version, 2);
    assert_not_found(node.users().get_user(get(7)).await);
    let again = User { user_id: 7, user_name: "other".into(), ..Default::default() };
    let request = CreateUserRequest { user: Some(again), ..Default::default() };
    assert_forbidden(node.users().create_user(request).await);
}

#[tokio::test]
async fn deleted_name_is_reserved_then_free() {
    let node = TestNode::start_with(|config| config.users.name_kept = std::time::Duration::ZERO).await;
    let id = node.user("ann").await.user_id;
    node.delete_user(id).await;
    node.user("ANN").await;

    let node = TestNode::start().await;
    let id = node.user("ann").await.user_id;
    node.delete_user(id).await;
    let user = User { user_name: "ann".into(), ..Default::default() };
    let request = CreateUserRequest { user: Some(user), ..Default::default() };
    assert_error(node.users().create_user(request).await, Code::AlreadyExists, "NAME_TAKEN");
}

#[tokio::test]
async fn absence_is_forgotten_when_the_user_is_created() {
    let node = TestNode::start().await;
    assert_eq!(node.users().get_user(get(9)).await.unwrap_err().code(), Code::NotFound);
    create(&node, User { user_id: 9, user_name: "nine".into(), ..Default::default() }).await;
    assert_eq!(node.users().get_user(get(9)).await.unwrap().into_inner().user.unwrap().user_name, "nine");
}

#[tokio::test]
async fn a_batch_answers_every_id_in_order() {
    let node = TestNode::start().await;
    let (ann, bob) = (node.user("ann").await.user_id, node.user("bob").await.user_id);
    let request = BatchGetUsersRequest { user_ids: vec![bob, 5, ann, bob], consistency: None };
    let results = node.users().batch_get_users(request).await.unwrap().into_inner().results;
    assert_eq!(results.iter().map(|result| result.user_id).collect::<Vec<_>>(), [bob, 5, ann, bob]);
    let names: Vec<_> = results
        .iter()
        .map(|result| match result.result.as_ref().unwrap() {
            user_result::Result::User(user) => user.user_name.as_str(),
            user_result::Result::NotFound(_) => "-",
            user_result::Result::Error(error) => panic!("{error:?}"),
        })
        .collect();
    assert_eq!(names, ["bob", "-", "ann", "bob"]);
}

#[tokio::test]
async fn search_finds_exact_contacts_in_pages() {
    let node = TestNode::start().await;
    create(&node, ann()).await;
    for number in 0..5 {
        let user =
            User { user_name: format!("u{number}"), email: "team@example.org".into(), ..Default::default() };
        create(&node, user).await;
    }
    for keyword in ["ANN", "ann@EXAMPLE.org", "+8613800138000"] {
        let request = SearchUsersRequest { keyword: keyword.into(), ..Default::default() };
        assert_eq!(
            node.users().search_users(request).await.unwrap().into_inner().users.len(),
            1,
            "{keyword}"
        );
    }
    let mut pages = 0;
    let found = all_pages(async |page_token| {
        let keyword = "TEAM@example.org".to_owned();
        let request = SearchUsersRequest { keyword, page_size: 2, page_token, consistency: None };
        let page = node.users().search_users(request).await?.into_inner();
        pages += 1;
        assert!(pages <= 3);
        Ok((page.users, page.next_page_token))
    });
    let found = found.await.unwrap().into_iter().map(|user| user.user_name);
    assert_eq!(found.collect::<Vec<_>>(), ["u0", "u1", "u2", "u3", "u4"]);
    let search = |keyword: &str, page_token| SearchUsersRequest {
        keyword: keyword.into(),
        page_size: 2,
        page_token,
        consistency: None,
    };
    let page = node.users().search_users(search("team@example.org", String::new())).await.unwrap();
    let token = page.into_inner().next_page_token;
    assert_invalid(node.users().search_users(search("u1", token)).await, "page_token");
}

#[tokio::test]
async fn name_with_and_without_joiner_is_taken_once() {
    let node = TestNode::start().await;
    let id = node.user("می\u{200C}خواهم").await.user_id;
    let plain = User { user_name: "میخواهم".into(), ..Default::default() };
    let request = CreateUserRequest { user: Some(plain), ..Default::default() };
    assert_error(node.users().create_user(request).await, Code::AlreadyExists, "NAME_TAKEN");
    let request = FindUserByNameRequest { user_name: "میخواهم".into(), consistency: None };
    let found = node.users().find_user_by_name(request).await.unwrap().into_inner().user.unwrap();
    assert_eq!((found.user_id, found.user_name.as_str()), (id, "می\u{200C}خواهم"));
}

#[tokio::test]
async fn same_request_has_one_effect_and_answer() {
    let node = TestNode::start().await;
    let request = CreateUserRequest { user: Some(ann()), request_id: "r-1".into() };
    let first = node.users().create_user(request.clone()).await.unwrap().into_inner();
    let id = first.user.as_ref().unwrap().user_id;
    node.users()
        .update_user(update_of_user(User { user_id: id, age: 77, ..Default::default() }, &["age"]))
        .await
        .unwrap();
    let second = node.users().create_user(request).await.unwrap().into_inner();
    assert_eq!(first.user, second.user);
    let read = node.users().get_user(get(id)).await.unwrap().into_inner().user.unwrap();
    assert_eq!(
        (read.age, read.version),
        (77, 2),
        "the answer of a repeated request does not become the record"
    );
}

#[tokio::test]
async fn reads_accept_tokens_and_strong_consistency() {
    let node = TestNode::start().await;
    let created = create(&node, ann()).await;
    let id = created.user.unwrap().user_id;
    let levels = [
        Level::Strong(true),
        Level::AtLeast(AtLeast { consistency_tokens: vec![created.consistency_token] }),
    ];
    for level in levels {
        let request = GetUserRequest { user_id: id, consistency: Some(Consistency { level: Some(level) }) };
        node.users().get_user(request).await.unwrap();
    }
    let forged = Level::AtLeast(AtLeast { consistency_tokens: vec!["forged".into()] });
    let request = GetUserRequest { user_id: id, consistency: Some(Consistency { level: Some(forged) }) };
    assert_invalid(node.users().get_user(request).await, "consistency.at_least.consistency_tokens");
}

#[tokio::test]
async fn import_answers_all_and_export_returns_all() {
    let node = TestNode::start().await;
    node.user("taken").await;
    let names = ["a", "", "taken", "b"];
    let records = (1..).zip(names).map(|(record, name)| ImportUser {
        record,
        user: Some(User { user_name: name.into(), ..Default::default() }),
        request_id: format!("import-{record}"),
    });
    let message = ImportUsersRequest { records: records.collect() };
    let stream = tokio_stream::iter([message.clone(), message]);
    let mut answers = node.users().import_users(stream).await.unwrap().into_inner();
    for _ in 0..2 {
        let results = answers.message().await.unwrap().unwrap().results;
        let outcomes: Vec<_> = results
            .into_iter()
            .map(|result| match result.result.unwrap() {
                kith_proto::r#type::v1::import_result::Result::Id(_) => (result.record, String::new()),
                kith_proto::r#type::v1::import_result::Result::Error(error) => (result.record, error.reason),
            })
            .collect();
        let expected = [(1, ""), (2, "INVALID_FIELD"), (3, "NAME_TAKEN"), (4, "")];
        assert_eq!(outcomes, expected.map(|(record, reason)| (record, reason.to_owned())));
    }
    assert!(answers.message().await.unwrap().is_none());
    let mut pages = node.users().export_users(ExportUsersRequest::default()).await.unwrap().into_inner();
    let mut exported = Vec::new();
    while let Some(page) = pages.message().await.unwrap() {
        exported.extend(page.users.into_iter().map(|user| user.user_name));
    }
    exported.sort();
    assert_eq!(exported, ["a", "b", "taken"]);
}
