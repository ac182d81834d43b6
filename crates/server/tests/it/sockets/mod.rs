//! Sockets like a browser's, and messages like a node's.

pub mod messages;

use std::{net::SocketAddr, time::Duration};

use futures::{SinkExt as _, StreamExt as _};
use kith_server::config::Config;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _},
};

/// Every frame has to come within this time: a hang is a failure.
const BOUND: Duration = Duration::from_secs(20);

/// Turns sockets on.
pub fn on(config: &mut Config) {
    config.ws.enabled = true;
    config.ws.trusted = true;
    crate::secured_node::without_user_quotas(config);
}

/// A client's socket.
pub struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    pub async fn open(address: SocketAddr) -> Self {
        Self::from_page(address, None).await.expect("a socket")
    }

    /// Opens a socket, with this hello as its first frame.
    pub async fn greeted(address: SocketAddr, hello: &Value) -> Self {
        let mut socket = Self::open(address).await;
        socket.send(&json!({ "hello": hello })).await;
        socket
    }

    /// Opens a socket with this user's hello, and reads the frames up to `live`.
    pub async fn live(address: SocketAddr, user: i64) -> Self {
        let mut socket = Self::greeted(address, &json!({"user": user})).await;
        socket.until("live").await;
        socket
    }

    /// Opens a socket as a page from this origin. Returns the HTTP code if it is refused.
    pub async fn from_page(address: SocketAddr, origin: Option<&str>) -> Result<Self, u16> {
        let mut request = format!("ws://{address}/ws").into_client_request().unwrap();
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let stream = TcpStream::connect(address).await.unwrap();
        match timeout(BOUND, client_async(request, stream)).await.unwrap() {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(other) => panic!("{other}"),
        }
    }

    pub async fn send(&mut self, frame: &Value) {
        self.text(&frame.to_string()).await;
    }

    pub async fn text(&mut self, text: &str) {
        self.message(Message::text(text)).await;
    }

    /// The node may refuse a message before it is written completely.
    pub async fn message(&mut self, message: Message) {
        drop(self.0.send(message).await);
    }

    /// Makes a call and returns the frame that answers it. Other frames are ignored.
    pub async fn call(&mut self, name: &str, body: &Value) -> Value {
        self.send(&json!({"id": 1, "call": name, "body": body})).await;
        self.until("id").await
    }

    /// Returns the next frame.
    pub async fn next(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).unwrap()
    }

    /// Returns the next frame's text.
    pub async fn next_text(&mut self) -> String {
        loop {
            match timeout(BOUND, self.0.next()).await.expect("a frame in time") {
                Some(Ok(Message::Text(text))) => return text.to_string(),
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("a frame, and not {other:?}"),
            }
        }
    }

    /// Returns the next frame with this name.
    pub async fn until(&mut self, name: &str) -> Value {
        loop {
            let frame = self.next().await;
            if frame.get(name).is_some() {
                return frame;
            }
        }
    }

    /// Returns the code with which the node closes the socket, and the frames before.
    pub async fn closed(&mut self) -> (u16, Vec<Value>) {
        let mut frames = Vec::new();
        loop {
            match timeout(BOUND, self.0.next()).await.expect("an end in time") {
                Some(Ok(Message::Text(text))) => frames.push(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(Some(close)))) => return (close.code.into(), frames),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("a close frame, and not {other:?}"),
            }
        }
    }

    /// Checks that the node closes the socket with this code. The first frame before that is an error with
    /// this reason. Returns the error.
    pub async fn assert_closed(&mut self, code: u16, reason: &str) -> Value {
        let (closed, frames) = self.closed().await;
        assert_eq!((closed, &frames[0]["error"]["reason"]), (code, &json!(reason)), "{frames:?}");
        frames.into_iter().next().unwrap()
    }

    pub async fn close(mut self) {
        drop(self.0.close(None).await);
        while let Ok(Some(Ok(_))) = timeout(BOUND, self.0.next()).await {}
    }
}

/// Formats a request for a socket as bytes. These headers replace its own headers or are added; an empty
/// header is left out.
pub fn opening(changes: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        ("host", "127.0.0.1:7600"),
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let changed = |name: &str| changes.iter().any(|(other, _)| *other == name);
    let kept =
        usual.iter().filter(|(name, _)| !changed(name)).chain(changes).filter(|(_, value)| !value.is_empty());
    let headers: String = kept.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("GET /ws HTTP/1.1\r\n{headers}\r\n").into_bytes()
}
