//! Sockets as sessions of presence: this node is one of its own gateways.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kith_proto::{
    admin::v1::{GetNodeRequest, admin_service_client::AdminServiceClient},
    presence::v1::{
        CloseSessionRequest, HeartbeatRequest, HeartbeatResponse, OpenSessionRequest, SessionName,
        presence_service_client::PresenceServiceClient,
    },
};
use kith_store::UserId;
use parking_lot::Mutex;
use tokio::{
    sync::OnceCell,
    time::{MissedTickBehavior, interval},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Request, Status};

use crate::{auth::identity::InProcessIdentity, edge::Edge};

/// Sessions that one heartbeat may renew.
const RENEWED: usize = 1_000;
/// Heartbeats in the time after which a silent gateway is dead.
const HEARTBEATS_PER_TTL: u32 = 4;
/// Between heartbeats if the node says nothing else.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// The gateway `ws-<node id>`. It is made by the first session. Cheap to clone.
///
/// Sessions follow the sockets as well as they can: that presence is away ends no socket, and a session that could not be
/// opened is opened by a later heartbeat.
#[derive(Clone, Debug)]
pub(super) struct Gateway(Arc<GatewayInner>);

#[derive(Debug)]
struct GatewayInner {
    edge: Edge,
    proof: OnceCell<GatewayProof>,
    sessions: Mutex<BTreeSet<(UserId, String)>>,
    /// Closes sessions while the node still answers calls.
    tasks: TaskTracker,
    closing: CancellationToken,
}

/// What the gateway proves itself with.
#[derive(Clone, Debug)]
struct GatewayProof {
    id: String,
    token: String,
}

/// The session of one socket, until dropped.
#[derive(Debug)]
pub(super) struct SocketSession {
    gateway: Gateway,
    user: UserId,
    device: String,
}

impl Gateway {
    pub(super) fn new(edge: Edge, tasks: TaskTracker, closing: CancellationToken) -> Self {
        let sessions = Mutex::default();
        Self(Arc::new(GatewayInner { edge, proof: OnceCell::new(), sessions, tasks, closing }))
    }

    /// Opens a session of its own for a socket: two sockets of one device do not share one.
    pub(super) async fn open(&self, user: UserId, device: &str) -> SocketSession {
        let device = format!("{device}.{:08x}", rand::random::<u32>());
        self.0.sessions.lock().insert((user, device.clone()));
        // From here on it is closed when the socket ends, also while it is being opened.
        let session = SocketSession { gateway: self.clone(), user, device };
        let opened = async {
            let proof = self.proof().await?;
            self.open_session(proof, user.get(), &session.device).await
        };
        if let Err(status) = opened.await {
            tracing::debug!(code = ?status.code(), "a session of a socket is not open yet");
        }
        session
    }

    async fn open_session(&self, proof: &GatewayProof, user_id: i64, device: &str) -> Result<(), Status> {
        let GatewayProof { id, token } = proof.clone();
        let device_id = device.to_owned();
        let request = OpenSessionRequest { user_id, device_id, gateway_id: id, gateway_token: token };
        self.presence().open_session(by_gateway(request)).await?;
        Ok(())
    }

    /// The first caller asks the node who it is, and makes the gateway; the others wait for that.
    async fn proof(&self) -> Result<&GatewayProof, Status> {
        self.0.proof.get_or_try_init(|| self.register()).await
    }

    async fn register(&self) -> Result<GatewayProof, Status> {
        let mut admin = AdminServiceClient::new(self.0.edge.clone());
        let node = admin.get_node(by_gateway(GetNodeRequest::default())).await?.into_inner();
        let id = format!("ws-{}", node.node_id);
        let first = HeartbeatRequest { gateway_id: id.clone(), ..HeartbeatRequest::default() };
        let begun = self.presence().heartbeat(by_gateway(first)).await?.into_inner();
        let period = period(&begun);
        let proof = GatewayProof { id, token: begun.gateway_token };
        let beats = self.clone().send_heartbeats(proof.clone(), period);
        tokio::spawn(self.0.closing.clone().run_until_cancelled_owned(beats));
        Ok(proof)
    }

    async fn send_heartbeats(self, proof: GatewayProof, period: Duration) {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(status) = self.renew(&proof).await {
                tracing::debug!(code = ?status.code(), "sessions of sockets are not renewed");
            }
        }
    }

    /// Renews every session, and opens those that presence does not have.
    async fn renew(&self, proof: &GatewayProof) -> Result<(), Status> {
        let sessions: Vec<_> = self.0.sessions.lock().iter().cloned().collect();
        let names = |(user, device): &(UserId, String)| SessionName {
            user_id: user.get(),
            device_id: device.clone(),
        };
        // Without sessions too: the gateway goes on.
        let parts = sessions.chunks(RENEWED).map(<[_]>::to_vec).chain(sessions.is_empty().then(Vec::new));
        for part in parts {
            let request = HeartbeatRequest {
                gateway_id: proof.id.clone(),
                gateway_token: proof.token.clone(),
                sessions: part.iter().map(names).collect(),
            };
            let answer = self.presence().heartbeat(by_gateway(request)).await?.into_inner();
            for unknown in answer.unknown_sessions {
                self.open_again(proof, &unknown).await?;
            }
        }
        Ok(())
    }

    /// Unless its socket has ended meanwhile.
    async fn open_again(&self, proof: &GatewayProof, session: &SessionName) -> Result<(), Status> {
        let Ok(user) = UserId::new(session.user_id) else { return Ok(()) };
        if self.0.sessions.lock().contains(&(user, session.device_id.clone())) {
            self.open_session(proof, session.user_id, &session.device_id).await?;
        }
        Ok(())
    }

    async fn close_session(self, user_id: i64, device_id: String) {
        let Some(GatewayProof { id, token }) = self.0.proof.get().cloned() else { return };
        let request = CloseSessionRequest { user_id, device_id, gateway_id: id, gateway_token: token };
        if let Err(status) = self.presence().close_session(by_gateway(request)).await {
            tracing::debug!(code = ?status.code(), "a session of a socket ends by its time");
        }
    }

    fn presence(&self) -> PresenceServiceClient<Edge> {
        PresenceServiceClient::new(self.0.edge.clone())
    }
}

impl Drop for SocketSession {
    fn drop(&mut self) {
        let Self { gateway, user, device } = self;
        gateway.0.sessions.lock().remove(&(*user, device.clone()));
        gateway.0.tasks.spawn(gateway.clone().close_session(user.get(), std::mem::take(device)));
    }
}

/// The gateway has no key: it is part of the node.
fn by_gateway<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(InProcessIdentity::Gateway);
    request
}

/// Between two heartbeats.
fn period(answer: &HeartbeatResponse) -> Duration {
    let ttl = answer.gateway_ttl.and_then(|ttl| Duration::try_from(ttl).ok());
    ttl.map_or(HEARTBEAT, |ttl| (ttl / HEARTBEATS_PER_TTL).max(Duration::from_millis(10)))
}
