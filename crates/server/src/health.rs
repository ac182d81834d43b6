//! The node's health: `grpc.health.v1` for every service and for the whole node (""), with reasons for
//! operators.

use std::{sync::Arc, time::SystemTime};

use kith_service::{error::Error, metric};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::{sync::watch, time::Instant};
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status, metadata::MetadataValue};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use crate::edge;

/// The metadata in which an answer about health names the [`State`]: a client that waits for a node to start
/// needs no right for it.
pub const STATE_KEY: &str = "kith-state";

/// A node's state. NOT_SERVING in all states except one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The node waits for its store.
    Starting,
    /// The node waits for `kith migrate`.
    MigrationPending,
    /// The node serves calls.
    Serving,
    /// The node's store does not answer.
    StoreAway,
    /// The node is stopping.
    Stopping,
}

impl State {
    /// The name, for operators.
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

    /// The name and text that a state's default reason has.
    const fn default_cause(self) -> (&'static str, &'static str) {
        match self {
            Self::Starting => ("starting", "the store has not been opened yet"),
            Self::MigrationPending => ("migration_pending", "a migration is pending: run `kith migrate`"),
            Self::Serving => ("serving", "the node serves"),
            Self::StoreAway => ("store_away", "the store does not answer"),
            Self::Stopping => ("draining", "the node stops"),
        }
    }
}

/// The reason why a node does not serve, or a serving node's problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCause {
    /// For programs: `starting`, `store_away`, `store_replaced`, `store_locked`, `migration_pending`,
    /// `draining`; while it serves `store_full`, `store_nearly_full`, `store_damaged`, `certificate_ends`,
    /// `redis_away`, `redis_refused`, `redis_unfit`, `redis_prefix_taken`, `feed_unread`, `feed_late`,
    /// `relations_away`, `relations_unconfigured`, `connections_refused`, `connections_displaced`,
    /// `sockets_refused`, `operations_displaced`, `accept_failed`, `insecure_callers`,
    /// `callers_not_reloaded`, `issuer_keys_left_out`, `clock`.
    pub reason: &'static str,
    /// The text for display, with what to do. Contains no stored data and no credentials.
    pub message: String,
    /// Begin, in UTC (RFC 3339).
    #[serde(serialize_with = "rfc3339")]
    pub since: SystemTime,
}

fn rfc3339<S: serde::Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_rfc3339_seconds(*at))
}

/// A serving node's problem.
#[derive(Clone, Debug)]
struct ServingProblem {
    cause: HealthCause,
    /// Expiry; absent: until [`Reporter::end_remark`].
    until: Option<Instant>,
}

/// Holds the state and sends it to watchers. Starts as [`State::Starting`].
#[derive(Clone, Debug)]
pub struct Reporter {
    state: watch::Sender<State>,
    services: Arc<Vec<String>>,
    /// Problems while it serves.
    remarks: Arc<Mutex<Vec<ServingProblem>>>,
    /// The reasons for which it does not serve; locked while the state changes, so that a late report cannot
    /// undo a stop.
    causes: Arc<Mutex<Vec<HealthCause>>>,
    /// Bytes by which the data file can still grow.
    store_room: Arc<Mutex<Option<u64>>>,
}

impl Reporter {
    /// Creates a reporter for the contract's services.
    #[must_use]
    pub fn new() -> Self {
        let services = Arc::new(edge::services());
        let starting = cause(State::Starting, None, SystemTime::now());
        Self {
            state: watch::Sender::new(State::Starting),
            services,
            remarks: Arc::default(),
            causes: Arc::new(Mutex::new(vec![starting])),
            store_room: Arc::default(),
        }
    }

    /// The node's state.
    #[must_use]
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// How many bytes the data file can still grow. `None`: the store is no file, or it was not asked yet.
    #[must_use]
    pub fn store_room(&self) -> Option<u64> {
        *self.store_room.lock()
    }

    /// Notes by how many bytes the data file can still grow.
    pub(crate) fn set_store_room(&self, free: Option<u64>) {
        *self.store_room.lock() = free;
    }

    /// Returns once the node serves, or stops.
    pub async fn serving(&self) {
        let mut states = self.state.subscribe();
        // The sender is in this value, so that the wait ends only with a state.
        drop(states.wait_for(|state| matches!(state, State::Serving | State::Stopping)).await);
    }

    /// The reasons for which it does not serve, the newest first; empty while it serves.
    #[must_use]
    pub fn causes(&self) -> Vec<HealthCause> {
        self.causes.lock().clone()
    }

    /// Problems that do not prevent it from serving, the oldest first.
    #[must_use]
    pub fn remarks(&self) -> Vec<HealthCause> {
        let now = Instant::now();
        let mut remarks = self.remarks.lock();
        remarks.retain(|remark| remark.until.is_none_or(|until| now < until));
        remarks.iter().map(|remark| remark.cause.clone()).collect()
    }

    /// Reports a problem that does not prevent the node from serving; one remark for each reason.
    pub fn remark(&self, remark: HealthCause) {
        self.put(ServingProblem { cause: remark, until: None });
    }

    /// Like [`Self::remark`], but the remark expires unless it is repeated.
    pub fn remark_until(&self, remark: HealthCause, until: Instant) {
        self.put(ServingProblem { cause: remark, until: Some(until) });
    }

    fn put(&self, remark: ServingProblem) {
        let mut remarks = self.remarks.lock();
        remarks.retain(|known| known.cause.reason != remark.cause.reason);
        remarks.push(remark);
    }

    /// Removes the remark with this reason.
    pub fn end_remark(&self, reason: &str) {
        self.remarks.lock().retain(|known| known.cause.reason != reason);
    }

    /// Sets a new state, with its usual reason. The state of a stopping node cannot change.
    pub fn set(&self, state: State) {
        if self.state() != state {
            self.change(state, cause(state, None, SystemTime::now()));
        }
    }

    /// Sets a state with a reason of its own. May set the same state again with another message.
    pub fn set_with_cause(&self, state: State, cause: HealthCause) {
        self.change(state, cause);
    }

    fn change(&self, state: State, cause: HealthCause) {
        let mut causes = self.causes.lock();
        let before = self.state();
        if before == State::Stopping {
            return;
        }
        match state {
            State::Serving => causes.clear(),
            State::Stopping => causes.insert(0, cause),
            State::Starting | State::MigrationPending | State::StoreAway => *causes = vec![cause],
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

/// Exports whether a store answers this node.
pub(crate) fn report_store(store: &'static str, answers: bool) {
    metrics::gauge!(metric::STORE_UP.name, "store" => store).set(if answers { 1.0 } else { 0.0 });
}

/// The default reason of a state, with its own message if there is one.
pub(crate) fn cause(state: State, message: Option<String>, since: SystemTime) -> HealthCause {
    let (reason, text) = state.default_cause();
    HealthCause { reason, message: message.unwrap_or_else(|| text.to_owned()), since }
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
        let state = self.state();
        let mut answer = Response::new(response(state.status()));
        answer.metadata_mut().insert(STATE_KEY, MetadataValue::from_static(state.name()));
        Ok(answer)
    }

    type WatchStream = futures::stream::BoxStream<'static, Result<HealthCheckResponse, Status>>;

    /// An unknown service is SERVICE_UNKNOWN permanently, as the protocol requires.
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
        let mut sent = None;
        let changes = states.filter_map(move |state| {
            let status = state.status();
            let news = sent.replace(status) != Some(status);
            futures::future::ready(news.then(|| Ok(response(status))))
        });
        Ok(Response::new(changes.boxed()))
    }
}
