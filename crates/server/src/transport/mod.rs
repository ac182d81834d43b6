//! The gRPC port: connections, their number, their age, and how they end. It speaks HTTP/2 and HTTP/1.1, with
//! and without TLS.
//!
//! Connections are accepted here and not by tonic's server, which has no bound on their number, no limit on
//! a handshake, no jitter in their age, and answers a deadline with CANCELLED before the edge can.

mod accept;
mod answer_body;
pub mod certificate;
mod connection_io;
mod cors;
mod front;
mod http1_io;
mod origin;
pub mod pem_form;
mod preface;
pub mod tls;
mod web;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kith_service::{message::ConnectionSigns, metric};
use rand::Rng as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    accept::{AcceptLoop, PortName},
    http1_io::{Http1State, plain_http1},
    origin::{is_of_the_same_origin, names_this_machine},
    tls::Certificates,
};
use self::{
    connection_io::ConnectionIo,
    front::Front,
    http1_io::HeadWatch,
    origin::{Origins, OwnPage},
    preface::Protocol,
    web::Web,
};
use crate::{
    config::{Config, HttpConfig, LimitsConfig, WsConfig},
    edge::{ConnectionUnread, Edge},
    health::Reporter,
    places::{PlaceKind, Places, RemotePeer},
    start_error::StartError,
    ws,
};

/// How often a silent peer is checked.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long it may take to answer.
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(10);
/// The gRPC port in the log and in `/readyz`.
const PORT: PortName = PortName {
    refused: "connections_refused",
    displaced: "connections_displaced",
    limit: "limits.connections",
};
/// An HTTP/1.1 connection's buffer besides the headers: enough for fast bodies, and small enough for every
/// connection. (HTTP/2 has its windows.)
const HTTP1_BUFFER: usize = 64 << 10;

/// A bound port that does not yet accept.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Certificates>>,
    http: HttpConfig,
    ws: WsConfig,
}

impl Port {
    /// Binds the port and reads the certificate, if one is configured.
    ///
    /// # Errors
    /// If the port is taken or not permitted, or a TLS file cannot be used.
    pub async fn bind(config: &Config) -> Result<Self, StartError> {
        let tls = Certificates::of(&config.tls)?;
        let (listener, address) = bind(config.listen, "--listen").await?;
        Ok(Self { listener, address, tls, http: config.http.clone(), ws: config.ws.clone() })
    }

    /// Returns the address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it speaks TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The certificate, with TLS.
    pub(crate) fn certificates(&self) -> Option<Arc<Certificates>> {
        self.tls.clone()
    }

    /// Accepts connections and serves them until [`Connections::close`]. Connections that are refused are
    /// reported to `health`.
    #[must_use]
    pub fn serve(self, edge: Edge, limits: &LimitsConfig, health: Reporter) -> Connections {
        let connections = Connections {
            tasks: TaskTracker::new(),
            sockets: TaskTracker::new(),
            closing: CancellationToken::new(),
            abort: CancellationToken::new(),
        };
        let own = OwnPage { tls: self.tls.is_some(), port: self.address.port() };
        let origins = Origins::new(&self.http.cors, self.ws.demo.then_some(own));
        let sockets = ws::Sockets::new(edge.clone(), limits, &self.ws, connections.sockets(), health.clone());
        let web = Web::new(limits, &self.http.cors, sockets, self.ws.demo);
        let server = ConnectionServer {
            http1: http1(limits),
            http2: http2(limits),
            front: Front::new(edge, web, origins),
            tls: self.tls,
            handshake: limits.handshake,
            age: limits.connection_age,
            idle: limits.connection_idle,
            grace: limits.connection_grace,
            unread_max: limits.unread_max,
            connections: connections.clone(),
        };
        let places = Places::new(PlaceKind::Connections, limits.connections);
        let (tasks, closing) = (connections.tasks.clone(), connections.closing.clone());
        let accepting = AcceptLoop::new(self.listener, places, tasks, closing, PORT, health);
        let server = Arc::new(server);
        for unread in [metric::CONNECTIONS_UNREAD, metric::ANSWERS_UNREAD_REFUSED] {
            drop(metrics::counter!(unread.name));
        }
        tokio::spawn(accepting.run(move |socket, peer| {
            let server = Arc::clone(&server);
            async move { server.serve_socket(socket, peer).await }
        }));
        connections
    }
}

/// The address for calls from this machine to a listener on `at`: "all addresses" cannot be called.
pub fn callable(mut at: SocketAddr) -> SocketAddr {
    match at {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
        SocketAddr::V4(_) | SocketAddr::V6(_) => {}
    }
    at
}

/// Binds `address`, which `flag` sets.
pub(crate) async fn bind(
    address: SocketAddr,
    flag: &'static str,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let refused = |error: io::Error| StartError::bind(address, flag, &error);
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// The connections on a port.
#[derive(Clone, Debug)]
pub struct Connections {
    tasks: TaskTracker,
    /// Connections that became sockets.
    sockets: TaskTracker,
    closing: CancellationToken,
    abort: CancellationToken,
}

impl Connections {
    /// How many connections are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.tasks.len() + self.sockets.len()
    }

    fn sockets(&self) -> ws::SocketShutdown {
        let (closing, abort) = (self.closing.clone(), self.abort.clone());
        ws::SocketShutdown { tasks: self.sockets.clone(), closing, abort }
    }

    /// Accepts no more connections, asks every peer to close (GOAWAY), and waits until running calls have
    /// ended. After `limit` the rest is cut off; returns false then.
    pub async fn close(&self, limit: Duration) -> bool {
        self.closing.cancel();
        self.tasks.close();
        self.sockets.close();
        // Sockets come last: until there are no connections, a connection may become a socket.
        let ended = async {
            self.tasks.wait().await;
            self.sockets.wait().await;
        };
        let in_time = timeout(limit, ended).await.is_ok();
        self.abort.cancel();
        self.tasks.wait().await;
        self.sockets.wait().await;
        in_time
    }
}

