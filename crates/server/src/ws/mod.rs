//! `GET /ws`: one socket for calls as JSON and for what is new for one user.
//!
//! It adds no second meaning to anything: a call is a call of JSON over HTTP, made by the socket's user; what
//! is new comes from `MessageService.Receive`, and both pass the edge. A socket holds no queue: what it
//! cannot write is not read elsewhere.

mod calls;
mod close;
mod closing;
mod delivery;
mod delivery_texts;
mod feed;
mod frame;
mod handshake;
mod hello;
mod presence;
mod renewal;
mod session;
mod socket;
mod turns;

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::{Request, Response};
use hyper::{body::Incoming, upgrade};
use hyper_util::rt::TokioIo;
use kith_service::metric;
use metrics::Gauge;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{calls::SocketCalls, delivery_texts::DeliveryTexts, handshake::HandshakeError, socket::Socket};
use crate::{
    config::{LimitsConfig, WsConfig},
    edge::Edge,
    health::Reporter,
    json::BodyLimits,
    places::{PlaceKind, Places, RemotePeer},
    refusals::ConnectionRefusals,
};

/// The path at which sockets are opened.
pub(crate) const PATH: &str = "/ws";

/// How sockets end with their node.
#[derive(Clone, Debug)]
pub(crate) struct SocketShutdown {
    /// Tracks the sockets' tasks.
    pub(crate) tasks: TaskTracker,
    /// Cancelled: they close themselves.
    pub(crate) closing: CancellationToken,
    /// Cancelled: they are cut off.
    pub(crate) abort: CancellationToken,
}

/// Opens a node's sockets, up to their bound.
#[derive(Debug)]
pub(crate) struct Sockets {
    shared: Arc<SocketsShared>,
    slots: Arc<Semaphore>,
    /// Places for sockets whose user is not known yet.
    waiting: Arc<Places>,
    refusals: Mutex<ConnectionRefusals>,
    shutdown: SocketShutdown,
}

/// The parts that every socket uses.
#[derive(Debug)]
pub(crate) struct SocketsShared {
    config: WsConfig,
    edge: Edge,
    calls: SocketCalls,
    texts: Arc<DeliveryTexts>,
    closing: CancellationToken,
    /// How long a socket goes on after its user was proved by a token.
    age_max: Duration,
}

impl Sockets {
    /// Creates the sockets, or `None` where none are served. Metrics go to the recorder installed before.
    /// `health` is notified of refused sockets.
    pub(crate) fn new(
        edge: Edge,
        limits: &LimitsConfig,
        config: &WsConfig,
        shutdown: SocketShutdown,
        health: Reporter,
    ) -> Option<Self> {
        metrics::gauge!(metric::WS_CONNECTIONS.name).set(0.0);
        if !config.enabled {
            return None;
        }
        let shared = SocketsShared {
            config: config.clone(),
            calls: SocketCalls::new(edge.clone(), BodyLimits::of(limits)),
            texts: Arc::default(),
            edge,
            closing: shutdown.closing.clone(),
            age_max: limits.stream_max,
        };
        let slots = Arc::new(Semaphore::new(config.sockets.min(Semaphore::MAX_PERMITS)));
        let waiting = Places::new(PlaceKind::Sockets, config.sockets_waiting);
        let refused = metrics::counter!(metric::CONNECTIONS_REFUSED.name);
        let refusals = Mutex::new(ConnectionRefusals::new(refused, "sockets_refused", health));
        Some(Self { shared: Arc::new(shared), slots, waiting, refusals, shutdown })
    }

    /// Answers this peer's request for a socket. The socket begins when the peer has that answer.
    pub(crate) fn open(&self, mut request: Request<Incoming>, peer: &Arc<RemotePeer>) -> Response<Body> {
        let key = match handshake::key(&request) {
            Ok(key) => key,
            Err(refused) => return refused.response(),
        };
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return self.refused(HandshakeError::Full, "ws.sockets");
        };
        let Ok((waiting, _)) = self.waiting.take(peer) else {
            return self.refused(HandshakeError::Crowded, "waiting sockets");
        };
        let displaced = waiting.displaced().clone();
        let upgraded = upgrade::on(&mut request);
        let (shared, abort) = (Arc::clone(&self.shared), self.shutdown.abort.clone());
        // Boxed here: each future around it would hold it twice, before it begins and while it runs.
        let serve = Box::pin(async move {
            let _open = OpenSocket::new(slot);
            if let Ok(upgraded) = upgraded.await {
                Socket::new(TokioIo::new(upgraded), &shared, waiting).await.run().await;
            }
        });
        let serve = async move { abort.run_until_cancelled(displaced.run_until_cancelled(serve)).await };
        self.shutdown.tasks.spawn(serve);
        handshake::switched(&key)
    }

    fn refused(&self, why: HandshakeError, limit: &str) -> Response<Body> {
        let message =
            || format!("a socket was refused: there are as many as {limit} allows; add nodes, or raise it");
        self.refusals.lock().one_more(message);
        why.response()
    }
}

/// An open socket, until dropped.
struct OpenSocket {
    count: Gauge,
    _slot: OwnedSemaphorePermit,
}

impl OpenSocket {
    fn new(slot: OwnedSemaphorePermit) -> Self {
        let count = metrics::gauge!(metric::WS_CONNECTIONS.name);
        count.increment(1.0);
        Self { count, _slot: slot }
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        self.count.decrement(1.0);
    }
}
