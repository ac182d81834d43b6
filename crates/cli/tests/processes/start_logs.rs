//! A node's log at its most verbose level: no personal data, no secret, and no forged lines.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::{
    node::{params, principal},
    spawned::Started,
};
use kith_proto::{
    group::v1::{self as groups, group_service_client::GroupServiceClient},
    user::v1::{self as users, user_service_client::UserServiceClient},
};
use tonic::transport::Channel;

/// Texts from users, groups and invite codes that must not be in a log.
const PERSONAL: [&str; 8] = [
    "sesame-open-1",
    "sesame-guess-2",
    "quagga@example.org",
    "15550001234",
    "Quagga the Second",
    "zebulon_pike",
    "Okapi Lovers",
    "tlhingan",
];

fn ann() -> users::User {
    users::User {
        user_name: "zebulon_pike".to_owned(),
        nick_name: "Quagga the Second".to_owned(),
        email: "quagga@example.org".to_owned(),
        phone: "+15550001234".to_owned(),
        params: params([("pwd", "sesame-open-1"), ("lang", "tlhingan")]),
        ..users::User::default()
    }
}

/// Makes good and bad user calls, as a product does; yields the id.
async fn use_users(mut of: UserServiceClient<Channel>) -> i64 {
    let create = || users::CreateUserRequest { user: Some(ann()), ..Default::default() };
    let id = of.create_user(create()).await.unwrap().into_inner().user.unwrap().user_id;
    of.create_user(create()).await.unwrap_err();
    for secret in ["sesame-open-1", "sesame-guess-2"] {
        let request =
            users::VerifySecretRequest { user_id: id, name: "pwd".to_owned(), secret: secret.to_owned() };
        let answer = of.verify_secret(request).await.unwrap().into_inner();
        assert_eq!(answer.verified, secret == "sesame-open-1");
    }
    of.get_user(principal(id, users::GetUserRequest { user_id: id, consistency: None })).await.unwrap();
    for keyword in ["quagga@example.org", "+15550001234", "zebulon_pike"] {
        let request = users::SearchUsersRequest { keyword: keyword.to_owned(), ..Default::default() };
        assert_eq!(of.search_users(request).await.unwrap().into_inner().users.len(), 1, "{keyword}");
    }
    let find = users::FindUserByNameRequest { user_name: "zebulon_pike".to_owned(), ..Default::default() };
    of.find_user_by_name(find).await.unwrap();
    let forged = users::User { user_name: "x\n2026 ERROR forged\u{1b}[31m".to_owned(), ..ann() };
    let request = users::CreateUserRequest { user: Some(forged), ..Default::default() };
    of.create_user(request).await.unwrap_err();
    id
}

/// Makes group calls in the same way; yields the invite code.
async fn use_groups(mut of: GroupServiceClient<Channel>, owner: i64) -> String {
    let group = groups::Group {
        name: "Okapi Lovers".to_owned(),
        visibility: groups::Visibility::Private.into(),
        ..groups::Group::default()
    };
    let request = groups::CreateGroupRequest { group: Some(group), ..Default::default() };
    let id = of.create_group(principal(owner, request)).await.unwrap().into_inner().group.unwrap().group_id;
    let code = of
        .get_invite_code(principal(owner, groups::GetInviteCodeRequest { group_id: id }))
        .await
        .unwrap()
        .into_inner()
        .invite_code;
    assert!(code.len() >= 6, "{code}");
    code
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_log_has_no_personal_data_or_forged_line() {
    for format in ["text", "json"] {
        let dir = tempfile::tempdir().unwrap();
        let set = format!("telemetry.log_format={format}");
        let data = "d\n2026-01-01T00:00:00Z ERROR forged\u{1b}[31m";
        let started = Started::new(
            dir.path(),
            &["--log", "trace", "--set", "telemetry.library_lines=true", "--set", &set, "--data-dir", data],
        );
        let channel = started.channel().await;
        let user = use_users(UserServiceClient::new(channel.clone())).await;
        let code = use_groups(GroupServiceClient::new(channel), user).await;
        let (_, _, logged) = started.terminate();
        assert!(logged.lines().count() > 50, "the log was on: {logged}");
        for personal in PERSONAL.iter().copied().chain([code.as_str()]) {
            let found = logged.lines().find(|line| line.contains(personal));
            assert!(found.is_none(), "{format}: {personal} in {found:?}");
        }
        for line in logged.lines() {
            assert!(!line.contains(char::is_control), "{line:?}");
            let whole = match format {
                "json" => serde_json::from_str::<serde_json::Value>(line).is_ok(),
                _ => line.starts_with("20") && !line.starts_with("2026-01-01"),
            };
            assert!(whole, "{format}: no line of the log: {line}");
        }
    }
}
