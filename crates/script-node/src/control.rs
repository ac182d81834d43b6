//! What runners ask: cases, their begin, and their verdict.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use http::{Method, Request, Response, StatusCode};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::{AbortHandle, JoinSet},
};

use crate::{
    case,
    contract::Contract,
    grpc,
    http1::{self, Body, whole, with_cors},
    run::Run,
    script::Script,
};

/// How long the verdict waits for entries that are not used yet.
const PATIENCE: Duration = Duration::from_secs(1);
/// The begin of a connection of HTTP/2.
const PREFACE: &[u8; 3] = b"PRI";

/// The cases, and what is being played.
#[derive(Debug)]
pub(crate) struct Control {
    contract: Contract,
    folder: PathBuf,
    runs: Mutex<BTreeMap<u64, Playing>>,
    next: AtomicU64,
}

/// A run, and the task that serves its port.
#[derive(Debug)]
struct Playing {
    run: Arc<Run>,
    port: AbortHandle,
}

impl Control {
    /// Reads the cases, and checks all of them.
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        let contract = Contract::new()?;
        for (name, case) in case::read_all(&folder)? {
            Script::new(&contract, case).with_context(|| format!("the case {name}"))?;
        }
        Ok(Self { contract, folder, runs: Mutex::default(), next: AtomicU64::new(1) })
    }

    /// Answers runners until the program ends.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) -> Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            let control = Arc::clone(&self);
            let answers = service_fn(move |request| {
                let control = Arc::clone(&control);
                async move { Ok::<_, Infallible>(control.answer(&request).await) }
            });
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                drop(http.serve_connection(TokioIo::new(stream), answers).await);
            });
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().trim_matches('/');
        let answered = match (request.method(), path.split_once('/').unwrap_or((path, ""))) {
            (&Method::GET, ("cases", "")) => self.cases(),
            (&Method::POST, ("begin", name)) => self.begin(name).await,
            (&Method::POST, ("end", run)) => self.end(run).await,
            _ => Err(anyhow::anyhow!("GET /cases, POST /begin/FILE/NAME or POST /end/RUN")),
        };
        let (code, value) = match answered {
            Ok(value) => (StatusCode::OK, value),
            Err(error) => (StatusCode::NOT_FOUND, json!({"error": format!("{error:#}")})),
        };
        let mut response = Response::new(whole(value.to_string()));
        *response.status_mut() = code;
        with_cors(response, None)
    }

    fn cases(&self) -> Result<Value> {
        Ok(case::read_all(&self.folder)?.into_keys().collect())
    }

    async fn begin(&self, name: &str) -> Result<Value> {
        let case = case::read_all(&self.folder)?.remove(name).with_context(|| format!("no case {name}"))?;
        let (shown, contract, delay) = (case.shown.clone(), case.node.contract, case.node.listen_after_ms);
        let run = Arc::new(Run::new(Script::new(&self.contract, case)?, contract));
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = socket.local_addr()?.to_string();
        let port = if delay == 0 {
            tokio::spawn(serve_port(socket.listen(1_024)?, Arc::clone(&run)))
        } else {
            let run = Arc::clone(&run);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                if let Ok(listener) = socket.listen(1_024) {
                    serve_port(listener, run).await;
                }
            })
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.runs.lock().insert(number, Playing { run, port: port.abort_handle() });
        Ok(json!({"run": number, "address": address, "case": shown}))
    }

    async fn end(&self, run: &str) -> Result<Value> {
        let playing = self.runs.lock().remove(&run.parse()?).context("no such run")?;
        let wrong = playing.run.verdict(PATIENCE).await;
        playing.port.abort();
        Ok(json!({"wrong": wrong}))
    }
}

/// Serves the port of a run. Its connections end with it.
async fn serve_port(listener: TcpListener, run: Arc<Run>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve_connection(stream, Arc::clone(&run)));
    }
}

async fn serve_connection(stream: TcpStream, run: Arc<Run>) {
    let mut begin = [0; PREFACE.len()];
    // The first packet has the whole preface, or the line of a request.
    match stream.peek(&mut begin).await {
        Ok(length) if length > 0 && PREFACE.starts_with(begin.get(..length).unwrap_or_default()) => {
            // A connection that a client breaks off is no deviation.
            drop(grpc::serve(stream, run).await);
        }
        Ok(_) => http1::serve(stream, run).await,
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every method exists, every message has the form of its method, and every entry has one answer.
    #[test]
    fn all_cases_are_valid() {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/conformance"));
        let control = Control::new(folder).unwrap();
        let cases = control.cases().unwrap();
        assert!(cases.as_array().is_some_and(|cases| cases.len() >= 40), "{cases}");
    }
}
