//! Serves the metrics of a forwarder.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

use crate::Progress;

/// The most connections at a time; others wait.
const CONNECTIONS_MAX: usize = 8;
/// How long a connection may last: it answers one request.
const LIMIT: Duration = Duration::from_secs(10);

/// Answers `GET /metrics` until the future is dropped.
///
/// # Errors
/// When no connection can be accepted any more.
pub async fn serve_metrics(listener: TcpListener, progress: Arc<Progress>) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return Ok(()) };
        let (socket, _) = listener.accept().await?;
        let progress = Arc::clone(&progress);
        tokio::spawn(async move {
            // A scraper that is slow or breaks off asks again.
            timeout(LIMIT, serve(socket, &progress)).await.ok();
            drop(permit);
        });
    }
}

async fn serve(socket: TcpStream, progress: &Progress) -> Result<(), hyper::Error> {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request, progress)) });
    let mut server = http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new());
    server.serve_connection(TokioIo::new(socket), service).await
}

fn answer(request: &Request<Incoming>, progress: &Progress) -> Response<Full<Bytes>> {
    if (request.method(), request.uri().path()) != (&Method::GET, "/metrics") {
        let mut answer = Response::new(Full::from("there is only GET /metrics\n"));
        *answer.status_mut() = StatusCode::NOT_FOUND;
        return answer;
    }
    let mut answer = Response::new(Full::from(progress.exposition()));
    let text = header::HeaderValue::from_static("text/plain; version=0.0.4");
    answer.headers_mut().insert(header::CONTENT_TYPE, text);
    answer
}
