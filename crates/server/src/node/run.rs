//! Starts and stops a node. Each sequence is in one function.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use kith_service::error;
use kith_store::Stores;
use metrics_exporter_prometheus::PrometheusHandle;
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "embedded")]
use crate::node::sandbox::Sandboxes;
use crate::{
    auth::Callers,
    build_info,
    cluster::DatabaseLease,
    config::{Backend, Config, plain_links},
    descriptors,
    edge::{Edge, Routes},
    health::{HealthCause, Reporter, State},
    json::BodyLimits,
    node::{
        callers::CallersReload,
        certificate_watch::CertificateWatch,
        operations::{self, OperationsState},
        services::Services,
        startup::{Startup, StoreSlot},
        store::{DataLocation, OpenStore, StoreInfo},
    },
    start_error::StartError,
    telemetry,
    transport::{self, Certificates, Connections, Port},
};

/// How often the streams with expired keys are ended.
const SECOND: Duration = Duration::from_secs(1);
/// How often the certificates' times are checked.
const CERTIFICATES: Duration = Duration::from_secs(10);
/// How often the log says how many calls were refused, after the first.
const REFUSALS: Duration = Duration::from_secs(10);
/// How often histograms are folded; what has been recorded waits in memory until then.
const UPKEEP: Duration = Duration::from_secs(5);
/// Minimum time for running writes, if calls took the whole drain time.
const MUTATIONS_LEAST: Duration = Duration::from_secs(1);
/// How long a start waits for the first answer from a cluster's store, so that a refusal is reported
/// immediately.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// The addresses on which a node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The gRPC port's address.
    pub grpc: SocketAddr,
    /// The operations port's address, if there is one.
    pub operations: Option<SocketAddr>,
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    addresses: Addresses,
    config: Arc<Config>,
    health: Reporter,
    edge: Edge,
    connections: Connections,
    callers: Arc<CallersReload>,
    /// The certificate, with TLS.
    certificates: Option<Arc<Certificates>>,
    operations: Option<JoinHandle<()>>,
    info: StoreInfo,
    store: StoreSlot,
    services: Arc<OnceLock<Services>>,
    /// The lease on a database that others could use, after it is made.
    database_lease: Arc<OnceLock<DatabaseLease>>,
    fatal: watch::Sender<Option<StartError>>,
    /// Ends the operations port and the background tasks.
    end: CancellationToken,
}

/// Runs a node until `shutdown`. Calls `ready` with its addresses when it listens.
///
/// # Errors
/// If it cannot start, or its store turns out to be the wrong one.
pub async fn run(
    config: Config,
    ready: impl FnOnce(Addresses),
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let node = Box::pin(Node::start(config)).await?;
    ready(node.addresses());
    let refused = tokio::select! {
        () = shutdown => None,
        refused = node.fatal_error() => Some(refused),
    };
    node.stop(std::future::pending()).await;
    refused.map_or(Ok(()), Err)
}

/// The ports that a node has bound.
struct BoundPorts {
    calls: Port,
    operations: Option<(TcpListener, SocketAddr)>,
}

