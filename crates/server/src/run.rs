//! How a node starts and stops. Each order stands in one function.

use std::{net::SocketAddr, time::Duration};

use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::{
    config::Config,
    edge::Edge,
    health::{Reporter, State},
    operations::{self, Operations},
    start::StartError,
    telemetry,
    transport::{self, Connections, Port},
};

/// How often the metrics are tidied, and a node without TLS beyond this machine says so.
const MINUTE: Duration = Duration::from_secs(60);
/// How often histograms are folded; what has been recorded waits in memory until then.
const UPKEEP: Duration = Duration::from_secs(5);

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
    config: Config,
    health: Reporter,
    edge: Edge,
    connections: Connections,
    operations: Option<JoinHandle<()>>,
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
    /// Binds the ports, serves health, opens the store, and serves all.
    ///
    /// # Errors
    /// When a port, a file or the store cannot be used.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let port = Port::bind(&config).await?;
        let operations = bind_operations(&config).await?;
        let metrics = telemetry::metrics()?;
        let health = Reporter::new();
        let edge = Edge::new(base(&health)?, &config.limits);
        let addresses =
            Addresses { grpc: port.address(), operations: operations.as_ref().map(|(_, address)| *address) };
        let end = CancellationToken::new();
        warn_of_open_port(&port, &end);
        tidy(metrics.clone(), &end);
        let connections = port.serve(edge.clone(), &config.limits);
        let told = Operations {
            health: health.clone(),
            edge: edge.clone(),
            connections: connections.clone(),
            metrics,
        };
        let operations =
            operations.map(|(listener, _)| tokio::spawn(operations::serve(listener, told, end.clone())));
        health.set(State::Serving);
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            grpc = %addresses.grpc,
            operations = addresses.operations.map(tracing::field::display),
            data = %config.data_dir.display(),
            "kith serves"
        );
        Ok(Self { addresses, config, health, edge, connections, operations, end })
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
        self.edge.close_watches();
        let calls = self.connections.close(self.config.drain).await;
        self.end.cancel();
        if let Some(operations) = self.operations
            && let Err(error) = operations.await
        {
            tracing::error!(%error, "the operations port failed");
        }
        tracing::info!(complete = calls, "kith has stopped");
        calls
    }

    /// They see NOT_SERVING and send their calls elsewhere. Where nobody is connected nobody has to be waited for.
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

async fn bind_operations(
    config: &Config,
) -> Result<Option<(tokio::net::TcpListener, SocketAddr)>, StartError> {
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

fn warn_of_open_port(port: &Port, end: &CancellationToken) {
    if port.has_tls() || port.address().ip().to_canonical().is_loopback() {
        return;
    }
    let address = port.address();
    every(MINUTE, end, move || {
        tracing::warn!(%address, "gRPC is served without TLS to other machines (insecure_listen)");
    });
}

fn tidy(metrics: metrics_exporter_prometheus::PrometheusHandle, end: &CancellationToken) {
    every(UPKEEP, end, move || metrics.run_upkeep());
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
