//! The node as its own gateway: users who receive from it, by Receive or by a socket, are online through it.

use std::{any::Any, collections::HashSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use kith_presence::{DeviceId, GatewayId};
use kith_store::UserId;
use parking_lot::Mutex;
use tokio::{
    sync::{OnceCell, oneshot},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::sessions::{SessionRequest, Sessions, UserDevice};
use crate::{
    error::Error,
    message::ReceiverSessions,
    write::rounds::{FirstFailure, every},
};

/// Sessions that one heartbeat renews.
const RENEWED_AT_ONCE: usize = 1_000;
/// Sessions that are opened at the same time after a heartbeat: some may wait for a Redis node that is away.
const OPENED_AT_ONCE: usize = 32;
/// Heartbeats in the time after which a silent gateway is dead.
const HEARTBEATS_PER_TTL: u32 = 4;
/// How long a node that stops waits until its last streams' sessions are closed. Others end with the gateway.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);

/// The sessions on the gateway `ws-<node id>`, which the first session creates. Cheap to clone.
///
/// Sessions follow streams on a best-effort basis: no stream fails because presence is unavailable, and a
/// session that could not be opened is opened by a later heartbeat.
#[derive(Clone, Debug)]
pub struct NodeSessions(Arc<NodeSessionsInner>);

#[derive(Debug)]
struct NodeSessionsInner {
    sessions: Sessions,
    gateway: GatewayId,
    /// The gateway's token, once the gateway exists.
    token: OnceCell<String>,
    /// The sessions whose streams are open.
    open: Mutex<HashSet<UserDevice>>,
    /// One task for each open stream.
    tasks: TaskTracker,
}

impl NodeSessions {
    pub(super) fn new(sessions: Sessions, node_id: &str) -> Self {
        let gateway = format!("ws-{node_id}").parse();
        Self(Arc::new(NodeSessionsInner {
            sessions,
            gateway: gateway.unwrap_or_else(|_| unreachable!("the id of a node is a UUID")),
            token: OnceCell::new(),
            open: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    /// Opens the session, and closes it when the stream has ended. One task does both, so that they do not
    /// overtake each other.
    async fn follow_stream(self, session: UserDevice, ended: oneshot::Receiver<()>) {
        if let Err(error) = Box::pin(self.open(&session)).await {
            tracing::debug!(%error, "the session of a stream is not open yet");
        }
        // The sender is never used: it is dropped with the stream.
        ended.await.ok();
        self.0.open.lock().remove(&session);
        if let Err(error) = Box::pin(self.close(&session)).await {
            tracing::debug!(%error, "the session of a stream ends by its time");
        }
    }

    async fn open(&self, session: &UserDevice) -> Result<(), Error> {
        let request = self.request(session).await?;
        self.0.sessions.open_session(request).await.map(drop)
    }

    async fn close(&self, session: &UserDevice) -> Result<(), Error> {
        let request = self.request(session).await?;
        self.0.sessions.close_session(request).await.map(drop)
    }

    async fn request(&self, session: &UserDevice) -> Result<SessionRequest, Error> {
        let UserDevice { user, device } = session.clone();
        let (gateway, gateway_token) = (self.0.gateway.clone(), self.token().await?.to_owned());
        Ok(SessionRequest { user, device, gateway, gateway_token })
    }

    /// The gateway's token. The first caller creates the gateway; the others wait for it.
    async fn token(&self) -> Result<&str, Error> {
        let create = async || {
            let first = self.0.sessions.heartbeat(self.0.gateway.clone(), "", Vec::new()).await?;
            Ok::<_, Error>(first.gateway_token)
        };
        self.0.token.get_or_try_init(create).await.map(String::as_str)
    }

    /// Keeps the gateway and its sessions alive.
    pub(super) async fn send_heartbeats(self) {
        let mut failures = FirstFailure::default();
        every(self.heartbeat_period(), async move || {
            let Some(token) = self.0.token.get() else { return };
            if let Some(error) = failures.of(&Box::pin(self.renew(token)).await) {
                tracing::warn!(%error, "not all sessions of streams are renewed; it is tried again");
            }
        })
        .await;
    }

    fn heartbeat_period(&self) -> Duration {
        (self.0.sessions.rules.gateway_ttl / HEARTBEATS_PER_TTL).max(Duration::from_millis(10))
    }

    /// Renews every session, and opens those that presence does not have. Without sessions, the gateway is
    /// renewed. A session that cannot be opened, as its user has too many, does not keep others from their
    /// renewal.
    ///
    /// # Errors
    /// A heartbeat's last error; the other parts were renewed nevertheless.
    async fn renew(&self, token: &str) -> Result<(), Error> {
        let sessions: Vec<UserDevice> = self.0.open.lock().iter().cloned().collect();
        let parts = sessions.chunks(RENEWED_AT_ONCE).map(<[_]>::to_vec);
        let mut renewed = Ok(());
        for part in parts.chain(sessions.is_empty().then(Vec::new)) {
            match self.0.sessions.heartbeat(self.0.gateway.clone(), token, part).await {
                Ok(heartbeat) => self.open_unknown(heartbeat.unknown).await,
                Err(error) => renewed = Err(error),
            }
        }
        renewed
    }

    async fn open_unknown(&self, unknown: Vec<UserDevice>) {
        let open = |session| async move {
            if let Err(error) = Box::pin(self.open_again(&session)).await {
                tracing::debug!(%error, "the session of a stream is still not open");
            }
        };
        stream::iter(unknown).for_each_concurrent(OPENED_AT_ONCE, open).await;
    }

    /// Opens a session unless its stream has ended; closes it if the stream ended meanwhile.
    async fn open_again(&self, session: &UserDevice) -> Result<(), Error> {
        let is_open = || self.0.open.lock().contains(session);
        if is_open() {
            self.open(session).await?;
            if !is_open() {
                self.close(session).await?;
            }
        }
        Ok(())
    }

    /// Waits until ended streams' sessions are closed, for a limited time.
    pub(super) async fn end(&self) {
        self.0.tasks.close();
        timeout(CLOSED_WITHIN, self.0.tasks.wait()).await.ok();
    }
}

impl ReceiverSessions for NodeSessions {
    fn begin(&self, user: UserId, device: &str) -> Box<dyn Any + Send + Sync> {
        let (stream, ended) = oneshot::channel::<()>();
        // Two streams on one device do not share a session.
        let device = format!("{device}.{:08x}", rand::random::<u32>());
        if let Ok(device) = device.parse::<DeviceId>() {
            let session = UserDevice { user, device };
            self.0.open.lock().insert(session.clone());
            self.0.tasks.spawn(self.clone().follow_stream(session, ended));
        }
        Box::new(stream)
    }
}
