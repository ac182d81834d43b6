//! `kith serve`.

use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Common, FAILED, OK, ports::PortsFile, runtime};
use crate::{config::Flag, parent::Parent, run::Node, start::StartError, telemetry};

/// How to run it.
#[derive(Args, Debug, Default)]
pub(super) struct Arguments {
    /// Serve gRPC on this port of the loopback device; 0: any free one
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Serve operators on this port of the loopback device; 0: any free one
    #[arg(long, value_name = "PORT")]
    operations_port: Option<u16>,
    /// Write the addresses to this file as JSON once the node serves, and remove it at the end
    #[arg(long, value_name = "FILE")]
    ports_file: Option<PathBuf>,
    /// Keep data in memory alone, for tests: they are gone with the node
    #[arg(long)]
    ephemeral: bool,
    /// Begin with the users and groups of this file of JSON Lines (with --ephemeral)
    #[arg(long, value_name = "FILE", requires = "ephemeral")]
    seed: Option<String>,
    /// Stop when the process that started this one has ended
    #[arg(long)]
    exit_with_parent: bool,
}

impl Arguments {
    fn flags(&self, common: &Common) -> Result<Vec<Flag>, StartError> {
        if self.port.is_some() && common.listen.is_some() {
            return Err(StartError::new("--port and --listen are both given; give one"));
        }
        let loopback = |port: u16| format!("127.0.0.1:{port}");
        let given = [
            ("--port", "listen", self.port.map(loopback)),
            ("--operations-port", "operations.listen", self.operations_port.map(loopback)),
            ("--ephemeral", "ephemeral.enabled", self.ephemeral.then(|| "true".to_owned())),
            ("--seed", "ephemeral.seed", self.seed.clone()),
        ];
        let given = given
            .into_iter()
            .filter_map(|(name, key, value)| Some(Flag { name, key: key.to_owned(), value: value? }));
        Ok(given.collect())
    }
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<u8, StartError> {
    // First of all: it may end while this one starts.
    let parent = arguments.exit_with_parent.then(Parent::now);
    let config = common.load_with(arguments.flags(common)?)?.config;
    let ephemeral = config.ephemeral.enabled;
    let ports = arguments.ports_file.clone().map(PortsFile::prepare).transpose()?;
    let runtime = runtime()?;
    let complete = runtime.block_on(async {
        let _telemetry = telemetry::start(&config.telemetry)?;
        let mut end = End::listen(parent)?;
        let node = Node::start(config).await?;
        let served = tokio::select! {
            error = announce(&node, ports) => Err(error),
            () = end.next() => Ok(()),
        };
        let complete = node.stop(end.next()).await;
        served.map(|()| complete)
    })?;
    // What a node for tests leaves behind is lost in any case, and whoever stops it means that.
    Ok(if complete || ephemeral { OK } else { FAILED })
}

/// Tells where the node listens from when it serves until dropped. Returns when that fails.
async fn announce(node: &Node, ports: Option<PortsFile>) -> StartError {
    node.serving().await;
    if let Some(Err(error)) = ports.as_ref().map(|ports| ports.write(node.addresses())) {
        return error;
    }
    std::future::pending().await
}

/// What ends the node: SIGTERM and SIGINT alike, or the end of its parent.
struct End {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<Parent>,
}

impl End {
    fn listen(parent: Option<Parent>) -> Result<Self, StartError> {
        let listen = |kind| {
            signal(kind).map_err(|error| StartError::new(format!("signals cannot be listened for: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            parent,
        })
    }

    /// The next reason; an ended parent is one for ever.
    async fn next(&mut self) {
        let orphaned = async {
            match self.parent {
                Some(parent) => parent.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = orphaned => {}
        }
    }
}
