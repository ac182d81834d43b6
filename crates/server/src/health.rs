//! Whether the node answers: `grpc.health.v1` for every service and for the node as a whole (""), and the
//! reasons behind it for operators.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_check_response::ServingStatus,
    health_server::{Health, HealthServer},
};

use crate::{edge, error::Error, metric};

/// What a node is doing. NOT_SERVING in all but one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for its store.
    Starting,
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
            Self::Serving => "serving",
            Self::StoreAway => "store_away",
            Self::Stopping => "stopping",
        }
    }

    const fn status(self) -> ServingStatus {
        match self {
            Self::Serving => ServingStatus::Serving,
            Self::Starting | Self::StoreAway | Self::Stopping => ServingStatus::NotServing,
        }
    }
}

/// Holds the state and tells it to whoever watches. Starts as [`State::Starting`].
#[derive(Clone, Debug)]
pub struct Reporter {
    state: watch::Sender<State>,
    services: Arc<Vec<String>>,
    /// So that nothing that is found out late undoes a stop.
    changing: Arc<Mutex<()>>,
}

impl Reporter {
    /// For the services of the contract.
    #[must_use]
    pub fn new() -> Self {
        let services = Arc::new(edge::services());
        Self { state: watch::Sender::new(State::Starting), services, changing: Arc::default() }
    }

    /// What the node is doing.
    #[must_use]
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Tells a new state. A node that stops does nothing else any more.
    pub fn set(&self, state: State) {
        let _changing = self.changing.lock();
        let before = self.state();
        if before == State::Stopping || before == state {
            return;
        }
        self.state.send_replace(state);
        metrics::gauge!(metric::SERVING.name).set(if state == State::Serving { 1.0 } else { 0.0 });
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
