//! Runs every line of the README and of the tour, and compares what it prints.
//!
//! A tour consists of blocks fenced as `console`: `$ command`, continued while a line ends with `\`, then
//! what it prints. `...` on a line of its own matches any lines, `<word>` within a line any text. Blocks
//! fenced as `ws` are those of `tour_sockets.rs`.

#![cfg(feature = "embedded")]
#![expect(clippy::unwrap_used, reason = "all of it is a test")]

use crate::{
    process::{self, Node},
    tour_sockets::Sockets,
};
use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

const README: &str = include_str!("../../../../README.md");
const CHINESE_README: &str = include_str!("../../../../README.zh.md");
const TOUR: &str = include_str!("../../../../docs/tour.md");
const START: &str = "cargo run --release";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) command: String,
    printed: String,
    /// Whether it is a socket's line.
    is_frame: bool,
}

/// Returns the steps from all blocks, in order.
pub(crate) fn steps(text: &str) -> Vec<Step> {
    let (mut steps, mut within, mut frames, mut continued) = (Vec::<Step>::new(), false, false, false);
    for line in text.lines() {
        if line.starts_with("```") {
            (within, frames) = (line == "```console", line == "```ws");
            continue;
        }
        if frames {
            steps.push(Step { command: line.to_owned(), is_frame: true, ..Step::default() });
            continue;
        }
        let command = line.strip_prefix("$ ").filter(|_| !continued);
        match steps.last_mut() {
            _ if !within => continue,
            Some(step) if continued => step.command = format!("{}\n{line}", step.command),
            _ if command.is_some() => {
                steps.push(Step { command: command.unwrap().to_owned(), ..Step::default() });
            }
            Some(step) => step.printed += &format!("{line}\n"),
            None => panic!("a console block begins with what is printed: {line}"),
        }
        continued = (continued || command.is_some()) && line.ends_with('\\');
    }
    steps
}

/// Whether `lines` are what `pattern` describes.
fn matches(pattern: &[&str], lines: &[&str]) -> bool {
    match pattern.split_first() {
        None => lines.is_empty(),
        Some((&"...", rest)) => (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..])),
        Some((first, rest)) => lines
            .split_first()
            .is_some_and(|(line, others)| line_matches(first, line) && matches(rest, others)),
    }
}

/// Whether `line` is `pattern` with some text for every `<word>`.
fn line_matches(pattern: &str, line: &str) -> bool {
    let Some((before, after)) = placeholder(pattern) else { return pattern == line };
    let Some(rest) = line.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.skip(1).any(|at| line_matches(after, &rest[at..]))
}

/// The text before and behind the first `<word>`.
fn placeholder(pattern: &str) -> Option<(&str, &str)> {
    let (before, rest) = pattern.split_once('<')?;
    let (word, after) = rest.split_once('>')?;
    let named = !word.is_empty() && word.bytes().all(|c| c.is_ascii_lowercase() || c == b'-');
    named.then_some((before, after))
}

/// A folder in which a document's lines run, with the programs that they call and their node's address.
pub(crate) struct Stage {
    programs: TempDir,
    folder: PathBuf,
    /// The addresses for calls and for operators. Set when the node has started.
    node: Option<(String, String)>,
    sockets: Sockets,
}

