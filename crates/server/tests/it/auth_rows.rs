//! The limits for callers: contacts, request ids, slots, and the side doors in HTTP.

use kith_proto::{
    relation::v1::{BlockRequest, relation_service_client::RelationServiceClient},
    user::v1::{user_service_client::UserServiceClient, *},
};
use kith_server::auth::{Rights, Scope, parse_scopes};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::{
    node::{assert_error, assert_refused, assert_reused},
    secured_node::{ALL, SecuredNode, acting, all_but, by},
};

const ANN: i64 = 7;
const BOB: i64 = 8;

fn preset(name: &str) -> (String, Rights) {
    (name.to_owned(), parse_scopes([name]).unwrap())
}

/// Starts a node that knows a caller with each preset, and two users with addresses.
async fn node(presets: &[&str]) -> SecuredNode {
    let more =
        [("without-contact".to_owned(), all_but(Scope::UserContact)), ("second".to_owned(), Rights::ALL)];
    let node = SecuredNode::start(presets.iter().map(|name| preset(name)).chain(more)).await;
    for (user_id, name) in [(ANN, "ann"), (BOB, "bob")] {
        let user = User {
            user_id,
            user_name: name.into(),
            email: format!("{name}@example.org"),
            phone: format!("+4917012345{user_id}"),
            ..Default::default()
        };
        node.create_user(user).await;
    }
    node
}