/// The services on every connection.
struct ConnectionServer {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    front: Front,
    tls: Option<Arc<Certificates>>,
    handshake: Duration,
    age: Duration,
    /// How long an HTTP/1.1 connection may wait for a request.
    idle: Duration,
    grace: Duration,
    /// How long a peer may leave an answer unread.
    unread_max: Duration,
    connections: Connections,
}

fn http2(limits: &LimitsConfig) -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .max_header_list_size(limits.headers_bytes)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_ANSWER);
    http
}

/// A connection's requests come one after the other, also if a peer does not wait for answers. [`HeadWatch`]
/// limits how long a request's head may take.
fn http1(limits: &LimitsConfig) -> http1::Builder {
    let headers = usize::try_from(limits.headers_bytes).unwrap_or(usize::MAX);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.connection_idle)
        .max_header_size(headers)
        .max_buf_size(headers.saturating_add(HTTP1_BUFFER));
    http
}

impl ConnectionServer {
    /// Does the TLS handshake within the limit, then serves.
    async fn serve_socket(&self, socket: TcpStream, peer: Arc<RemotePeer>) {
        // Without it small answers wait for acknowledgements of earlier answers.
        if socket.set_nodelay(true).is_err() {
            return;
        }
        let closing = self.connections.closing.cancelled();
        let Some(tls) = &self.tls else {
            let handshake = timeout(self.handshake, preface::read_preface(socket));
            if let Some(Ok(Ok((protocol, io)))) = unless_closing(closing, handshake).await {
                self.connection(protocol, io, peer).await;
            }
            return;
        };
        let handshake = timeout(self.handshake, async {
            preface::read_preface(tls.acceptor().accept(socket).await?).await
        });
        if let Some(Ok(Ok((protocol, io)))) = unless_closing(closing, handshake).await {
            self.connection(protocol, io, peer).await;
        }
    }

    async fn connection<I>(&self, protocol: Protocol, io: ConnectionIo<I>, peer: Arc<RemotePeer>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match protocol {
            Protocol::Http1 => {
                let front = self.front.of_connection(peer, None);
                let unread = front.unread();
                let too_long = self.unread_too_long(&unread);
                let state = Arc::<Http1State>::default();
                let io = TokioIo::new(io.watched(HeadWatch::new(Arc::clone(&state), self.handshake)));
                let connection = self.http1.serve_connection(io, front.with_http1(Arc::clone(&state)));
                let connection = pin!(connection.with_upgrades());
                // An idle connection is not closed at its age: its peer may be sending the next request.
                let grace = self.idle.saturating_add(self.grace);
                let at_age = |_connection: Pin<&mut _>| state.ask_to_close();
                self.serve_to_end(connection, too_long, grace, at_age, |http| http.graceful_shutdown()).await;
            }
            Protocol::Http2 => {
                let signs = Arc::new(ConnectionSigns::new(KEEPALIVE, KEEPALIVE_ANSWER));
                let front = self.front.of_connection(peer, Some(Arc::clone(&signs)));
                let unread = front.unread();
                let too_long = async {
                    self.unread_too_long(&unread).await;
                    // Data that the peer has not read has not arrived.
                    signs.broken();
                };
                let io = TokioIo::new(io.watched(Arc::clone(&signs)));
                let connection = pin!(self.http2.serve_connection(io, front));
                let go_away = |http: Pin<&mut http2::Connection<_, _, _>>| http.graceful_shutdown();
                self.serve_to_end(connection, too_long, self.grace, go_away, go_away).await;
            }
        }
    }

    /// Serves until the connection ends, at the latest `grace` after its age. `at_age` asks the peer to
    /// close; `shut_down`, when the node stops, lets running calls end. When `too_long` ends, the peer has
    /// not read for too long, and is cut off.
    async fn serve_to_end<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        too_long: impl Future<Output = ()>,
        grace: Duration,
        at_age: impl FnOnce(Pin<&mut C>),
        shut_down: impl FnOnce(Pin<&mut C>),
    ) {
        let closing = &self.connections.closing;
        let mut too_long = pin!(too_long);
        tokio::select! {
            _ended = connection.as_mut() => return,
            () = too_long.as_mut() => return,
            () = sleep(jittered(self.age)) => at_age(connection.as_mut()),
            () = closing.cancelled() => {}
        }
        tokio::select! {
            _ended = connection.as_mut() => return,
            () = too_long.as_mut() => return,
            () = sleep(grace) => return,
            () = closing.cancelled() => shut_down(connection.as_mut()),
        }
        tokio::select! {
            _ended = connection => {}
            () = too_long => {}
            () = self.connections.abort.cancelled() => {}
        }
    }

    /// Returns when the peer has left data unread for too long.
    async fn unread_too_long(&self, unread: &ConnectionUnread) {
        loop {
            sleep(self.unread_max).await;
            if unread.end_period() {
                metrics::counter!(metric::CONNECTIONS_UNREAD.name).increment(1);
                return;
            }
        }
    }
}

/// The result of `work`, unless `closing` comes first.
async fn unless_closing<T>(closing: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        () = closing => None,
        done = work => Some(done),
    }
}

/// Shorter by up to a tenth, so that connections made at one time do not all end at the same time.
fn jittered(age: Duration) -> Duration {
    age.mul_f64(1.0 - rand::rng().random_range(0.0..0.1))
}
