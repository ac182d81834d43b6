//! How a node starts and stops. Each order stands in one function.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::{
    backend::{self, Opened},
    bring_up::BringUp,
    config::{Backend, Config},
    edge::Edge,
    error,
    health::{Reporter, State},
    operations::{self, Operations},
    start::StartError,
    telemetry,
    transport::{self, Connections, Port},
    wiring::Services,
};

/// How often a node that other machines reach without TLS says so.
const MINUTE: Duration = Duration::from_secs(60);
/// How often histograms are folded; what has been recorded waits in memory until then.
const UPKEEP: Duration = Duration::from_secs(5);
/// What writes that have begun get at least, when calls took all of the time to drain.
const MUTATIONS_LEAST: Duration = Duration::from_secs(1);

/// Where a node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// gRPC.
    pub grpc: SocketAddr,
    /// The port for operators, where there is one.
    pub operations: Option<SocketAddr>,
}

/// A node that runs.
#[derive(Debug)]
pub struct Node {
    addresses: Addresses,
    config: Arc<Config>,
    health: Reporter,
    edge: Edge,
    connections: Connections,
    operations: Option<JoinHandle<()>>,
    store: Opened,
    services: Arc<OnceLock<Services>>,
    /// Ends the operations port and the tasks beside the calls.
    end: CancellationToken,
}

/// Runs a node until `shutdown`. `ready` is told where it listens once it does.
///
/// # Errors
/// When it cannot start.
pub async fn run(
    config: Config,
    ready: impl FnOnce(Addresses),
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let node = Node::start(config).await?;
    ready(node.addresses());
    shutdown.await;
    node.stop(std::future::pending()).await;
    Ok(())
}

impl Node {
    /// Binds the ports, opens the store, and serves. An embedded node serves all when this returns; that of a
    /// cluster may still wait for its store, and says so by its health.
    ///
    /// # Errors
    /// When a port, a file or the store of an embedded node cannot be used.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let config = Arc::new(config);
        let port = Port::bind(&config).await?;
        let operations = bind_operations(&config).await?;
        let metrics = telemetry::metrics()?;
        error::docs_at(&config.docs_url);
        let store = Opened::open(&config).await?;
        let node = Self::listen(config, port, operations, metrics, store)?;
        let bring_up = BringUp {
            config: Arc::clone(&node.config),
            stores: node.store.stores(),
            health: node.health.clone(),
            edge: node.edge.clone(),
            services: Arc::clone(&node.services),
            end: node.end.clone(),
        };
        match node.config.store.backend {
            Backend::Cluster => bring_up.patiently(),
            Backend::Sqlite => {
                if let Err(error) = bring_up.now().await {
                    let error = backend::unusable(&node.config, &error);
                    node.stop(std::future::ready(())).await;
                    return Err(error);
                }
            }
        }
        Ok(node)
    }

    /// Serves health, reflection and the port for operators; calls of the domains are told to come again.
    fn listen(
        config: Arc<Config>,
        port: Port,
        operations: Option<(TcpListener, SocketAddr)>,
        metrics: PrometheusHandle,
        store: Opened,
    ) -> Result<Self, StartError> {
        let health = Reporter::new();
        let edge = Edge::new(base(&health)?, &config.limits);
        let addresses =
            Addresses { grpc: port.address(), operations: operations.as_ref().map(|(_, address)| *address) };
        let end = CancellationToken::new();
        warn_of_open_port(&port, &end);
        let upkeep = metrics.clone();
        every(UPKEEP, &end, move || upkeep.run_upkeep());
        say_where(&config, addresses);
        let connections = port.serve(edge.clone(), &config.limits);
        let services = Arc::default();
        let told = Operations {
            health: health.clone(),
            edge: edge.clone(),
            connections: connections.clone(),
            metrics,
            services: Arc::clone(&services),
        };
        let operations =
            operations.map(|(listener, _)| tokio::spawn(operations::serve(listener, told, end.clone())));
        Ok(Self { addresses, config, health, edge, connections, operations, store, services, end })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What it is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.health.state()
    }

    /// Stops in order; nothing that was acknowledged is lost. `hurry` skips the wait for load balancers.
    /// False when calls or writes had to be left behind.
    pub async fn stop(self, hurry: impl Future<Output = ()>) -> bool {
        tracing::info!("kith stops");
        self.health.set(State::Stopping);
        self.wait_for_load_balancers(hurry).await;
        let until = Instant::now() + self.config.drain;
        self.edge.close_watches();
        let calls = self.connections.close(self.config.drain).await;
        let left = until.saturating_duration_since(Instant::now()).max(MUTATIONS_LEAST);
        let writes = match self.services.get() {
            Some(services) => services.mutations.drain(left).await,
            None => true,
        };
        self.end.cancel();
        if let Some(operations) = self.operations
            && let Err(error) = operations.await
        {
            tracing::error!(%error, "the operations port failed");
        }
        self.store.close().await;
        tracing::info!(calls_ended = calls, writes_ended = writes, "kith has stopped");
        calls && writes
    }

    /// They see NOT_SERVING and send their calls elsewhere. Where nobody is connected nobody is waited for.
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

async fn bind_operations(config: &Config) -> Result<Option<(TcpListener, SocketAddr)>, StartError> {
    if !config.operations.enabled {
        return Ok(None);
    }
    transport::bind(config.operations.listen, "--set operations.listen=ADDRESS").await.map(Some)
}

/// What is served without a store.
fn base(health: &Reporter) -> Result<Routes, StartError> {
    let unreadable = |_| StartError::new("the descriptors of the contract cannot be read");
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(kith_proto::DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // So that callers which know nothing but reflection can read the details of errors.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    let v1 = builder().build_v1().map_err(unreadable)?;
    let v1alpha = builder().build_v1alpha().map_err(unreadable)?;
    Ok(Routes::new(health.service()).add_service(v1).add_service(v1alpha))
}

fn say_where(config: &Config, addresses: Addresses) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        grpc = %addresses.grpc,
        operations = addresses.operations.map(tracing::field::display),
        data = backend::place(config),
        "kith listens"
    );
}

fn warn_of_open_port(port: &Port, end: &CancellationToken) {
    if port.has_tls() || port.address().ip().to_canonical().is_loopback() {
        return;
    }
    let address = port.address();
    every(MINUTE, end, move || {
        tracing::warn!(%address, "gRPC is served without TLS to other machines (insecure_listen)");
    });
}

/// Does it now and then until `end`.
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
