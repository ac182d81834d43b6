//! `kith forward webhook`: the process that sends events.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, bail};
use kith_forward::{
    ForwardState as _, Forwarder, LockedStateFile, Progress, SavedState, Settings, StopReason, serve_metrics,
};
use kith_proto::change::v1::ChangeKind;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use super::{node_source::NodeSource, receiver_options::ReceiverOptions, state_options::StateOptions};
use crate::{FAILED, OK, changes::kind, client::Target, output::note};

/// The options for `kith forward webhook`.
#[derive(Debug, clap::Args)]
pub(crate) struct WebhookOptions {
    #[command(flatten)]
    state: StateOptions,
    #[command(flatten)]
    receiver: ReceiverOptions,
    /// Kinds to send, separated by commas, as kith changes names them [default: all that are kept and that
    /// the key may read]
    #[arg(long, value_delimiter = ',', value_name = "KINDS", value_parser = kind)]
    kinds: Vec<ChangeKind>,
    /// Begin at the present end; ignored if there is a state
    #[arg(long)]
    from_now: bool,
    /// Begin after this cursor of kith changes; ignored if there is a state
    #[arg(long, value_name = "CURSOR", conflicts_with = "from_now")]
    after: Option<String>,
    /// Serve GET /metrics here: 127.0.0.1:7602
    #[arg(long, value_name = "ADDRESS")]
    metrics_addr: Option<SocketAddr>,
    #[command(flatten)]
    target: Target,
}

/// Forwards until a signal comes. Fails when it could not begin.
pub(super) async fn run(options: &WebhookOptions) -> Result<u8> {
    let receiver = options.receiver.receiver().await?;
    let mut state = options.state.file()?.lock()?;
    let listener = match options.metrics_addr {
        Some(address) => {
            Some(TcpListener::bind(address).await.with_context(|| format!("--metrics-addr {address}"))?)
        }
        None => None,
    };
    let source = NodeSource::connect(&options.target, options.wire_kinds(), options.expired()?).await?;
    let saved = options.beginning(&mut state, &source).await?;
    let name = options.state.name().to_owned();
    let report = Box::new(move |line: &str| note(&format!("kith forward {name}: {line}")));
    report("forwarding");
    let forwarder = Forwarder::new(Arc::new(source), receiver, state, saved, Settings::default(), report);
    let ended = run_until_signal(forwarder, listener).await?;
    Ok(match ended {
        Ok(()) => OK,
        Err(reason) => {
            note(&format!("kith forward {} stops: {reason}", options.state.name()));
            FAILED
        }
    })
}

async fn run_until_signal(
    forwarder: Forwarder<LockedStateFile>,
    listener: Option<TcpListener>,
) -> Result<Result<(), StopReason>> {
    let (stop, progress) = (forwarder.stop_token(), forwarder.progress());
    let unheard = "signals cannot be listened for";
    let mut terminated = signal(SignalKind::terminate()).context(unheard)?;
    let mut interrupted = signal(SignalKind::interrupt()).context(unheard)?;
    let mut forwarding = Box::pin(forwarder.run());
    tokio::select! {
        ended = &mut forwarding => return Ok(ended),
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
        failed = metrics(listener, progress) => return Err(failed),
    }
    stop.cancel();
    Ok(forwarding.await)
}

/// Serves metrics as long as it can; never returns if there is nowhere to serve them.
async fn metrics(listener: Option<TcpListener>, progress: Arc<Progress>) -> anyhow::Error {
    let Some(listener) = listener else { return std::future::pending().await };
    match serve_metrics(listener, progress).await {
        Ok(()) => std::future::pending().await,
        Err(error) => anyhow::Error::new(error).context("--metrics-addr accepts no connections"),
    }
}

impl WebhookOptions {
    fn wire_kinds(&self) -> Vec<i32> {
        self.kinds.iter().map(|kind| (*kind).into()).collect()
    }

    fn expired(&self) -> Result<String> {
        let file = self.state.file()?.file();
        Ok(format!("to begin again, remove {} and start with --after and that cursor", file.display()))
    }

    /// Returns what to continue from, and saves it if it is new.
    async fn beginning(&self, state: &mut LockedStateFile, source: &NodeSource) -> Result<SavedState> {
        if let Some(saved) = self.state.file()?.read()? {
            return Ok(saved);
        }
        let cursor = match &self.after {
            Some(cursor) => cursor.clone(),
            None if self.from_now => source.end().await?,
            None => bail!(
                "there is no state of {} yet: begin with --from-now, or with --after and a cursor of kith changes",
                self.state.name()
            ),
        };
        let saved = SavedState { cursor, ..SavedState::default() };
        state.save(saved.clone()).await?;
        Ok(saved)
    }
}