impl Node {
    /// Binds the ports, opens the store, and serves. An embedded node serves when this returns, unless a
    /// migration must be applied by a person. A cluster node may still wait for its store, which its health
    /// reports.
    ///
    /// # Errors
    /// If a port, a file or an embedded node's store cannot be used, or a cluster's store refuses.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let config = Arc::new(config);
        let ports =
            BoundPorts { calls: Port::bind(&config).await?, operations: bind_operations(&config).await? };
        let metrics = telemetry::metrics()?;
        let callers = Arc::new(CallersReload::begin(&config).await?);
        error::docs_at(&config.docs_url);
        let store = OpenStore::open(&config).await?;
        let found = StartInputs::of(&config, &store).await?;
        let node = Self::listen(config, ports, metrics, callers, store, found.info.clone())?;
        if let Err(error) = node.start_up(found).await {
            node.shut_down(std::future::ready(())).await;
            return Err(error);
        }
        node.log_addresses();
        Ok(node)
    }

    async fn start_up(&self, found: StartInputs) -> Result<(), StartError> {
        let startup = Startup {
            config: Arc::clone(&self.config),
            stores: found.stores,
            info: found.info,
            slot: Arc::clone(&self.store),
            health: self.health.clone(),
            edge: self.edge.clone(),
            callers: Arc::clone(self.callers.callers()),
            services: Arc::clone(&self.services),
            database_lease: Arc::clone(&self.database_lease),
            listens: self.addresses.grpc,
            fatal: self.fatal.clone(),
            end: self.end.clone(),
            #[cfg(feature = "embedded")]
            sandboxes: found.sandboxes,
        };
        match self.config.store.backend {
            Backend::Sqlite => startup.serve_once().await,
            Backend::Cluster => {
                startup.serve_with_retries(FIRST_ANSWER).await;
                self.fatal.borrow().clone().map_or(Ok(()), Err)
            }
        }
    }

    /// Serves health, reflection and the operations port. Domain calls get an error that allows a retry.
    fn listen(
        config: Arc<Config>,
        ports: BoundPorts,
        metrics: PrometheusHandle,
        callers: Arc<CallersReload>,
        store: OpenStore,
        info: StoreInfo,
    ) -> Result<Self, StartError> {
        let BoundPorts { calls: port, operations } = ports;
        let health = Reporter::new();
        let edge = Edge::new(base(&health)?, &config.limits)
            .with_credentials(Arc::clone(callers.callers()), Arc::clone(callers.tokens()))
            .with_sandboxes(config.ephemeral.enabled);
        let addresses =
            Addresses { grpc: port.address(), operations: operations.as_ref().map(|(_, address)| *address) };
        let end = CancellationToken::new();
        warn_of_open_port(&port);
        warn_of_plain_links(&config);
        warn_of_insecure_callers(&config, &health);
        watch_callers(&callers, &config, &health, &end);
        let refused = edge.clone();
        every(REFUSALS, &end, move || refused.report_refusals());
        let upkeep = metrics.clone();
        every(UPKEEP, &end, move || upkeep.run_upkeep());
        let certificates = port.certificates();
        watch_certificates(certificates.clone(), config.tls.read_again_every, &end);
        let mut ends = CertificateWatch::new(certificates.clone(), &config, health.clone());
        every(CERTIFICATES, &end, move || ends.look(SystemTime::now()));
        let connections = port.serve(edge.clone(), &config.limits, health.clone());
        let services = Arc::default();
        let endpoints = OperationsState {
            health: health.clone(),
            edge: edge.clone(),
            limits: BodyLimits::of(&config.limits),
            connections: connections.clone(),
            metrics,
            services: Arc::clone(&services),
        };
        let operations =
            operations.map(|(listener, _)| tokio::spawn(operations::serve(listener, endpoints, end.clone())));
        Ok(Self {
            addresses,
            info,
            config,
            health,
            edge,
            connections,
            callers,
            certificates,
            operations,
            store: Arc::new(Mutex::new(Some(store))),
            services,
            database_lease: Arc::default(),
            fatal: watch::Sender::new(None),
            end,
        })
    }

    /// Returns the addresses the node listens on.
    #[must_use]
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns when it serves, or stops: a cluster node may wait long for its store.
    pub async fn serving(&self) {
        self.health.serving().await;
    }

    /// Returns the node's current state.
    #[must_use]
    pub fn state(&self) -> State {
        self.health.state()
    }

    /// The reasons for which it does not serve; empty while it serves.
    #[must_use]
    pub fn causes(&self) -> Vec<HealthCause> {
        self.health.causes()
    }

    /// Problems that do not prevent it from serving.
    #[must_use]
    pub fn remarks(&self) -> Vec<HealthCause> {
        self.health.remarks()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The present callers.
    pub(crate) fn callers(&self) -> &Callers {
        self.callers.callers()
    }

    /// How many issuers for users' tokens there are.
    pub(crate) fn issuers(&self) -> usize {
        self.callers.tokens().issuers()
    }

    pub(crate) fn callers_reload(&self) -> &CallersReload {
        &self.callers
    }

    pub(crate) const fn health(&self) -> &Reporter {
        &self.health
    }

    pub(crate) fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_deref()
    }

    pub(crate) const fn data(&self) -> &DataLocation {
        self.info.data()
    }

    /// Returns the reason if waiting for the store cannot succeed; the node must be stopped then. Otherwise
    /// it never returns.
    pub async fn fatal_error(&self) -> StartError {
        let mut fatal = self.fatal.subscribe();
        let found = fatal.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }

    /// Stops gracefully; nothing that was acknowledged is lost. `hurry` skips the wait for load balancers.
    /// Returns false if calls or writes were abandoned.
    pub async fn stop(self, hurry: impl Future<Output = ()>) -> bool {
        tracing::info!("kith stops");
        let (calls, writes) = self.shut_down(hurry).await;
        tracing::info!(calls_ended = calls, writes_ended = writes, "kith has stopped");
        calls && writes
    }

    /// Whether calls, and whether writes, ended in time.
    async fn shut_down(self, hurry: impl Future<Output = ()>) -> (bool, bool) {
        self.health.set(State::Stopping);
        self.wait_for_load_balancers(hurry).await;
        let until = Instant::now() + self.config.drain;
        self.edge.close_watches();
        let calls = self.connections.close(self.config.drain).await;
        let left = until.saturating_duration_since(Instant::now()).max(MUTATIONS_LEAST);
        let writes = match self.services.get() {
            Some(services) => services.end(left).await,
            None => true,
        };
        if let Some(lease) = self.database_lease.get() {
            lease.release().await;
        }
        self.edge.report_refusals();
        self.end.cancel();
        if let Some(operations) = self.operations
            && let Err(error) = operations.await
        {
            tracing::error!(%error, "the operations port failed");
        }
        let store = self.store.lock().take();
        if let Some(store) = store {
            store.close().await;
        }
        (calls, writes)
    }

    fn log_addresses(&self) {
        tracing::info!(
            version = build_info::LONG,
            grpc = %self.addresses.grpc,
            operations = self.addresses.operations.map(tracing::field::display),
            data = self.data().place,
            "kith listens"
        );
    }

    /// Load balancers see NOT_SERVING and send their calls elsewhere. Without connections there is no wait.
    async fn wait_for_load_balancers(&self, hurry: impl Future<Output = ()>) {
        if self.connections.open() == 0 {
            return;
        }
        tokio::select! {
            () = sleep(self.config.drain_wait) => {}
            () = hurry => {}
        }
    }
}

