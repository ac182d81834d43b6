//! Every command runs with output for programs.

use std::{fs, process::Command as Process};

use clap::Command;
use serde_json::Value;

use super::{CommandOutput, at, command, output_of, user};
use crate::process::{Node, root};

/// `serve` runs until it is stopped; what it prints is tested with it. `epoch after-restore` needs a cluster
/// that is stopped. `changes` prints nothing at the present end; its output is tested with its guide.
/// `forward webhook` and `forward test` need a receiver, with which they are tested.
const NO_RESULT: [&str; 6] =
    ["changes", "demo", "epoch after-restore", "forward test", "forward webhook", "serve"];

/// The place where commands run: a folder with files to read and a node to call.
pub(super) struct Scene {
    pub(super) dir: tempfile::TempDir,
    node: Node,
}

impl Scene {
    pub(super) fn set() -> Self {
        let scene = Self { dir: tempfile::tempdir().unwrap(), node: Node::start() };
        user(&scene.node, 7, "ada");
        let readers = r#"{"audienceId":1,"readers":[{"readerId":"42"},{"readerId":"43"}]}"#;
        fs::write(scene.dir.path().join("readers.jsonl"), readers).unwrap();
        let audience = r#"{"audience":{"audienceId":1,"name":"Customers"}}"#;
        assert_eq!(at(&scene.node, &["call", "RegisterAudience", audience]).code, 0);
        std::os::unix::fs::symlink(scene.node.data(), scene.dir.path().join("live")).unwrap();
        fs::write(scene.dir.path().join("users.jsonl"), "{\"userName\":\"bob\"}\n").unwrap();
        fs::write(scene.dir.path().join("follows.txt"), "# a graph\n7 8\n").unwrap();
        for (folder, file, text) in [
            ("moved", "manifest.json", r#"{"format":1,"made_by":"kith","lines":{}}"#),
            ("moved", "users.jsonl", r#"{"userName":"cal"}"#),
            ("dump", "user.json", r#"{"user_id":"dan"}"#),
            ("dump", "users.csv", "userId,userName\n9,dan\n"),
        ] {
            fs::create_dir_all(scene.dir.path().join(folder)).unwrap();
            fs::write(scene.dir.path().join(folder).join(file), text).unwrap();
        }
        let message = r#"{"conversationId":"d7-7","seq":"1","senderId":"7","sendTime":"2026-01-01T00:00:00Z","kind":"MESSAGE_KIND_MESSAGE","body":"aGk="}"#;
        fs::write(scene.dir.path().join("messages.jsonl"), message).unwrap();
        fs::write(scene.dir.path().join("one.key"), "correct-horse-battery-staple-one-key\n").unwrap();
        for name in ["chat", "jobs"] {
            let made = ["keys", "create", name, "--scopes", "service", "--file", "listed.toml"];
            assert_eq!(scene.run(&made).code, 0);
        }
        let made: Value = serde_json::from_str(&scene.run(&["token", "make", "7"]).out).unwrap();
        fs::create_dir(scene.dir.path().join("forward")).unwrap();
        let state = r#"{"cursor":"c","last_event":0,"caught_up":0,"parked":[]}"#;
        fs::write(scene.dir.path().join("forward/search.json"), state).unwrap();
        fs::write(scene.dir.path().join("token"), made["token"].as_str().unwrap()).unwrap();
        fs::write(scene.dir.path().join("groups.jsonl"), "{\"name\":\"chess\",\"creatorId\":\"7\"}\n")
            .unwrap();
        scene
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        output_of(self.command(arguments), "")
    }

    /// Makes a command against the node, with its result in JSON.
    pub(super) fn command(&self, arguments: &[&str]) -> Process {
        let mut command: Process = command(self.dir.path());
        command.args(arguments).args(["-o", "json"]).env("KITH_ADDR", &self.node.grpc);
        command
    }
}

/// Returns command lines that end with a result, each at least once, and whether the result may be JSON
/// Lines.
pub(super) fn scenario(leaf: &str) -> Option<(Vec<Vec<&'static str>>, bool)> {
    let words = |line: &'static str| line.split(' ').collect::<Vec<_>>();
    let (lines, streamed): (&[&'static str], bool) = match leaf {
        "import users" => (&["import users users.jsonl"], false),
        "import groups" => (&["import groups groups.jsonl"], false),
        "import follows" => (&["import follows follows.txt"], false),
        "import readers" => (&["import readers readers.jsonl"], false),
        "import messages" => (&["import messages messages.jsonl"], false),
        "export users" => (&["export users"], true),
        "export messages" => (&["export messages d7-7"], true),
        "export groups" => (&["export groups"], true),
        "export all" => (&["export all exported"], false),
        "import all" => (&["import all moved"], false),
        "convert openim" => (&["convert openim dump converted"], false),
        "convert csv" => (&["convert csv dump tables"], false),
        "migrate" => (&["migrate", "migrate --status", "migrate --dry-run"], false),
        "backup" => (&["backup --to copy.db --data-dir live"], false),
        "restore" => (&["restore copy.db --data-dir restored"], false),
        "config" => (&["config", "config --check"], false),
        "call" => (&["call GetUser {\"userId\":7}", "call --list", "call ExportUsers"], true),
        "status" => (&["status"], false),
        "top" => (&["top --count 1 --interval 200ms"], true),
        "inspect" => (&["inspect user/7", "inspect user/7 --this-node"], false),
        "nodes" => (&["nodes"], false),
        "notice publish" => (&["notice publish --audience 1 --title News --id 5 --must-confirm"], false),
        "notice list" => (&["notice list --audience 1", "notice list --audience 1 --reader 7"], false),
        "notice stats" => (&["notice stats 5"], false),
        "forward status" => (&["forward status --name search"], false),
        "forward retry" => (&["forward retry --name search --all"], false),
        "resync" => (&["resync", "resync --full --namespace user"], false),
        "edges verify" => (&["edges verify"], false),
        "edges repair" => (&["edges repair --examples 1"], false),
        "edges recount" => (&["edges recount"], false),
        "epoch start" => (&["epoch start"], false),
        "log-filter" => (&["log-filter debug --for 10s", "log-filter"], false),
        "check" => (&["check"], false),
        "doctor" => (&["doctor --set limits.connections=16"], false),
        "keys generate" => (&["keys generate --file kith.key"], false),
        "keys create" => (&["keys create chat --scopes backend --expires 180d --file callers.toml"], false),
        "keys list" => (&["keys list --file listed.toml"], false),
        "keys revoke" => (&["keys revoke jobs --file listed.toml"], false),
        "keys check" => (&["keys check --key-file one.key"], false),
        "token check" => (&["token check token --config trial/kith.toml"], false),
        "token make" => (&["token make 7 --dir trial --expires 5m"], false),
        "sample" => (&["sample --users 9 --groups 2 --out made"], false),
        "ping" => (&["ping"], false),
        "completions" => (&["completions bash", "completions zsh", "completions fish"], false),
        "man" => (&["man", "man --dir pages"], false),
        "errors" => (&["errors"], false),
        _ => return None,
    };
    Some((lines.iter().map(|line| words(line)).collect(), streamed))
}

/// Collects the commands that have none below them, with the path to each.
fn leaves(command: &Command, path: &str, into: &mut Vec<(String, Command)>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        let path = format!("{path} {}", below.get_name()).trim().to_owned();
        match below.has_subcommands() {
            true => leaves(below, &path, into),
            false => into.push((path, below.clone())),
        }
    }
}

pub(super) fn all() -> Vec<(String, Command)> {
    let mut tree = kith_cli::tree();
    tree.build();
    let mut all = Vec::new();
    leaves(&tree, "", &mut all);
    all
}

#[test]
fn every_command_has_a_result_in_json() {
    let scene = Scene::set();
    for (path, leaf) in all() {
        let output = leaf.get_arguments().find(|argument| argument.get_short() == Some('o'));
        assert_eq!(output.and_then(|output| output.get_long()), Some("output"), "kith {path}");
        if NO_RESULT.contains(&path.as_str()) {
            continue;
        }
        let (lines, streamed) =
            scenario(&path).unwrap_or_else(|| panic!("kith {path} needs a scenario here"));
        for line in lines {
            let ran = scene.run(&line);
            let parses = match streamed {
                false => serde_json::from_str::<Value>(&ran.out).is_ok(),
                true => {
                    serde_json::Deserializer::from_str(&ran.out).into_iter::<Value>().all(|one| one.is_ok())
                }
            };
            // `kith doctor` may find a real problem on the test machine.
            assert!(ran.code == 0 || path == "doctor", "kith {line:?}: {ran:?}");
            assert!(parses && (streamed || !ran.out.is_empty()), "kith {line:?}: {ran:?}");
        }
    }
}

#[test]
fn summary_of_an_export_is_apart_from_records() {
    let scene = Scene::set();
    let exported = scene.run(&["export", "users"]);
    let record: Value = serde_json::from_str(&exported.out).unwrap();
    let summary: Value = serde_json::from_str(&exported.err).unwrap();
    assert_eq!((record["userName"].as_str(), summary["exported"].as_u64()), (Some("ada"), Some(1)));
}

#[test]
fn every_command_has_a_page_of_the_manual() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path());
    command.args(["man", "--dir", "pages"]);
    assert_eq!(output_of(command, "").code, 0);
    let mut home = super::command(dir.path());
    home.args(["man", "--dir=~/man"]);
    let refused = output_of(home, "");
    assert!(refused.code == 2 && refused.why().starts_with("--dir begins with ~"), "{refused:?}");
    assert!(!dir.path().join("~").exists());
    for (path, _) in all() {
        let page = dir.path().join("pages").join(format!("kith-{}.1", path.replace(' ', "-")));
        let text = fs::read_to_string(&page).unwrap_or_else(|why| panic!("{}: {why}", page.display()));
        assert!(text.contains(".SH SYNOPSIS") && text.contains("output"), "{path}");
    }
}

#[test]
fn completions_are_a_script_that_the_shell_takes() {
    let mut command = command(&root());
    command.args(["completions", "bash"]);
    let script = output_of(command, "").out;
    // The value would be too long as an argument.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kith.bash");
    fs::write(&file, &script).unwrap();
    let checked = Process::new("bash").arg("-n").arg(&file).output().unwrap();
    assert!(checked.status.success() && script.contains("inspect"), "{checked:?}");
}
