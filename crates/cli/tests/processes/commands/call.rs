//! Runs `kith call` against a node.

use serde_json::{Value, json};

use super::{CommandOutput, at, at_with, kith, silent, user};
use crate::process::{Node, free_address};

fn lines(ended: &CommandOutput) -> Vec<Value> {
    ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn user_is_created_and_read_by_short_names() {
    let node = Node::start();
    let created =
        at(&node, &["call", "UserService/CreateUser", r#"{"user":{"userName":"Ada"}}"#, "-o", "json"]);
    let id = created.json()["user"]["userId"].as_str().unwrap().to_owned();
    let read = at(&node, &["call", "user.UserService/GetUser", &format!(r#"{{"userId":{id}}}"#), "-v"]);
    assert_eq!((read.code, read.json()["user"]["userName"].as_str()), (0, Some("Ada")));
    assert_eq!(read.out.lines().count(), 1, "one line in a pipe: {read:?}");
    assert!(read.err.contains("kith-tier: memory\n"), "{read:?}");
    let piped = at_with(&node, &["call", "getuser", "-"], format!(r#"{{"user_id":"{id}"}}"#));
    assert_eq!((piped.out, piped.err.as_str()), (read.out, ""));
}

#[test]
fn refused_call_has_code_1_reason_and_hint() {
    let node = Node::start();
    let absent = at(&node, &["call", "GetUser", r#"{"userId":1}"#]);
    assert_eq!(
        (absent.code, absent.why()),
        (1, "NOT_FOUND NOT_FOUND: no such user; more: kith errors NOT_FOUND")
    );
    let wrong = at(&node, &["call", "GetUser", r#"{"userId":-1}"#, "-o", "json"]);
    let error: Value = serde_json::from_str(&wrong.err).unwrap();
    assert_eq!(
        (wrong.code, &error["reason"], &error["field"]),
        (1, &json!("INVALID_FIELD"), &json!("user_id"))
    );
    assert_eq!(error["code"], "INVALID_ARGUMENT");
}

#[test]
fn call_that_cannot_begin_has_code_2_and_a_fix() {
    let node = Node::start();
    for (arguments, words) in [
        (&["GetUsr"][..], "did you mean kith.user.v1.UserService/GetUser? kith call --list"),
        (&["GetUser", r#"{"userid":1}"#], "userid is no field of GetUserRequest; did you mean userId?"),
        (&["GetUser", "{"], "EOF while parsing"),
        (&["GetUser", "@absent.json"], "could not read absent.json"),
        (&["Xyzzy.Service/Method"], "no method Xyzzy.Service/Method; kith call --list"),
    ] {
        let refused = at(&node, &[&["call"], arguments].concat());
        assert!(refused.code == 2 && refused.why().contains(words), "{refused:?}");
    }
    let free = free_address();
    let away = kith(["call", "GetUser", "--addr", &free, "--wait", "0s"]);
    assert!(away.code == 2 && away.why().contains(&free) && away.why().contains("--addr"), "{away:?}");
}

#[test]
fn update_mask_is_taken_in_both_json_forms() {
    let node = Node::start();
    user(&node, 7, "ada");
    for (mask, nick) in [
        (r#""nickName""#, "a"),
        (r#""nick_name""#, "b"),
        (r#"{"paths":["nick_name"]}"#, "c"),
        (r#"{"paths":["nickName"]}"#, "d"),
    ] {
        let body = format!(r#"{{"user":{{"userId":7,"nickName":"{nick}"}},"updateMask":{mask}}}"#);
        let updated = at(&node, &["call", "UpdateUser", &body]);
        assert_eq!((updated.code, &updated.json()["user"]["nickName"]), (0, &json!(nick)), "{mask}");
    }
}

#[test]
fn metadata_and_the_acting_user_reach_the_node() {
    let node = Node::start();
    user(&node, 7, "ada");
    let email = |more: &[&str]| {
        let read = at(&node, &[&["call", "GetUser", r#"{"userId":7}"#], more].concat());
        read.json()["user"]["email"].as_str().map(str::to_owned)
    };
    assert_eq!(email(&[]).as_deref(), Some("ada@example.org"));
    assert_eq!(email(&["--acting-user", "8"]), None);
    assert_eq!(email(&["-H", "Kith-Acting-User: 8"]), None);
    assert_eq!(email(&["-H", "kith-acting-user:7"]).as_deref(), Some("ada@example.org"));
}

#[test]
fn streams_go_in_and_come_out_line_by_line() {
    let node = Node::start();
    let record =
        |id: i64| format!(r#"{{"records":[{{"record":{id},"user":{{"userId":{id},"userName":"u{id}"}}}}]}}"#);
    let two = format!("{}\n\n{}\n", record(1), record(2));
    let imported = at_with(&node, &["call", "ImportUsers", "-", "-o", "json"], &two);
    let ids: Vec<_> = lines(&imported).iter().map(|line| line["results"][0]["id"].clone()).collect();
    assert_eq!((imported.code, ids), (0, vec![json!("1"), json!("2")]), "{:?}", imported.err);
    let exported = at(&node, &["call", "ExportUsers"]);
    let users = lines(&exported).iter().map(|line| line["users"].as_array().unwrap().len()).sum::<usize>();
    assert_eq!(users, 2);
    let broken = at_with(&node, &["call", "ImportUsers", "-"], format!("{}\n{{\"recs\":1}}\n", record(3)));
    assert_eq!(broken.code, 2);
    assert!(
        broken.err.starts_with("kith: standard input: line 2: recs is no field of ImportUsersRequest"),
        "{broken:?}"
    );
}

#[test]
fn the_methods_are_listed_without_a_node() {
    let listed = kith(["call", "--list", "-o", "json"]);
    let all = listed.json();
    let export =
        all.as_array().unwrap().iter().find(|line| line["method"] == "kith.user.v1.UserService/ExportUsers");
    assert_eq!(export.unwrap()["kind"], "answers-stream");
}

#[test]
fn silent_node_is_waited_for_as_long_as_asked() {
    let (_listener, address) = silent();
    let late = kith(["call", "GetUser", "--addr", &address, "--timeout", "200ms"]);
    assert_eq!(late.code, 1);
    assert!(late.why().contains("within 200ms") && late.why().contains("--timeout"), "{late:?}");
}
