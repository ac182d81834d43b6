//! `kith serve`.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Common, FAILED, OK, runtime};
use crate::{run::Node, start::StartError, telemetry};

pub(super) fn run(common: &Common) -> Result<u8, StartError> {
    let config = common.load()?.config;
    let runtime = runtime()?;
    let complete = runtime.block_on(async {
        let _telemetry = telemetry::start(&config.telemetry)?;
        let mut signals = Signals::listen()?;
        let node = Node::start(config).await?;
        signals.next().await;
        Ok::<_, StartError>(node.stop(signals.next()).await)
    })?;
    Ok(if complete { OK } else { FAILED })
}

/// SIGTERM and SIGINT alike.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, StartError> {
        let listen = |kind| {
            signal(kind).map_err(|error| StartError::new(format!("signals cannot be listened for: {error}")))
        };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
