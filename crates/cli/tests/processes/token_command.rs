//! Users' tokens in the program: made for trials, accepted by a node, and checked without a node.

#![cfg(feature = "embedded")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::Path, process::Stdio};

use serde_json::{Value, json};

use crate::spawned::{self, Started, kith, output_of};

/// Makes a token for user 7 with the signing key in this folder. Returns it with the command's output.
fn made(dir: &Path, folder: &str) -> (String, String) {
    let (code, token, notes) = output_of(kith(dir, &["token", "make", "7", "--dir", folder]));
    assert_eq!(code, Some(0), "{notes}");
    (token.trim().to_owned(), notes)
}

/// Checks a token with the configuration in this folder. Returns exit code and result.
fn checked(dir: &Path, folder: &str, token: &str) -> (Option<i32>, Value) {
    fs::write(dir.join("token"), token).unwrap();
    let config = format!("{folder}/kith.toml");
    let (code, out, errors) =
        output_of(kith(dir, &["token", "check", "token", "--config", &config, "-o", "json"]));
    for part in token.split('.').filter(|part| part.len() > 8) {
        assert!(!out.contains(part) && !errors.contains(part), "{out}{errors}");
    }
    (code, serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{errors}")))
}

#[test]
fn a_made_token_is_taken_by_node_and_check() {
    let dir = tempfile::tempdir().unwrap();
    let (token, notes) = made(dir.path(), "trial");
    assert!(notes.starts_with("kith: for trials alone: ") && notes.lines().count() == 1, "{notes}");
    let key = fs::metadata(dir.path().join("trial/signing.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let (second, notes) = made(dir.path(), "trial");
    assert_eq!(notes, "", "the folder is there already");
    for token in [&token, &second] {
        let (code, found) = checked(dir.path(), "trial", token);
        assert_eq!((code, &found["token"], &found["user"]), (Some(0), &json!("taken"), &json!(7)), "{found}");
        assert!(found["valid_for"].is_string(), "{found}");
    }
    let node = Started::new(dir.path(), &["--config", "trial/kith.toml"]);
    let called = |token: &str| {
        fs::write(dir.path().join("credential"), token).unwrap();
        let get = ["call", "UserService/GetUser", "{\"userId\":7}", "--api-key-file", "credential"];
        output_of(kith(dir.path(), &[&get[..], &["--addr", &node.url()]].concat())).2
    };
    assert!(called(&token).contains("NOT_FOUND"), "{}", called(&token));
    let (foreign, _) = made(dir.path(), "other");
    assert!(called(&foreign).contains("CREDENTIALS_REFUSED"), "{}", called(&foreign));
    let (_, _, logged) = node.terminate();
    assert!(logged.contains("kid") && !logged.contains(&foreign), "{logged}");
}

#[test]
fn a_refused_token_names_its_rule_offline() {
    let dir = tempfile::tempdir().unwrap();
    let ((token, _), (foreign, _)) = (made(dir.path(), "trial"), made(dir.path(), "other"));
    let changed = format!("{}AAAA", &token[..token.len() - 4]);
    let long = output_of(kith(dir.path(), &["token", "make", "7", "--expires", "48h"])).1;
    for (token, rule) in [
        (foreign.as_str(), "kid"),
        (&changed, "signature"),
        (long.trim(), "lifetime"),
        ("hunter2", "form"),
        ("", "form"),
    ] {
        let (code, found) = checked(dir.path(), "trial", token);
        assert_eq!((code, &found["token"]), (Some(1), &json!("refused")), "{found}");
        assert_eq!((&found["rule"], &found["user"]), (&json!(rule), &Value::Null), "{found}");
    }
}

#[test]
fn a_check_reads_input_and_needs_an_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let (token, _) = made(dir.path(), "trial");
    let mut command = kith(dir.path(), &["token", "check", "-", "--config", "trial/kith.toml"]);
    let mut checking = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(checking.stdin.take().unwrap(), "Bearer {token}").unwrap();
    let found = checking.wait_with_output().unwrap();
    assert!(found.status.success() && String::from_utf8(found.stdout).unwrap().contains("taken"));
    let refused = spawned::refused(kith(dir.path(), &["token", "check", "-"]));
    assert!(refused.contains("no issuer is configured (auth.issuers)"), "{refused}");
    fs::write(dir.path().join("trial/signing.key"), "no key").unwrap();
    let refused = spawned::refused(kith(dir.path(), &["token", "make", "7"]));
    assert!(refused.contains("signing.key is no signing key of trials"), "{refused}");
}