impl Stage {
    /// A stage without a node, whose commands run in `folder`.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let grpcurl = env::var_os("KITH_TEST_GRPCURL").expect("KITH_TEST_GRPCURL names the grpcurl program");
        let programs = tempfile::tempdir().unwrap();
        symlink(grpcurl, programs.path().join("grpcurl")).unwrap();
        symlink(env!("CARGO_BIN_EXE_kith"), programs.path().join("kith")).unwrap();
        Self { sockets: Sockets::new(folder.clone()), programs, folder, node: None }
    }

    /// Runs a command in the folder and compares what it prints, or sends or awaits a frame.
    pub(crate) fn run(&mut self, step: &Step) {
        if step.is_frame {
            let (grpc, _) = self.node.as_ref().expect("sockets need a node");
            return self.sockets.run(grpc, &step.command);
        }
        let printed = self.print(&step.command);
        let (expected, got): (Vec<_>, Vec<_>) = (step.printed.lines().collect(), printed.lines().collect());
        assert!(matches(&expected, &got), "$ {}\nprints\n{printed}\nand not\n{}", step.command, step.printed);
    }

    /// Runs a command in the folder, with the node's addresses in place of the usual addresses, and returns
    /// what it prints.
    pub(crate) fn print(&self, command: &str) -> String {
        let mut command = command.replace("target/release/kith", "kith");
        if let Some((grpc, operations)) = &self.node {
            command = command.replace("127.0.0.1:7600", grpc).replace("127.0.0.1:7601", operations);
        }
        let output = Command::new("bash")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .env("PATH", path_with(self.programs.path()))
            .envs(self.node.iter().map(|(grpc, _)| ("KITH_ADDR", format!("http://{grpc}"))))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes the following commands call this node.
    pub(crate) fn calls(&mut self, grpc: &str, operations: &str) {
        self.node = Some((grpc.to_owned(), operations.to_owned()));
    }
}

#[test]
#[ignore = "needs grpcurl: run cargo xtask test"]
fn readme_lines_print_what_it_says() {
    follow(README);
}

#[test]
fn chinese_readme_has_the_same_lines() {
    assert_eq!(steps(CHINESE_README), steps(README));
}

#[test]
#[ignore = "needs grpcurl: run cargo xtask test"]
fn tour_prints_what_it_says() {
    follow(TOUR);
}