fn get(user_id: i64) -> GetUserRequest {
    GetUserRequest { user_id, consistency: None }
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

/// Each error names the change that its caller has to make, and no error contradicts another.
#[tokio::test]
async fn one_preset_signs_users_up_and_acts_for_them() {
    let node = node(&["backend", "signup"]).await;
    let create = |name: &str| {
        let user = User { user_name: name.into(), ..Default::default() };
        CreateUserRequest { user: Some(user), ..Default::default() }
    };
    let refused = node.users().create_user(by("backend", create("cid"))).await;
    let refused = assert_error(refused, Code::PermissionDenied, "SCOPE_MISSING");
    assert_eq!(refused.get_error_details().error_info().unwrap().metadata["scope"], "user:own");
    let refused = node.users().create_user(acting("backend", ANN, create("cid"))).await;
    let refused = assert_error(refused, Code::PermissionDenied, "NOT_ALLOWED");
    assert!(refused.message().contains("user:own"), "{refused:?}");
    let refused = node.users().get_user(by("backend", get(ANN))).await;
    let refused = assert_error(refused, Code::PermissionDenied, "ACTING_USER_NEEDED");
    assert!(refused.message().contains("user:own"), "{refused:?}");

    let made = node.users().create_user(by("signup", create("cid"))).await.unwrap().into_inner();
    let cid = made.user.unwrap().user_id;
    let mut relations = RelationServiceClient::new(node.channel.clone());
    let block = BlockRequest { user_id: cid, target_id: BOB, ..Default::default() };
    assert_error(
        relations.block(by("signup", block.clone())).await,
        Code::PermissionDenied,
        "ACTING_USER_NEEDED",
    );
    relations.block(acting("signup", cid, block)).await.unwrap();
    let found = node.users().get_user(acting("signup", cid, get(ANN))).await.unwrap().into_inner();
    assert_eq!(found.user.unwrap().email, "", "no contact of others");
}

/// Covers threat A55.
#[tokio::test]
async fn contacts_are_for_their_user_and_the_scope() {
    let node = node(&["backend", "service"]).await;
    let contact = |user: User| (user.email, user.phone);
    let shown = ("ann@example.org".to_owned(), "+49170123457".to_owned());
    let none = (String::new(), String::new());
    let got = async |request: Request<GetUserRequest>| {
        let found = node.users().get_user(request).await.unwrap().into_inner();
        contact(found.user.unwrap())
    };
    assert_eq!(got(by("service", get(ANN))).await, shown);
    assert_eq!(got(by("without-contact", get(ANN))).await, none);
    assert_eq!(got(acting("backend", ANN, get(ANN))).await, shown, "the own address");
    assert_eq!(got(acting("backend", BOB, get(ANN))).await, none);
    let search = SearchUsersRequest { keyword: "ann@example.org".into(), ..Default::default() };
    for request in [by("without-contact", search.clone()), acting("backend", BOB, search)] {
        let found = node.users().search_users(request).await.unwrap().into_inner().users;
        assert_eq!(found.into_iter().map(contact).collect::<Vec<_>>(), std::slice::from_ref(&none));
    }
}

#[tokio::test]
async fn export_has_contacts_only_with_the_scope() {
    let node = node(&[]).await;
    let addresses = async |name: &str| {
        let mut stream =
            node.users().export_users(by(name, ExportUsersRequest::default())).await.unwrap().into_inner();
        let found = stream.message().await.unwrap().unwrap().users;
        found.into_iter().map(|user| user.email).collect::<Vec<_>>()
    };
    assert_eq!(addresses(ALL).await, ["ann@example.org", "bob@example.org"]);
    assert_eq!(addresses("without-contact").await, ["", ""]);
}

/// Covers D14: a search by an address is a lookup.
#[tokio::test]
async fn caller_without_contacts_has_a_users_quota() {
    let node = node(&["reader", "login", "service"]).await;
    let search = async |caller: &str| {
        let request = SearchUsersRequest { keyword: "ann@example.org".into(), ..Default::default() };
        node.users().search_users(by(caller, request)).await
    };
    let mut refused = None;
    // The loop uses a minute's quota, and the part that is restored meanwhile.
    for _ in 0..60 {
        refused = search("reader").await.err();
        if refused.is_some() {
            break;
        }
    }
    assert_refused(&refused.unwrap(), Code::ResourceExhausted, "TOO_MANY_TRIES", None);
    assert!(search("without-contact").await.is_ok(), "another caller");
    for caller in ["service", "login"] {
        for _ in 0..60 {
            assert!(search(caller).await.is_ok(), "{caller} is shown contacts");
        }
    }
    for _ in 0..60 {
        let request = FindUserByNameRequest { user_name: "ann".into(), consistency: None };
        node.users()
            .find_user_by_name(by("login", request))
            .await
            .expect("sign-in finds users by their names");
    }
}

fn create(name: &str) -> CreateUserRequest {
    let user = User { user_name: name.into(), ..Default::default() };
    CreateUserRequest { user: Some(user), request_id: "once".into() }
}

/// Covers A64 and D6: a request id of one caller reveals nothing to another caller.
#[tokio::test]
async fn request_ids_belong_to_their_caller() {
    let node = node(&[]).await;
    let first = node.users().create_user(by(ALL, create("cid"))).await.unwrap().into_inner();
    let other = node.users().create_user(by("second", create("dan"))).await.unwrap().into_inner();
    assert_ne!(first.user.unwrap().user_id, other.user.unwrap().user_id);
    for caller in [ALL, "second"] {
        assert_reused(node.users().create_user(by(caller, create("eve"))).await, "request_id");
    }
}

#[tokio::test]
async fn an_import_keeps_its_request_ids_to_its_caller() {
    let node = node(&[]).await;
    let record = |name: &str| {
        let user = User { user_name: name.into(), ..Default::default() };
        ImportUser { record: 1, user: Some(user), request_id: "once".into() }
    };
    for (caller, name) in [(ALL, "cid"), ("second", "dan")] {
        let message = ImportUsersRequest { records: vec![record(name)] };
        let request = by(caller, futures::stream::iter([message]));
        let mut answers = node.users().import_users(request).await.unwrap().into_inner();
        let results = answers.message().await.unwrap().unwrap().results;
        assert!(format!("{results:?}").contains("Id("), "{caller}: {results:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_takes_no_slot() {
    let node = node(&[]).await;
    let load = node.edge.load();
    for _ in 0..10_000 {
        let mut request = Request::new(get(ANN));
        request.metadata_mut().insert("authorization", "Bearer wrong".parse().unwrap());
        let answer = UserServiceClient::new(node.edge.clone()).get_user(request).await;
        assert_eq!(reason(&answer.unwrap_err()), "CREDENTIALS_REFUSED");
    }
    assert_eq!((load.in_flight(), load.shed()), (0, 0));
}
