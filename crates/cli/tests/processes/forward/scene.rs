//! A forwarder with a node and a receiver.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::{PATIENCE, SECRETS};
use crate::{
    polls::until,
    port,
    process::Node,
    receiver::{Reaction, Request, TestReceiver},
    spawned::{KilledOnDrop, http, kith, output_of},
};

/// A folder with a secret, a node, and a receiver.
pub(super) struct Scene {
    node: Node,
    pub(super) receiver: TestReceiver,
    pub(super) folder: tempfile::TempDir,
    /// Where the forwarder serves its metrics.
    pub(super) metrics: String,
}

impl Scene {
    pub(super) async fn set(react: impl Fn(&Request) -> Reaction + Send + Sync + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, SECRETS).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let settings = ["changes.kept=1h", "changes.dialogs=true"];
        let node = Node::start_with(tempfile::tempdir().unwrap(), &settings);
        let receiver = TestReceiver::start(react).await;
        Self { node, receiver, folder, metrics: format!("127.0.0.1:{}", port::free()) }
    }

    pub(super) fn command(&self, words: &str) -> Command {
        let url = format!("http://{}/hook", self.receiver.address);
        let words = words
            .replace("RECEIVER", &format!("--url {url} --secret-file secret --allow-http --allow-private"));
        let mut command = kith(self.folder.path(), &words.split(' ').collect::<Vec<_>>());
        command.env("KITH_ADDR", &self.node.grpc);
        command
    }

    /// Starts the forwarder, and waits until it has its place.
    pub(super) async fn forward(&self) -> KilledOnDrop {
        let words =
            format!("forward webhook --name search RECEIVER --from-now --metrics-addr {}", self.metrics);
        let child: Child = self.command(&words).stderr(Stdio::null()).spawn().unwrap();
        let forwarder = KilledOnDrop(child);
        until(PATIENCE, async || http_is_served(&self.metrics)).await;
        forwarder
    }

    pub(super) fn call(&self, method: &str, request: &Value) -> Value {
        let mut command = kith(Path::new("."), &["call", method, &request.to_string()]);
        let (code, out, err) =
            output_of(std::mem::replace(command.env("KITH_ADDR", &self.node.grpc), Command::new("true")));
        assert_eq!(code, Some(0), "{method}: {err}");
        serde_json::from_str(&out).unwrap()
    }

    pub(super) fn json(&self, words: &str) -> Value {
        let (code, out, err) = output_of(self.command(&format!("{words} -o json")));
        assert!(code.is_some_and(|code| code < 2), "{err}");
        serde_json::from_str(&out).unwrap()
    }

    /// The last event of each record: its type with its key, and its data.
    pub(super) fn last(&self) -> BTreeMap<String, Value> {
        let requests = self.receiver.requests.lock();
        let name = |event: &Value| format!("{} {}", event["type"].as_str().unwrap(), event["data"]["key"]);
        requests.iter().map(Request::json).map(|event| (name(&event), event["data"].clone())).collect()
    }
}

fn http_is_served(address: &str) -> bool {
    std::net::TcpStream::connect(address).is_ok() && http(address, "GET", "/metrics").0 == 200
}
