//! Runs the `kith` program as a person or an orchestrator starts it: its output, and how it ends.

#![allow(dead_code, reason = "every test file uses a part")]
#![allow(unreachable_pub, reason = "a module of tests has no outside")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

use crate::polls::block_until;

/// How long a node may take over anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes a command in `dir`, without the test environment's variables for nodes, and with backtraces.
pub fn kith(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kith"));
    command.args(arguments).env("RUST_BACKTRACE", "1").stdin(Stdio::null());
    without_variables(command, dir)
}

/// Runs the command in `dir`, without the test environment's variables for nodes.
pub fn without_variables(mut command: Command, dir: &Path) -> Command {
    command.current_dir(dir);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("KITH_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it to its end. Returns code, standard output and standard error.
pub fn output_of(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Returns the single line with which a command ends that cannot begin; it prints nothing else.
#[track_caller]
pub fn refused(command: Command) -> String {
    let (code, out, err) = output_of(command);
    assert_eq!((code, out.as_str(), err.lines().count()), (Some(2), "", 1), "{err}");
    assert!(err.starts_with("kith: ") && err.ends_with('\n'), "{err}");
    assert!(!err.to_lowercase().contains("backtrace") && !err.contains("panicked"), "{err}");
    err.trim_end().to_owned()
}

/// Lets the node choose free ports.
pub const FREE: [&str; 4] = ["--listen", "127.0.0.1:0", "--set", "operations.listen=127.0.0.1:0"];

/// A process that is killed when this is dropped.
pub struct KilledOnDrop(pub Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Sends a signal, such as `-TERM`.
pub fn signal(process: u32, name: &str) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

/// A node that has printed its banner; killed when dropped.
pub struct Started {
    /// The node's single line on standard output.
    pub banner: Value,
    process: KilledOnDrop,
    out: BufReader<std::process::ChildStdout>,
    errors: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Started {
    /// Starts a node on free ports in `dir`, and reads its banner.
    pub fn new(dir: &Path, arguments: &[&str]) -> Self {
        Self::of(kith(dir, &[&FREE, arguments].concat()))
    }

    pub fn of(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = Arc::<Mutex<String>>::default();
        let (mut pipe, taken) = (process.stderr.take().unwrap(), Arc::clone(&errors));
        let reading = std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(1..) = pipe.read(&mut part).inspect(|read| {
                taken.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..*read]));
            }) {}
        });
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let banner = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("no banner: {line:?}, but: {}", errors.lock().unwrap()));
        Self { banner, process: KilledOnDrop(process), out, errors, reading: Some(reading) }
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.grpc())
    }

    /// Connects to the node.
    pub async fn channel(&self) -> Channel {
        Endpoint::from_shared(self.url()).unwrap().connect().await.unwrap()
    }

    pub fn grpc(&self) -> String {
        self.banner["grpc"].as_str().unwrap().to_owned()
    }

    pub fn operations(&self) -> String {
        self.banner["operations"].as_str().unwrap().to_owned()
    }

    /// Returns the log so far.
    pub fn logged(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    pub fn metrics(&self) -> String {
        http(&self.operations(), "GET", "/metrics").1
    }

    /// Returns a metric's value with its labels; 0 if there is none.
    pub fn figure(&self, sample: &str) -> u64 {
        figure(&self.operations(), sample)
    }

    pub fn readyz(&self) -> (u16, Value) {
        let (code, body) = http(&self.operations(), "GET", "/readyz");
        (code, serde_json::from_str(&body).unwrap())
    }

    /// Waits until `/readyz` gives the expected answer, and yields it.
    pub fn until_ready(&self, expected: impl Fn(u16, &Value) -> bool) -> Value {
        let mut found = Value::Null;
        let is_expected = || {
            // A node without file descriptors closes a connection without an answer.
            let Some((code, body)) = try_http(&self.operations(), "GET", "/readyz") else { return false };
            found = serde_json::from_str(&body).unwrap();
            expected(code, &found)
        };
        block_until(PATIENCE, is_expected, || format!("still {:?}\n{}", self.readyz(), self.logged()));
        found
    }

    /// Waits for the end. Returns the code, the rest of standard output, and all standard error.
    pub fn ended(mut self) -> (Option<i32>, String, String) {
        let errors = Arc::clone(&self.errors);
        let has_ended = || self.process.0.try_wait().unwrap().is_some();
        block_until(PATIENCE, has_ended, || errors.lock().unwrap().clone());
        let code = self.process.0.wait().unwrap().code();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        self.reading.take().unwrap().join().unwrap();
        (code, rest, self.logged())
    }

    /// Sends SIGTERM, then waits like [`Self::ended`].
    pub fn terminate(self) -> (Option<i32>, String, String) {
        signal(self.id(), "-TERM");
        self.ended()
    }

    /// Terminates it, and checks that its end is in order.
    pub fn stop(self) {
        let (code, _, logged) = self.terminate();
        assert_eq!(code, Some(0), "{logged}");
    }

    /// Sends SIGHUP to the process.
    pub fn hang_up(&self) {
        signal(self.id(), "-HUP");
    }
}

/// Returns a metric's value with its labels from an operations port; 0 if there is none.
pub fn figure(operations: &str, sample: &str) -> u64 {
    let (_, metrics) = http(operations, "GET", "/metrics");
    let found = metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.map_or(0, |value| value.parse().unwrap())
}

/// Sends an HTTP/1.1 request. Returns status and body.
pub fn http(address: &str, method: &str, path: &str) -> (u16, String) {
    try_http(address, method, path).expect("the connection has an answer")
}

/// Like [`http`]. `None`: the connection ended without an answer.
fn try_http(address: &str, method: &str, path: &str) -> Option<(u16, String)> {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().unwrap(), body.to_owned()))
}
