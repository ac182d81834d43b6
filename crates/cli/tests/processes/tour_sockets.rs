//! Runs a tour's sockets, in blocks fenced as `ws`. A line is a name, then `>` and a frame to send, or `<`
//! and a part of a frame that must come; earlier frames without that part are skipped. A new name opens a
//! socket. `$(cat FILE)` in a line means the file's content.

use std::{collections::HashMap, fs, path::PathBuf, time::Duration};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::{net::TcpStream, runtime::Runtime, time::timeout};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// The open sockets, by their names.
pub(crate) struct Sockets {
    folder: PathBuf,
    runtime: Runtime,
    open: HashMap<String, Socket>,
}

impl Sockets {
    /// Creates it without a socket. Files that lines name are in `folder`.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, runtime: Runtime::new().unwrap(), open: HashMap::new() }
    }

    /// Performs a line at a node with this address.
    pub(crate) fn run(&mut self, node: &str, line: &str) {
        let (name, rest) =
            line.split_at(line.find(['<', '>']).unwrap_or_else(|| panic!("no direction: {line}")));
        let text = self.with_files(&rest[1..]);
        let frame: Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{line}: {why}"));
        let Self { runtime, open, .. } = self;
        runtime.block_on(async {
            if !open.contains_key(name) {
                open.insert(name.to_owned(), connect(node).await);
            }
            let socket = open.get_mut(name).unwrap();
            if rest.starts_with('>') {
                socket.send(Message::text(frame.to_string())).await.unwrap();
            } else {
                until(socket, &frame, line).await;
            }
        });
    }
}

impl Sockets {
    /// The line with the content of the file that it names, if it names a file.
    fn with_files(&self, line: &str) -> String {
        let Some((before, rest)) = line.split_once("$(cat ") else { return line.to_owned() };
        let (file, after) = rest.split_once(')').unwrap();
        let content = fs::read_to_string(self.folder.join(file)).unwrap();
        format!("{before}{}{after}", content.trim())
    }
}

pub(crate) async fn connect(node: &str) -> Socket {
    let stream = TcpStream::connect(node).await.unwrap();
    client_async(format!("ws://{node}/ws"), stream).await.unwrap().0
}

/// Reads frames up to the first that contains `wanted`.
pub(crate) async fn until(socket: &mut Socket, wanted: &Value, line: &str) {
    let mut passed = Vec::new();
    loop {
        let next = timeout(PATIENCE, socket.next()).await;
        let next = next.unwrap_or_else(|_| panic!("{line}\ndoes not come, but\n{}", passed.join("\n")));
        match next.unwrap_or_else(|| panic!("{line}\ncomes before the end")).unwrap() {
            Message::Text(text) if has(&serde_json::from_str(&text).unwrap(), wanted) => return,
            Message::Text(text) => passed.push(text.to_string()),
            Message::Close(close) => panic!("{line}\ncomes before the close {close:?}: {passed:?}"),
            _ => {}
        }
    }
}

/// Returns whether a frame has every field in `wanted`, and its lists have every item in its place.
fn has(frame: &Value, wanted: &Value) -> bool {
    match (frame, wanted) {
        (Value::Object(frame), Value::Object(wanted)) => {
            wanted.iter().all(|(name, value)| frame.get(name).is_some_and(|found| has(found, value)))
        }
        (Value::Array(frame), Value::Array(wanted)) => {
            frame.len() == wanted.len() && frame.iter().zip(wanted).all(|(one, wanted)| has(one, wanted))
        }
        _ => frame == wanted,
    }
}

#[test]
fn frame_has_what_is_wanted_of_it() {
    let frame = serde_json::json!({"a": {"b": 1, "c": [{"d": 2, "e": 3}]}, "f": null});
    let wanted = |text: &str| has(&frame, &serde_json::from_str(text).unwrap());
    assert!(wanted("{}") && wanted(r#"{"a": {"b": 1}}"#) && wanted(r#"{"a": {"c": [{"d": 2}]}}"#));
    for other in
        [r#"{"a": {"b": 2}}"#, r#"{"a": {"c": []}}"#, r#"{"a": {"c": [{"e": 2}]}}"#, r#"{"g": null}"#]
    {
        assert!(!wanted(other), "{other}");
    }
}
