//! A gateway as the contract describes it: it sends heartbeats, names each session once a minute, opens
//! missing sessions again, and goes to the next node if a node does not answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::presence::v1::{
    HeartbeatRequest, OpenSessionRequest, SessionName, presence_service_client::PresenceServiceClient,
};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep},
};
use tonic::{Status, transport::Channel};

use crate::faults::calls::with_deadline;

/// Less than a third of the time after which a gateway counts as dead.
const BEAT_EVERY: Duration = Duration::from_secs(5);
/// Each session is named once a minute.
const PARTS: usize = 12;
/// Sessions that are opened at the same time.
const AT_ONCE: usize = 16;
/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// A machine that has much to do needs another one now and then.
const TRIES: usize = 50;
const DEVICE: &str = "phone";

/// A gateway; dropping it is its death.
#[derive(Debug)]
pub(super) struct Gateway {
    opened_again: Arc<AtomicU64>,
    _heartbeats: JoinSet<()>,
}

#[derive(Clone, Debug)]
struct HeartbeatTask {
    id: &'static str,
    token: String,
    nodes: Vec<Channel>,
    at: usize,
    sessions: Vec<i64>,
    opened_again: Arc<AtomicU64>,
}

impl Gateway {
    /// Opens a gateway with a session for each of these users. It talks to the first of these nodes.
    pub(super) async fn open(id: &'static str, nodes: Vec<Channel>, sessions: Vec<i64>) -> Result<Self> {
        let opened_again = Arc::default();
        let opened = Arc::clone(&opened_again);
        let mut task =
            HeartbeatTask { id, token: String::new(), nodes, at: 0, sessions, opened_again: opened };
        task.send_heartbeat(&[]).await.with_context(|| format!("the gateway {id} is refused"))?;
        let mut opened = Err(Status::unavailable("it was not tried"));
        for _ in 0..TRIES {
            opened = task.open(&task.sessions).await;
            if opened.is_ok() {
                break;
            }
            sleep(PAUSE).await;
        }
        opened.with_context(|| format!("sessions at {id} are refused"))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(task.run());
        Ok(Self { opened_again, _heartbeats: tasks })
    }

    /// How many sessions it opened again, since they were not there any more.
    pub(super) fn opened_again(&self) -> u64 {
        self.opened_again.load(Ordering::Relaxed)
    }
}

impl HeartbeatTask {
    async fn run(mut self) {
        let mut ticks = interval(BEAT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let parts = self.sessions.len().div_ceil(PARTS).max(1);
        let parts: Vec<Vec<i64>> = self.sessions.chunks(parts).map(<[i64]>::to_vec).collect();
        for part in parts.iter().cycle() {
            ticks.tick().await;
            while !self.renew(part).await {
                self.at = (self.at + 1) % self.nodes.len();
                sleep(PAUSE).await;
            }
        }
    }

    async fn renew(&mut self, part: &[i64]) -> bool {
        let Ok(unknown) = self.send_heartbeat(part).await else { return false };
        self.opened_again.fetch_add(unknown.len() as u64, Ordering::Relaxed);
        self.open(&unknown).await.is_ok()
    }

    /// Returns those that are not there.
    async fn send_heartbeat(&mut self, sessions: &[i64]) -> Result<Vec<i64>, Status> {
        let name = |user_id: &i64| SessionName { user_id: *user_id, device_id: DEVICE.to_owned() };
        let request = HeartbeatRequest {
            gateway_id: self.id.to_owned(),
            gateway_token: self.token.clone(),
            sessions: sessions.iter().map(name).collect(),
        };
        let answer = self.client().heartbeat(with_deadline(request)).await?.into_inner();
        self.token = answer.gateway_token;
        Ok(answer.unknown_sessions.into_iter().map(|name| name.user_id).collect())
    }

    async fn open(&self, users: &[i64]) -> Result<(), Status> {
        let open = async |user_id: &i64| {
            let request = OpenSessionRequest {
                user_id: *user_id,
                device_id: DEVICE.to_owned(),
                gateway_id: self.id.to_owned(),
                gateway_token: self.token.clone(),
            };
            self.client().open_session(with_deadline(request)).await.map(drop)
        };
        stream::iter(users).map(open).buffer_unordered(AT_ONCE).try_collect().await
    }

    fn client(&self) -> PresenceServiceClient<Channel> {
        PresenceServiceClient::new(self.nodes[self.at].clone())
    }
}
