//! A receiver that reacts as a test says.

#![allow(dead_code, reason = "each executable uses a part")]

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    sync::watch,
    task::AbortHandle,
};
use tokio_rustls::TlsAcceptor;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> String {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_default().to_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn id(&self) -> String {
        self.header("webhook-id")
    }
}

/// The receiver's reaction to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reaction {
    Status(u16),
    /// A status with one more header.
    With(u16, &'static str),
    /// The receiver never answers.
    Hang,
    /// Closes the connection.
    Close,
    /// Closes the connection in the middle of the answer's head.
    CloseInHead,
    /// 200 with a body that never ends.
    Endless,
    /// 200 with a body of 1 MiB.
    Large,
    /// 200, and nothing of the announced body.
    HangInBody,
    /// 200 and a body that is shorter than announced.
    CutBody,
    /// Answers with something that is not HTTP.
    Noise,
    /// 200, and then the connection is closed.
    OkAndClose,
}

type React = dyn Fn(&Request) -> Reaction + Send + Sync;

/// A receiver; ends when dropped.
pub(crate) struct TestReceiver {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<Mutex<Vec<Request>>>,
    count: watch::Receiver<usize>,
    connections: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl TestReceiver {
    pub(crate) async fn start(react: impl Fn(&Request) -> Reaction + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), None, react).await
    }

    pub(crate) async fn start_at(
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
        react: impl Fn(&Request) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, react): (Arc<Mutex<Vec<Request>>>, Arc<React>) = (Arc::default(), Arc::new(react));
        let (counted, count) = watch::channel(0);
        let (kept, opened) = (Arc::clone(&requests), Arc::new(AtomicUsize::new(0)));
        let connections = Arc::clone(&opened);
        let task = tokio::spawn(async move {
            let mut served = tokio::task::JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (react, kept, counted, tls) =
                    (Arc::clone(&react), Arc::clone(&kept), counted.clone(), tls.clone());
                opened.fetch_add(1, Relaxed);
                served.spawn(async move {
                    match tls {
                        None => serve(socket, &*react, &kept, &counted).await,
                        Some(tls) => match tls.accept(socket).await {
                            Ok(stream) => serve(stream, &*react, &kept, &counted).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { address, requests, count, connections, task: task.abort_handle() }
    }

    /// Waits until this many requests have come.
    pub(crate) async fn until(&self, requests: usize) {
        let mut count = self.count.clone();
        let wait = count.wait_for(|count| *count >= requests);
        let came = tokio::time::timeout(std::time::Duration::from_secs(30), wait).await;
        assert!(came.is_ok(), "only {} of {requests} requests", self.requests.lock().len());
    }

    /// How many connections were opened.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.requests.lock().iter().map(Request::id).collect()
    }
}

impl Drop for TestReceiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    react: &React,
    kept: &Mutex<Vec<Request>>,
    counted: &watch::Sender<usize>,
) -> Option<()> {
    loop {
        let request = read(&mut stream).await?;
        let reaction = react(&request);
        kept.lock().push(request);
        counted.send_modify(|count| *count += 1);
        answer(&mut stream, reaction).await?;
    }
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break end + 4;
        }
        bytes.push(stream.read_u8().await.ok()?);
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request { head, body })
}

/// `None`: the connection is closed.
async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, reaction: Reaction) -> Option<()> {
    let (text, goes_on) = match reaction {
        Reaction::Status(status) => (format!("HTTP/1.1 {status} Any\r\ncontent-length: 2\r\n\r\nok"), true),
        Reaction::With(status, header) => {
            (format!("HTTP/1.1 {status} Any\r\n{header}\r\ncontent-length: 0\r\n\r\n"), true)
        }
        Reaction::Hang => std::future::pending().await,
        Reaction::Close => return None,
        Reaction::Large => {
            (format!("HTTP/1.1 200 OK\r\ncontent-length: 1048576\r\n\r\n{}", "k".repeat(1 << 20)), true)
        }
        Reaction::HangInBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n").await.ok()?;
            std::future::pending().await
        }
        Reaction::CloseInHead => ("HTTP/1.1 200 OK\r\ncontent-le".to_owned(), false),
        Reaction::CutBody => ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok".to_owned(), false),
        Reaction::Noise => ("SSH-2.0-OpenSSH_9.6\r\n".to_owned(), false),
        Reaction::OkAndClose => ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(), false),
        Reaction::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
            loop {
                stream.write_all(&[b'a'; 4096]).await.ok()?;
            }
        }
    };
    stream.write_all(text.as_bytes()).await.ok()?;
    stream.flush().await.ok()?;
    goes_on.then_some(())
}
