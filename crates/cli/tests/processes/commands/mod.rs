//! Runs `kith` with an empty environment except for the path to programs.

mod call;
mod doctor;
mod edges;
mod looking;
mod notices;
mod top;
mod tree;
mod unwritable;

use std::{
    ffi::OsStr,
    io::Write as _,
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::{process::Node, spawned::KilledOnDrop};

/// A command's output and exit code.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Returns the lines on standard error.
    pub(crate) fn notes(&self) -> Vec<&str> {
        self.err.lines().collect()
    }

    /// Returns the single line that it printed as the reason, after `kith: `.
    #[track_caller]
    pub(crate) fn why(&self) -> &str {
        let notes = self.notes();
        assert!(notes.len() == 1 && self.out.is_empty(), "{self:?}");
        notes[0].strip_prefix("kith: ").unwrap()
    }
}

/// Makes a command with an empty environment except for PATH.
fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(dir);
    command
}

pub(crate) fn output_of(mut command: Command, input: impl AsRef<[u8]>) -> CommandOutput {
    let mut running =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It may end without reading.
    running.stdin.take().unwrap().write_all(input.as_ref()).ok();
    let Output { status, stdout, stderr } = running.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
}

pub(crate) fn kith<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> CommandOutput {
    let mut command = command(&std::env::temp_dir());
    command.args(arguments);
    output_of(command, "")
}

/// Makes a command for a node, whose address is in the environment.
pub(crate) fn command_at(node: &Node, arguments: &[&str]) -> Command {
    let mut command = command(&std::env::temp_dir());
    command.args(arguments).env("KITH_ADDR", &node.grpc);
    command
}

/// Runs it for a node.
pub(crate) fn at(node: &Node, arguments: &[&str]) -> CommandOutput {
    at_with(node, arguments, "")
}

pub(crate) fn at_with(node: &Node, arguments: &[&str], input: impl AsRef<[u8]>) -> CommandOutput {
    output_of(command_at(node, arguments), input)
}

/// Runs `kith serve` and ignores its output, until it is dropped.
fn serve(dir: &Path, arguments: &[&str]) -> KilledOnDrop {
    let mut serve = command(dir);
    serve.arg("serve").args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    KilledOnDrop(serve.spawn().unwrap())
}

/// Creates a user with this id.
#[track_caller]
fn user(node: &Node, id: i64, name: &str) {
    let body = format!(r#"{{"user":{{"userId":{id},"userName":"{name}","email":"{name}@example.org"}}}}"#);
    let created = at(node, &["call", "CreateUser", &body]);
    assert_eq!(created.code, 0, "{created:?}");
}

/// Accepts connections and sends nothing.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}