/// Returns the commands in a part of a document.
fn lines_of(document: &'static str, title: &str) -> Vec<&'static str> {
    let (_, section) = document.split_once(&format!("\n## {title}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    section.lines().filter_map(|line| line.strip_prefix("    ")).collect()
}

#[test]
fn tour_starts_each_server_before_the_nodes() {
    let lines = lines_of(TOUR, "Several nodes");
    let at = |program: &str| lines.iter().position(|line| line.starts_with(program)).expect(program);
    let initiate = "mongosh --quiet --eval 'rs.initiate({_id: \"rs0\", members: [{_id: 0, host: \"127.0.0.1:27017\"}]})'";
    let order = ["mongod --replSet rs0 ", initiate, "redis-server ", "target/release/kith serve"].map(at);
    assert!(order.is_sorted(), "{lines:?}");
}

/// Runs the lines in "Several nodes" that run Kith, over servers that exist already; the lines before them
/// would start those servers.
#[cfg(feature = "cluster")]
#[test]
#[ignore = "needs Redis and MongoDB: run cargo xtask test"]
fn nodes_start_as_the_tour_says() {
    let lines = lines_of(TOUR, "Several nodes").into_iter();
    let lines: Vec<_> = lines.skip_while(|line| !line.starts_with("export ")).collect();
    let of_tests = |name| env::var_os(name).expect(name).into_string().unwrap();
    let [grpc, operations, second, its_operations] = [(); 4].map(|()| process::free_address());
    let port = |address: &String| address.rsplit(':').next().unwrap().to_owned();
    let script = lines
        .join("\n")
        .replace("mongodb://127.0.0.1:27017/?replicaSet=rs0", &of_tests("KITH_TEST_MONGODB"))
        .replace("redis://127.0.0.1:6379", &of_tests("KITH_TEST_REDIS"))
        .replace("--port 7602 --operations-port 7603", "--port 7602 --operations-port OPERATIONS")
        .replace("OPERATIONS", &port(&its_operations))
        .replace("7602", &port(&second))
        .replace("target/release/kith", env!("CARGO_BIN_EXE_kith"));
    let name = format!("kith_tour_{}", port(&grpc));
    let names = [("KITH_STORE__MONGODB__DATABASE", &name), ("KITH_REDIS__PREFIX", &name)];
    let addresses = [("KITH_LISTEN", &grpc), ("KITH_OPERATIONS__LISTEN", &operations), ("KITH_ADDR", &grpc)];
    let dir = tempfile::tempdir().unwrap();
    let printed = run_script(&script, &[&names[..], &addresses].concat(), dir.path());
    assert_eq!(printed.matches(r#""userName":"grace""#).count(), 2, "{printed}");
}

/// Runs the lines in "With a key", with the node in the background.
#[test]
fn node_is_secured_as_the_readme_says() {
    let [grpc, operations] = [(); 2].map(|()| process::free_address());
    let lines = lines_of(README, "With a key");
    assert!(lines[0].contains("keys generate") && lines[1].ends_with("kith serve"), "{lines:?}");
    let ready = format!("until kith ping --addr {grpc} > ping; do :; done");
    let [first, second] = [lines[0], &format!("{} & {ready}", lines[1])];
    let script = [&[first, second], &lines[2..]].concat().join("\n").replace("target/release/kith", "kith");
    // These commands fail on purpose.
    let script = script.replace("\nenv -u ", "\n! env -u ");
    let addresses = [("KITH_LISTEN", &grpc), ("KITH_OPERATIONS__LISTEN", &operations), ("KITH_ADDR", &grpc)];
    let dir = tempfile::tempdir().unwrap();
    let printed = run_script(&script.replace("127.0.0.1:7600", &grpc), &addresses, dir.path());
    assert_eq!(printed.matches(r#""userName":"grace""#).count(), 2, "{printed}");
    assert!(printed.contains("UNAUTHENTICATED CREDENTIALS_MISSING"), "{printed}");
    let key = fs::read_to_string(dir.path().join("kith.key")).unwrap();
    assert!(!printed.contains(key.trim_end()), "{printed}");
}

/// Runs a document's lines in this folder, and ends the programs that they leave running. Returns all that
/// they print.
fn run_script(script: &str, environment: &[(&str, &String)], dir: &Path) -> String {
    let output = Command::new("timeout")
        .args(["60", "bash", "-c", &format!("set -e; trap 'kill $(jobs -p); wait' EXIT\n{script}")])
        .env("PATH", path_with(Path::new(env!("CARGO_BIN_EXE_kith")).parent().unwrap()))
        .envs(environment.iter().copied())
        .current_dir(dir)
        .output()
        .unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "{script}\n{printed}");
    printed
}

/// Returns the path to programs, with this folder first.
fn path_with(folder: &Path) -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths([folder.to_owned()].into_iter().chain(env::split_paths(&path))).unwrap()
}

/// Runs a whole document in the workspace root. Its first line starts a node: here it runs this build in
/// another folder and on free addresses, because another node may run at the same time.
fn follow(document: &str) {
    let steps = steps(document);
    assert!(steps.len() > 6, "the document has only {} steps", steps.len());
    let (start, steps) = steps.split_first().unwrap();
    let flags = start.command.strip_prefix(START).expect("the first line starts a node");
    let settings: Vec<&str> = flags.split(" --set ").skip(1).collect();
    let node = Node::start_with(tempfile::tempdir().unwrap(), &settings);
    let mut stage = Stage::new(process::root());
    stage.calls(&node.grpc, &node.operations);
    for step in steps {
        stage.run(step);
    }
}

#[test]
fn steps_have_continuations_and_output() {
    let text = "```sh\n$ no\n```\n```console\n$ a \\\n  b\none\n\n$ c\n```\nnot this\n";
    let found: Vec<_> = steps(text).into_iter().map(|step| (step.command, step.printed)).collect();
    let expected = [("a \\\n  b", "one\n\n"), ("c", "")];
    assert_eq!(found, expected.map(|(command, printed)| (command.to_owned(), printed.to_owned())));
}

#[test]
fn dots_match_lines_and_angles_match_text() {
    assert!(matches(&["a", "...", "d"], &["a", "b", "c", "d"]));
    assert!(matches(&["a", "..."], &["a"]));
    assert!(!matches(&["a"], &["a", "b"]));
    assert!(line_matches("\"t\": \"<token>\",", "\"t\": \"AbC==\","));
    assert!(!line_matches("\"t\": \"<token>\",", "\"t\": \"\","));
    assert!(!line_matches("\"t\": \"<token>\",", "\"u\": \"a\","));
    assert!(line_matches("a < b", "a < b"));
}
