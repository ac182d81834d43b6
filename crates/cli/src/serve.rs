//! `kith serve`: runs a node.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::Args;
use kith_server::{
    config::{Flag, LoadedConfig},
    node::{banner::Banner, parent::ParentProcess, reload::RunningConfig, run::Node},
    start_error::StartError,
    telemetry,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Common, FAILED, OK, output::OutputForm, ports::PortsFile, runtime, set_flags};

/// Printed when the node did not end gracefully.
const LEFT_BEHIND: &str =
    "calls or writes had not ended when the time to drain was over; give them more (--set drain=30s)";

/// The options for `kith serve`.
#[derive(Args, Debug, Default)]
pub(super) struct ServeOptions {
    /// Serve gRPC on this port of the loopback device; 0: any free one
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Serve operators on this port of the loopback device; 0: any free one
    #[arg(long, value_name = "PORT")]
    operations_port: Option<u16>,
    /// Write the addresses to this file as JSON when the node serves, and remove it at the end
    #[arg(long, value_name = "FILE")]
    ports_file: Option<PathBuf>,
    /// Keep data only in memory, for tests: they are lost when the node ends
    #[arg(long)]
    ephemeral: bool,
    /// Begin with the users and groups of this file of JSON Lines (with --ephemeral)
    #[arg(long, value_name = "FILE", requires = "ephemeral")]
    seed: Option<String>,
    /// Stop when the process that started this one has ended
    #[arg(long)]
    exit_with_parent: bool,
}

impl ServeOptions {
    /// Loads the present configuration.
    fn load(&self, common: &Common) -> Result<LoadedConfig, StartError> {
        common.load_with(self.flags(common)?)
    }

    fn flags(&self, common: &Common) -> Result<Vec<Flag>, StartError> {
        if self.port.is_some() && common.listen.is_some() {
            return Err(StartError::new("--port and --listen are both given; give one"));
        }
        let loopback = |port: u16| format!("127.0.0.1:{port}");
        Ok(set_flags([
            ("--port", "listen", self.port.map(loopback)),
            ("--operations-port", "operations.listen", self.operations_port.map(loopback)),
            ("--ephemeral", "ephemeral.enabled", self.ephemeral.then(|| "true".to_owned())),
            ("--seed", "ephemeral.seed", self.seed.clone()),
        ]))
    }
}

pub(super) fn run(common: &Common, arguments: &ServeOptions) -> Result<u8, StartError> {
    // The parent is observed first: it may end while this process starts.
    let parent = arguments.exit_with_parent.then(ParentProcess::now);
    let loaded = arguments.load(common);
    let ended = loaded.and_then(|loaded| serve(common, arguments, &loaded, parent));
    if let Some(log) = common.termination_log() {
        match &ended {
            Ok(OK) => {}
            Ok(_) => note(&log, LEFT_BEHIND),
            Err(error) => note(&log, &error.to_string()),
        }
    }
    ended
}

fn serve(
    common: &Common,
    arguments: &ServeOptions,
    loaded: &LoadedConfig,
    parent: Option<ParentProcess>,
) -> Result<u8, StartError> {
    let ports = arguments.ports_file.clone().map(PortsFile::prepare).transpose()?;
    let runtime = runtime()?;
    let complete = runtime.block_on(async {
        let _telemetry = telemetry::start(&loaded.config.telemetry)?;
        let mut stop = StopSignals::listen(parent)?;
        let again = listen(SignalKind::hangup())?;
        let node = Box::pin(Node::start(loaded.config.clone())).await?;
        present(common, &Banner::of(&node, &loaded.sources(), &program()));
        let failed = tokio::select! {
            () = stop.next() => None,
            error = announce(&node, ports) => Some(error),
            error = node.fatal_error() => Some(error),
            error = reload_on_hangup(again, &node, loaded, || arguments.load(common)) => Some(error),
        };
        let complete = node.stop(stop.next()).await;
        failed.map_or(Ok(complete), Err)
    })?;
    // A node for tests loses its data in any case, and a stop intends that.
    Ok(if complete || loaded.config.ephemeral.enabled { OK } else { FAILED })
}

/// Returns the name by which this program was started, for commands that it shows.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "kith".to_owned())
}

/// A node whose banner cannot be written still serves.
fn present(common: &Common, banner: &Banner) {
    let text = match common.output.form() {
        OutputForm::Table => banner.to_string(),
        OutputForm::Plain | OutputForm::Json => match serde_json::to_string(banner) {
            Ok(line) => line + "\n",
            Err(error) => return tracing::warn!(%error, "the banner cannot be written"),
        },
    };
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        tracing::warn!(%error, "the banner cannot be written");
    }
}

/// Writes a line to the termination log. If that fails nothing is lost: standard error and the log have it.
fn note(log: &Path, line: &str) {
    drop(std::fs::write(log, format!("{line}\n")));
}

/// Writes the address file when the node serves, and keeps it until dropped. Returns if that fails.
async fn announce(node: &Node, ports: Option<PortsFile>) -> StartError {
    node.serving().await;
    if let Some(Err(error)) = ports.as_ref().map(|ports| ports.write(node.addresses())) {
        return error;
    }
    std::future::pending().await
}

/// Reads the configuration again at every SIGHUP, and reports the result, until dropped. Returns if that
/// fails.
async fn reload_on_hangup(
    mut asked: Signal,
    node: &Node,
    loaded: &LoadedConfig,
    load: impl Fn() -> Result<LoadedConfig, StartError>,
) -> StartError {
    let mut running = match RunningConfig::from(loaded) {
        Ok(running) => running,
        Err(error) => return error.into(),
    };
    while asked.recv().await.is_some() {
        let report = match load() {
            Ok(loaded) => running.apply(node, &loaded).await.map_err(StartError::from),
            Err(error) => Err(error),
        };
        match report {
            Ok(report) => tracing::warn!("SIGHUP: {report}"),
            Err(error) => {
                tracing::warn!(%error, "SIGHUP: the configuration is wrong, and nothing has changed")
            }
        }
    }
    std::future::pending().await
}

fn listen(kind: SignalKind) -> Result<Signal, StartError> {
    signal(kind).map_err(|error| StartError::new(format!("signals cannot be listened for: {error}")))
}

/// The signals that end the node: SIGTERM, SIGINT, or its parent's end.
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    parent: Option<ParentProcess>,
}

impl StopSignals {
    pub(super) fn listen(parent: Option<ParentProcess>) -> Result<Self, StartError> {
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            parent,
        })
    }

    /// Waits for the next reason. The parent's end is a permanent reason.
    pub(super) async fn next(&mut self) {
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
