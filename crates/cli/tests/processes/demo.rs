//! Runs `kith demo`: its output, its data, and that the data are made once.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::spawned::KilledOnDrop;

/// A demo that has printed its page's address; killed when dropped.
struct Demo {
    ready: Value,
    process: KilledOnDrop,
}

fn command(folder: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.args(["demo", "--no-browser", "--output", "json"]).args(flags).current_dir(folder);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

impl Demo {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        Self::run(command(folder, flags))
    }

    fn run(mut command: Command) -> Self {
        let mut process = command.args(["--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("a line of JSON: {line}"));
        Self { ready, process: KilledOnDrop(process) }
    }

    fn url(&self) -> &str {
        self.ready["url"].as_str().unwrap()
    }

    fn call(&self, method: &str, body: &Value) -> Value {
        let url = self.url().replace("/demo", method);
        let body = body.to_string();
        let curl = ["-fsS", "-H", "content-type: application/json", "-d", &body, &url];
        serde_json::from_str(&text(&curl)).unwrap()
    }

    /// Returns the first group's last number.
    fn end(&self) -> Value {
        let ends = json!({"conversationIds": ["g1", "d1-2"]});
        self.call("/kith.message.v1.MessageService/GetMaxSeqs", &ends)
    }
}

fn text(curl: &[&str]) -> String {
    let output = Command::new("curl").args(curl).output().unwrap();
    assert!(output.status.success(), "{curl:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn people_and_messages_are_there_when_ready() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start(folder.path(), &["--silent"]);
    assert_eq!(demo.ready["data"], "memory");
    assert!(text(&["-fsS", demo.url()]).starts_with("<!doctype html>"));
    let ids: Vec<i64> = (1..=200).collect();
    let users = demo.call("/kith.user.v1.UserService/BatchGetUsers", &json!({ "userIds": ids }));
    assert!(users["results"].as_array().unwrap().iter().all(|result| result["user"].is_object()));
    let friends = demo.call("/kith.relation.v1.RelationService/ListFriends", &json!({"userId": 1}));
    assert_eq!(friends["userIds"].as_array().unwrap().len(), 10);
    let members = demo.call("/kith.member.v1.MemberService/CountMembers", &json!({"groupId": 12}));
    assert_eq!(members["roster"]["count"], "200", "{members}");
    let listed = demo.call("/kith.message.v1.MessageService/ListConversations", &json!({"userId": 1}));
    assert!(listed["conversations"].as_array().unwrap().len() >= 3, "{listed}");
    let reader = json!({"audienceId": 1, "readerId": 200});
    let notices = demo.call("/kith.notice.v1.NoticeService/CountNotices", &reader);
    assert_eq!(notices["totals"], json!({"unread": 2, "unconfirmed": 1}), "what the bell of the page shows");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn banner_is_all_that_a_demo_prints() {
    let folder = tempfile::tempdir().unwrap();
    let mut quiet = command(folder.path(), &["--silent"]);
    quiet.stderr(Stdio::piped());
    let mut demo = Demo::run(quiet);
    demo.process.0.kill().unwrap();
    let errors = std::io::read_to_string(demo.process.0.stderr.take().unwrap()).unwrap();
    assert_eq!(errors, "", "the imports of its people are no events for anyone");
}

#[test]
fn data_folder_is_kept_and_nothing_made_twice() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--silent", "--data-dir", "kept"];
    let first = Demo::start(folder.path(), &flags);
    let mark = json!({"audienceId": 1, "readerId": 7, "all": true});
    first.call("/kith.notice.v1.NoticeService/MarkRead", &mark);
    let before = first.end();
    drop(first);
    let again = Demo::start(folder.path(), &flags);
    assert_eq!(again.end(), before);
    let notices = json!({"audienceId": 1, "readerId": 7});
    let notices = again.call("/kith.notice.v1.NoticeService/CountNotices", &notices);
    assert_eq!(notices["totals"], json!({"read": 2, "unconfirmed": 1}), "notices keep their marks");
}

#[test]
fn keys_for_other_nodes_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kith.key"), "correct-horse-battery-staple-one-key").unwrap();
    for (name, file) in [("KITH_API_KEY_FILE", "kith.key"), ("KITH_AUTH__CALLERS_FILE", "absent.toml")] {
        let mut with_key = command(folder.path(), &["--silent"]);
        with_key.env(name, file).stderr(Stdio::piped());
        let mut demo = Demo::run(with_key);
        assert!(text(&["-fsS", demo.url()]).starts_with("<!doctype html>"), "{name}");
        demo.call("/kith.user.v1.UserService/GetUser", &json!({"userId": 1}));
        demo.process.0.kill().unwrap();
        let errors = std::io::read_to_string(demo.process.0.stderr.take().unwrap()).unwrap();
        assert!(errors.contains(&format!("not used: {name}")), "{errors}");
        assert!(!errors.contains("horse"), "{errors}");
    }
}

#[test]
fn other_machines_are_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let open = ["--listen", "0.0.0.0:0", "--insecure-listen"];
    let refused = command(folder.path(), &open).stderr(Stdio::piped()).output().unwrap();
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("ws.trusted") && errors.trim().lines().count() == 1, "{errors}");
}
