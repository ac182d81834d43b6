//! The gRPC port: connections, their number, their age, and how they end.
//!
//! Connections are accepted here and not by tonic's server, which has no bound on their number, no limit on
//! a handshake, no jitter in their age, and answers a deadline with CANCELLED before the edge can.

mod prefixed;
mod tls;

use std::{fmt, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::{body::Incoming, server::conn::http2, service::Service};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rand::Rng as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    config::{Config, LimitsConfig},
    edge::Edge,
    metric,
    start::StartError,
};

/// How often a peer that says nothing is asked whether it lives.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long it may take to answer.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(10);
/// Pause after a failed accept: most often file descriptors ran out, and a tight loop would not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A bound port that does not yet accept.
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl Port {
    /// Binds the port and reads the certificate, if one is configured.
    ///
    /// # Errors
    /// When the port is taken or may not be used, or a file of TLS cannot be.
    pub async fn bind(config: &Config) -> Result<Self, StartError> {
        let tls = tls::acceptor(&config.tls)?;
        let (listener, address) = bind(config.listen, "--listen").await?;
        Ok(Self { listener, address, tls })
    }

    /// Where it is bound.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Accepts connections and serves them until [`Connections::close`].
    #[must_use]
    pub fn serve(self, edge: Edge, limits: &LimitsConfig) -> Connections {
        let connections = Connections {
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
        };
        let server = Server {
            http: http(limits),
            edge,
            tls: self.tls,
            handshake: limits.handshake,
            age: limits.connection_age,
            grace: limits.connection_grace,
            connections: connections.clone(),
        };
        let slots = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
        tokio::spawn(accept(self.listener, Arc::new(server), slots));
        connections
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("address", &self.address).field("tls", &self.tls.is_some()).finish()
    }
}

/// Binds `address`, which `flag` sets.
pub(crate) async fn bind(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |error: std::io::Error| StartError::bind(address, flag, &error);
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The connections of a port.
#[derive(Clone, Debug)]
pub struct Connections {
    tasks: TaskTracker,
    closing: CancellationToken,
    abort: CancellationToken,
}

impl Connections {
    /// How many are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.tasks.len()
    }

    /// Accepts no more, tells every peer to go (GOAWAY), and waits until the calls that have begun have ended.
    /// What is left after `limit` is cut off; false then.
    pub async fn close(&self, limit: Duration) -> bool {
        self.closing.cancel();
        self.tasks.close();
        let in_time = timeout(limit, self.tasks.wait()).await.is_ok();
        self.abort.cancel();
        self.tasks.wait().await;
        in_time
    }
}

/// What every connection is served by.
struct Server {
    http: http2::Builder<TokioExecutor>,
    edge: Edge,
    tls: Option<TlsAcceptor>,
    handshake: Duration,
    age: Duration,
    grace: Duration,
    connections: Connections,
}

fn http(limits: &LimitsConfig) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .max_header_list_size(limits.headers_bytes)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_ANSWER);
    http
}

async fn accept(listener: TcpListener, server: Arc<Server>, slots: Arc<Semaphore>) {
    let connections = &server.connections;
    let refused = metrics::counter!(metric::CONNECTIONS_REFUSED.name);
    loop {
        let accepted = tokio::select! {
            () = connections.closing.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _peer)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            refused.increment(1);
            continue;
        };
        let server = Arc::clone(&server);
        connections.tasks.spawn(async move {
            server.greet(socket).await;
            drop(slot);
        });
    }
}

impl Server {
    /// Shakes hands within the limit, then serves.
    async fn greet(&self, socket: TcpStream) {
        // Without it small answers wait for acknowledgements of earlier ones.
        if socket.set_nodelay(true).is_err() {
            return;
        }
        let closing = self.connections.closing.cancelled();
        let Some(tls) = &self.tls else {
            let greeted = timeout(self.handshake, prefixed::greeted(socket));
            if let Some(Ok(Ok(io))) = closing_first(closing, greeted).await {
                self.connection(io).await;
            }
            return;
        };
        let greeted = timeout(self.handshake, async { prefixed::greeted(tls.accept(socket).await?).await });
        if let Some(Ok(Ok(io))) = closing_first(closing, greeted).await {
            self.connection(io).await;
        }
    }

    async fn connection<I: AsyncRead + AsyncWrite + Unpin + Send + 'static>(&self, io: I) {
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(io), self.edge.clone()));
        tokio::select! {
            _ended = connection.as_mut() => return,
            () = sleep(jittered(self.age)) => {}
            () = self.connections.closing.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ended = connection.as_mut() => {}
            () = self.end_of_grace() => {}
        }
    }

    /// A connection that grew old has its grace; one that is closed has what the drain gives.
    async fn end_of_grace(&self) {
        if !self.connections.closing.is_cancelled() {
            tokio::select! {
                () = sleep(self.grace) => return,
                () = self.connections.closing.cancelled() => {}
            }
        }
        self.connections.abort.cancelled().await;
    }
}

/// What `work` yields, unless `closing` comes first.
async fn closing_first<T>(closing: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        () = closing => None,
        done = work => Some(done),
    }
}

/// Shorter by up to a tenth, so that connections made at one time do not all end at one time.
fn jittered(age: Duration) -> Duration {
    age.mul_f64(1.0 - rand::rng().random_range(0.0..0.1))
}

/// hyper clones the service for every connection and calls it by reference.
impl Service<hyper::Request<Incoming>> for Edge {
    type Response = http::Response<crate::edge::EdgeBody>;
    type Error = std::convert::Infallible;
    type Future = crate::edge::EdgeFuture<Incoming>;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        self.handle(request)
    }
}
