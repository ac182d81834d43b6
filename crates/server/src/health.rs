//! Whether the node answers: `grpc.health.v1` for every service and for the node as a whole (""), and the
//! reasons behind it for operators.

use std::{sync::Arc, time::SystemTime};

use kith_service::{error::Error, metric};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{sync::watch, time::Instant};
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use crate::edge;

/// What a node is doing. NOT_SERVING in all but one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for its store.
    Starting,
    /// It waits for `kith migrate`.
    MigrationPending,
    /// It answers.
    Serving,
    /// Its store does not answer.
    StoreAway,
    /// It stops.
    Stopping,
}

impl State {
    /// In a word, for operators.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::MigrationPending => "migration_pending",
            Self::Serving => "serving",
            Self::StoreAway => "store_away",
            Self::Stopping => "stopping",
        }
    }

    const fn status(self) -> ServingStatus {
        match self {
            Self::Serving => ServingStatus::Serving,
            Self::Starting | Self::MigrationPending | Self::StoreAway | Self::Stopping => {
                ServingStatus::NotServing
            }
        }
    }

    /// Name and text of the reason that a state is by itself.
    const fn usual(self) -> (&'static str, &'static str) {
        match self {
            Self::Starting => ("starting", "the store has not been opened yet"),
            Self::MigrationPending => ("migration_pending", "a migration is pending: run `kith migrate`"),
            Self::Serving => ("serving", "the node serves"),
            Self::StoreAway => ("store_away", "the store does not answer"),
            Self::Stopping => ("draining", "the node stops"),
        }
    }
}

/// Why a node does not serve, or what is wrong while it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// For programs: `starting`, `store_away`, `migration_pending`, `draining`; while it serves `redis_away`,
    /// `redis_refused`, `redis_unfit`, `redis_prefix_taken`, `relations_away`, `relations_unconfigured`,
    /// `connections_refused`, `accept_failed`, `insecure_callers`, `callers_not_reloaded`.
    pub reason: &'static str,
    /// For people, with what to do. Holds nothing of what is stored, and no credentials.
    pub message: String,
    /// From when on, in UTC (RFC 3339).
    #[serde(serialize_with = "rfc3339")]
    pub since: SystemTime,
}

fn rfc3339<S: serde::Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_rfc3339_seconds(*at))
}

/// Something that is wrong while the node serves.
#[derive(Clone, Debug)]
struct Remark {
    cause: Cause,
    /// Absent: until [`Reporter::remark_off`].
    until: Option<Instant>,
}

/// Holds the state and sends it to watchers. Starts as [`State::Starting`].
#[derive(Clone, Debug)]
pub struct Reporter {
    state: watch::Sender<State>,
    services: Arc<Vec<String>>,
    /// What is wrong while it serves.
    remarks: Arc<Mutex<Vec<Remark>>>,
    /// Why it does not serve; locked while the state changes, so that nothing that is found out late undoes a
    /// stop.
    causes: Arc<Mutex<Vec<Cause>>>,
}

impl Reporter {
    /// For the services of the contract.
    #[must_use]
    pub fn new() -> Self {
        let services = Arc::new(edge::services());
        let starting = cause(State::Starting, None, SystemTime::now());
        Self {
            state: watch::Sender::new(State::Starting),
            services,
            remarks: Arc::default(),
            causes: Arc::new(Mutex::new(vec![starting])),
        }
    }

    /// What the node is doing.
    #[must_use]
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Returns once the node serves, or stops.
    pub async fn serving(&self) {
        let mut states = self.state.subscribe();
        // The sender is in this value, so that the wait ends only with a state.
        drop(states.wait_for(|state| matches!(state, State::Serving | State::Stopping)).await);
    }

    /// Why it does not serve, the newest first; empty while it serves.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        self.causes.lock().clone()
    }

    /// What is wrong without keeping it from serving, the oldest first.
    #[must_use]
    pub fn remarks(&self) -> Vec<Cause> {
        let now = Instant::now();
        let mut remarks = self.remarks.lock();
        remarks.retain(|remark| remark.until.is_none_or(|until| now < until));
        remarks.iter().map(|remark| remark.cause.clone()).collect()
    }

    /// Something is wrong from now on that does not keep the node from serving; one remark a reason.
    pub fn remark(&self, remark: Cause) {
        self.put(Remark { cause: remark, until: None });
    }

    /// As [`Self::remark`]. The remark ends by itself at this time, unless it is made again.
    pub fn remark_until(&self, remark: Cause, until: Instant) {
        self.put(Remark { cause: remark, until: Some(until) });
    }

    fn put(&self, remark: Remark) {
        let mut remarks = self.remarks.lock();
        remarks.retain(|known| known.cause.reason != remark.cause.reason);
        remarks.push(remark);
    }

    /// That is over.
    pub fn remark_off(&self, reason: &str) {
        self.remarks.lock().retain(|known| known.cause.reason != reason);
    }

    /// Sets a new state, with its usual reason. A node that stops gets no other state any more.
    pub fn set(&self, state: State) {
        if self.state() != state {
            self.change(state, cause(state, None, SystemTime::now()));
        }
    }

    /// Sets a state with a reason of its own; the same state may be set again with another message.
    pub fn because(&self, state: State, told: Cause) {
        self.change(state, told);
    }

    fn change(&self, state: State, told: Cause) {
        let mut causes = self.causes.lock();
        let before = self.state();
        if before == State::Stopping {
            return;
        }
        match state {
            State::Serving => causes.clear(),
            State::Stopping => causes.insert(0, told),
            State::Starting | State::MigrationPending | State::StoreAway => *causes = vec![told],
        }
        if before != state {
            self.state.send_replace(state);
            metrics::gauge!(metric::SERVING.name).set(if state == State::Serving { 1.0 } else { 0.0 });
        }
    }

    /// The gRPC service.
    #[must_use]
    pub fn service(&self) -> HealthServer<Self> {
        HealthServer::new(self.clone())
    }

    fn knows(&self, service: &str) -> bool {
        service.is_empty() || self.services.iter().any(|known| known == service)
    }
}

impl Default for Reporter {
    fn default() -> Self {
        Self::new()
    }
}

/// The usual reason of a state, with a message of its own where there is one.
pub(crate) fn cause(state: State, message: Option<String>, since: SystemTime) -> Cause {
    let (reason, text) = state.usual();
    Cause { reason, message: message.unwrap_or_else(|| text.to_owned()), since }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[tonic::async_trait]
impl Health for Reporter {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !self.knows(&request.get_ref().service) {
            return Err(Error::not_found("service").into());
        }
        Ok(Response::new(response(self.state().status())))
    }

    type WatchStream = futures::stream::BoxStream<'static, Result<HealthCheckResponse, Status>>;

    /// A service that is not known is SERVICE_UNKNOWN for ever, as the protocol wants it.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        use futures::StreamExt as _;
        if !self.knows(&request.get_ref().service) {
            let unknown = futures::stream::iter([Ok(response(ServingStatus::ServiceUnknown))]);
            return Ok(Response::new(unknown.chain(futures::stream::pending()).boxed()));
        }
        let states = WatchStream::new(self.state.subscribe());
        let mut told = None;
        let changes = states.filter_map(move |state| {
            let status = state.status();
            let news = told.replace(status) != Some(status);
            futures::future::ready(news.then(|| Ok(response(status))))
        });
        Ok(Response::new(changes.boxed()))
    }
}
