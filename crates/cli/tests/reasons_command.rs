//! Runs `kith errors`, whose links lead to the place where the operator keeps the documents.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../server/tests/it/node/mod.rs"]
mod node;

use std::process::{Command, Output};

use kith_proto::user::v1::GetUserRequest;
use kith_service::error::Reason;
use node::TestNode;
use serde_json::Value;
use tonic_types::StatusExt as _;

fn errors(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    let Output { status, stdout, stderr } = command.arg("errors").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[test]
fn the_list_has_every_reason_in_every_form() {
    let (code, plain, _) = errors(&[]);
    assert_eq!((code, plain.lines().count()), (0, 1 + Reason::ALL.len()), "{plain}");
    let (_, json, _) = errors(&["-o", "json"]);
    let listed: Vec<Value> = serde_json::from_str(&json).unwrap();
    let names: Vec<_> = listed.iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert_eq!(names, Reason::ALL.map(Reason::name));
}

#[test]
fn one_reason_is_shown_in_full() {
    for name in ["NAME_TAKEN", "name_taken", "name-taken"] {
        let (code, json, _) = errors(&[name, "-o", "json"]);
        let shown: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (code, &shown["reason"], &shown["code"]),
            (0, &"NAME_TAKEN".into(), &"ALREADY_EXISTS".into())
        );
        for part in ["cause", "fix", "retry", "link"] {
            assert!(shown[part].as_str().unwrap().len() > 10, "{shown}");
        }
    }
}

#[test]
fn misspelt_reason_is_answered_by_a_similar_one() {
    let (code, stdout, stderr) = errors(&["NAME_TAKN"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert_eq!(stderr, "kith: there is no such reason of an error; did you mean NAME_TAKEN?\n");
    let (code, _, stderr) = errors(&["WEATHER"]);
    assert_eq!((code, stderr.lines().count()), (2, 1));
    assert!(stderr.contains("`kith errors` lists them"), "{stderr}");
}

#[tokio::test]
async fn links_lead_to_the_documents_of_the_operator() {
    let node = TestNode::start_with(|config| config.docs_url = "https://docs.example/kith".to_owned()).await;
    let request = GetUserRequest { user_id: 5, consistency: None };
    let status = node.users().get_user(request).await.unwrap_err();
    let links = status.get_error_details().help().unwrap().links.clone();
    assert_eq!(links[0].url, "https://docs.example/kith/reference/errors.md#not_found");
    node.stop().await;
}
