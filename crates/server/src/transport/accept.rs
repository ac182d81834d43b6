//! The loop that accepts a port's connections, up to their limit.

use std::{future::Future, io, sync::Arc, time::Duration};

use kith_service::metric;
use metrics::Counter;
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    health::Reporter,
    places::{Places, RemotePeer},
    refusals::ConnectionRefusals,
};

/// Pause after a failed accept: most often file descriptors ran out, and a tight loop would not help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The pause if a stranger's connection was ended to make room.
const ROOM_PAUSE: Duration = Duration::from_millis(1);

/// The names that remarks in `/readyz` and log lines use for a port's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortName {
    /// The reason while connections are refused.
    pub(crate) refused: &'static str,
    /// The reason while strangers give way.
    pub(crate) displaced: &'static str,
    /// Names the setting for the limit.
    pub(crate) limit: &'static str,
}

/// Accepts connections. A connection that finds no place is closed; a connection whose place is given to
/// another peer is cut off.
pub(crate) struct AcceptLoop {
    listener: TcpListener,
    places: Arc<Places>,
    /// Tracks the connections' tasks.
    tasks: TaskTracker,
    closing: CancellationToken,
    name: PortName,
    full: ConnectionRefusals,
    displaced: ConnectionRefusals,
    failed: ConnectionRefusals,
}

impl AcceptLoop {
    pub(crate) fn new(
        listener: TcpListener,
        places: Arc<Places>,
        tasks: TaskTracker,
        closing: CancellationToken,
        name: PortName,
        health: Reporter,
    ) -> Self {
        let report = |counter, reason| ConnectionRefusals::new(counter, reason, health.clone());
        Self {
            listener,
            tasks,
            closing,
            name,
            full: report(metrics::counter!(metric::CONNECTIONS_REFUSED.name), name.refused),
            // Displaced connections are counted where their places are.
            displaced: report(Counter::noop(), name.displaced),
            failed: ConnectionRefusals::new(
                metrics::counter!(metric::ACCEPTS_FAILED.name),
                "accept_failed",
                health,
            ),
            places,
        }
    }

    /// Serves each connection with `serve` in its own task, until the port closes.
    pub(crate) async fn run<F>(mut self, serve: impl Fn(TcpStream, Arc<RemotePeer>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            let accepted = tokio::select! {
                () = self.closing.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, address)) => self.begin(socket, RemotePeer::new(address.ip()), &serve),
                Err(error) => self.pause(&error).await,
            }
        }
    }

    fn begin<F>(
        &mut self,
        socket: TcpStream,
        peer: Arc<RemotePeer>,
        serve: impl Fn(TcpStream, Arc<RemotePeer>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (limit, most) = (self.name.limit, self.places.most());
        let Ok((place, is_displaced)) = self.places.take(&peer) else {
            self.full.one_more(|| limit_text(limit, most));
            return;
        };
        if is_displaced {
            self.displaced.one_more(|| displaced_text(limit, most));
        }
        let serve = serve(socket, peer);
        self.tasks.spawn(async move {
            place.displaced().run_until_cancelled(serve).await;
        });
    }

    /// A peer that disconnected before it was accepted is no problem for the node.
    async fn pause(&mut self, error: &io::Error) {
        if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
            self.failed.one_more(|| {
                format!(
                    "connections cannot be accepted: {error}; let the process open more files (ulimit -n)"
                )
            });
        }
        sleep(if self.places.make_room() { ROOM_PAUSE } else { ACCEPT_PAUSE }).await;
    }
}

fn limit_text(limit: &str, most: usize) -> String {
    format!(
        "connections are refused: as many are open as {limit} allows ({most}); close unused ones, add nodes, or raise it"
    )
}

fn displaced_text(limit: &str, most: usize) -> String {
    format!(
        "connections that have made no call with a credential are closed: four fifths of {limit} ({most}) are open; close \
         unused ones, keep strangers from the port, add nodes, or raise it"
    )
}