/// The dependencies for starting a node over a store.
struct StartInputs {
    stores: Stores,
    info: StoreInfo,
    #[cfg(feature = "embedded")]
    sandboxes: Option<Sandboxes>,
}

impl StartInputs {
    #[cfg_attr(not(feature = "embedded"), expect(clippy::unused_async, reason = "sandboxes copy the store"))]
    async fn of(config: &Config, store: &OpenStore) -> Result<Self, StartError> {
        Ok(Self {
            stores: store.stores(),
            info: store.info(config),
            #[cfg(feature = "embedded")]
            sandboxes: Sandboxes::of(config, store).await?,
        })
    }
}

async fn bind_operations(config: &Config) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    if !config.operations.enabled {
        return Ok(None);
    }
    transport::bind(config.operations.listen, "--set operations.listen=ADDRESS").await.map(Some)
}

/// The services that need no store.
fn base(health: &Reporter) -> Result<Routes, StartError> {
    let unreadable = |_| StartError::new("the descriptors of the contract cannot be read");
    let builder = || {
        let builder = tonic_reflection::server::Builder::configure();
        descriptors::SETS
            .into_iter()
            .fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set))
    };
    let v1 = builder().build_v1().map_err(unreadable)?;
    let v1alpha = builder().build_v1alpha().map_err(unreadable)?;
    Ok(Routes::new(health.service()).add_service(v1).add_service(v1alpha))
}

/// Warns once: a line each minute would drown the others, and the port does not change while the node runs.
fn warn_of_open_port(port: &Port) {
    if port.has_tls() || port.address().ip().to_canonical().is_loopback() {
        return;
    }
    let address = port.address();
    tracing::warn!(%address, "gRPC is served without TLS to other machines (insecure_listen)");
}

fn warn_of_plain_links(config: &Config) {
    for link in plain_links(config) {
        tracing::warn!("{link}");
    }
}

/// Also warns where only this machine reaches the port: a forwarder may be in front of it.
fn warn_of_insecure_callers(config: &Config, health: &Reporter) {
    if !config.insecure_callers {
        return;
    }
    let message =
        "everybody who reaches the port may do everything (insecure_callers); configure api_key_file";
    let cause =
        HealthCause { reason: "insecure_callers", message: message.to_owned(), since: SystemTime::now() };
    health.remark(cause);
    tracing::warn!("{message}");
}

/// Applies changes in the callers' files and the issuers' keys, and ends the streams with expired keys.
fn watch_callers(
    callers: &Arc<CallersReload>,
    config: &Arc<Config>,
    health: &Reporter,
    end: &CancellationToken,
) {
    let expiring = Arc::clone(callers);
    every(SECOND, end, move || expiring.expire());
    let (callers, config) = (Arc::clone(callers), Arc::clone(config));
    let (health, end) = (health.clone(), end.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = end.cancelled() => {}
            () = callers.run(&config.auth, &health) => {}
        }
    });
}

/// Applies changes in the TLS files.
fn watch_certificates(certificates: Option<Arc<Certificates>>, period: Duration, end: &CancellationToken) {
    let Some(certificates) = certificates else { return };
    every(period, end, move || match certificates.read_again() {
        Ok(false) => {}
        Ok(true) => tracing::info!("a new certificate is served to connections that begin from now on"),
        Err(error) => tracing::warn!(%error, "the certificate of before is served: the new one cannot be"),
    });
}

/// Repeats it periodically until `end`.
fn every(period: Duration, end: &CancellationToken, mut act: impl FnMut() + Send + 'static) {
    let end = end.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(period);
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                _tick = ticks.tick() => act(),
            }
        }
    });
}
