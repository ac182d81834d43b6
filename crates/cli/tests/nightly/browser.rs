//! Drives a headless Chromium over its DevTools protocol.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use super::PATIENCE;
use crate::spawned::KilledOnDrop;

/// The variable that names the program, if it is not in the path.
const PROGRAM: &str = "KITH_TEST_CHROMIUM";
const LOOK: Duration = Duration::from_millis(50);

/// A browser that is killed when dropped.
pub(crate) struct Browser {
    _process: KilledOnDrop,
    socket: WebSocketStream<TcpStream>,
    next: u64,
    problems: Vec<Value>,
    _profile: TempDir,
}

/// A window; the protocol calls it a session.
pub(crate) struct Window(String);

impl Browser {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts with more flags.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let process = Command::new(program())
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--remote-debugging-port=0", "--lang=en-GB", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect(
                "Chromium starts: install it (apt-get install chromium), or name it in KITH_TEST_CHROMIUM",
            );
        let (port, path) = listens(&profile.path().join("DevToolsActivePort")).await;
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let url = format!("ws://127.0.0.1:{port}{path}");
        let (socket, _) = client_async_with_config(url, stream, Some(config)).await.unwrap();
        let process = KilledOnDrop(process);
        Self { _process: process, socket, next: 0, problems: Vec::new(), _profile: profile }
    }

    /// Opens a page in its own window, with a small screen's size.
    pub(crate) async fn open(&mut self, url: &str) -> Window {
        let target =
            self.command(None, "Target.createTarget", json!({"url": "about:blank", "newWindow": true})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.command(None, "Target.attachToTarget", attach).await;
        let window = Window(attached["sessionId"].as_str().unwrap().to_owned());
        self.resize(&window, 1280, 800).await;
        // Each window counts as the one that the person looks at.
        self.command(Some(&window), "Emulation.setFocusEmulationEnabled", json!({"enabled": true})).await;
        self.command(Some(&window), "Runtime.enable", json!({})).await;
        self.command(Some(&window), "Log.enable", json!({})).await;
        self.command(Some(&window), "Page.navigate", json!({ "url": url })).await;
        window
    }

    /// Gives a window the size of another screen.
    pub(crate) async fn resize(&mut self, window: &Window, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command(Some(window), "Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Presses a key, as a person does.
    pub(crate) async fn press(&mut self, window: &Window, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            other => panic!("{other}"),
        };
        let mut event = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if key == "Enter" {
            event["text"] = "\r".into();
        }
        self.command(Some(window), "Input.dispatchKeyEvent", event.clone()).await;
        event["type"] = "keyUp".into();
        event["text"] = "".into();
        self.command(Some(window), "Input.dispatchKeyEvent", event).await;
    }

    /// Runs a script in the page, and returns what it yields.
    pub(crate) async fn run(&mut self, window: &Window, script: &str) -> Value {
        let wanted = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let ran = self.command(Some(window), "Runtime.evaluate", wanted).await;
        assert!(ran.get("exceptionDetails").is_none(), "{script}: {ran}");
        ran["result"]["value"].clone()
    }

    /// Looks again until a script yields true. A script may fail while the page is being loaded.
    pub(crate) async fn until(&mut self, window: &Window, script: &str) {
        let begun = Instant::now();
        let tried = format!("(() => {{ try {{ return Boolean({script}); }} catch {{ return false; }} }})()");
        while self.run(window, &tried).await != true {
            if begun.elapsed() > PATIENCE {
                let shown = self.run(window, "document.body.innerText").await;
                panic!("in vain: {script}\n{}", shown.as_str().unwrap_or_default());
            }
            sleep(LOOK).await;
        }
    }

    /// Loads another page in the window. A script that did so could lose its answer with the page.
    pub(crate) async fn load(&mut self, window: &Window, url: &str) {
        self.command(Some(window), "Page.navigate", json!({"url": url})).await;
    }

    /// Returns the window as PNG.
    pub(crate) async fn image(&mut self, window: &Window) -> Vec<u8> {
        let image = self.command(Some(window), "Page.captureScreenshot", json!({"format": "png"})).await;
        STANDARD.decode(image["data"].as_str().unwrap()).unwrap()
    }

    /// Returns the errors that pages threw, and the browser's refusals, but not those for a node that was
    /// away.
    pub(crate) fn problems(&self) -> Vec<Value> {
        self.problems.clone()
    }

    async fn command(&mut self, window: Option<&Window>, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": parameters});
        if let Some(Window(session)) = window {
            command["sessionId"] = session.as_str().into();
        }
        self.socket.send(Message::text(command.to_string())).await.unwrap();
        loop {
            let frame =
                timeout(PATIENCE, self.socket.next()).await.expect("an answer of the browser").unwrap();
            let Ok(Message::Text(text)) = frame else { continue };
            let mut message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == self.next {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].take();
            }
            self.note(message);
        }
    }

    fn note(&mut self, message: Value) {
        let entry = &message["params"]["entry"];
        let refused = message["method"] == "Log.entryAdded"
            && entry["level"] == "error"
            && entry["source"] != "network";
        if message["method"] == "Runtime.exceptionThrown" || refused {
            // The test itself ends the connections.
            if !message.to_string().contains("WebSocket connection to") {
                self.problems.push(message);
            }
        }
    }
}

fn program() -> PathBuf {
    std::env::var_os(PROGRAM).map_or_else(|| PathBuf::from("chromium"), PathBuf::from)
}

/// Waits for the browser to report the protocol's port and path.
async fn listens(file: &PathBuf) -> (u16, String) {
    let begun = Instant::now();
    loop {
        if let Some((port, path)) =
            fs::read_to_string(file).ok().as_deref().and_then(|text| text.trim().split_once('\n'))
        {
            return (port.parse().unwrap(), path.to_owned());
        }
        assert!(begun.elapsed() < PATIENCE, "the browser does not come up");
        sleep(LOOK).await;
    }
}
