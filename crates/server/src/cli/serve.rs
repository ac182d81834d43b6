//! `kith serve`.

use std::{
    io::{self, Write as _},
    path::Path,
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Common, FAILED, OK, output::Form, runtime};
use crate::{banner::Banner, config::Loaded, run::Node, start::StartError, telemetry};

/// What whoever started the node is told when its end was not in order.
const LEFT_BEHIND: &str =
    "calls or writes had not ended when the time to drain was over; give them more (--set drain=30s)";

pub(super) fn run(common: &Common) -> Result<u8, StartError> {
    let ended = common.load().and_then(|loaded| serve(common, &loaded));
    if let Some(log) = common.termination_log() {
        match &ended {
            Ok(OK) => {}
            Ok(_) => note(&log, LEFT_BEHIND),
            Err(error) => note(&log, &error.to_string()),
        }
    }
    ended
}

fn serve(common: &Common, loaded: &Loaded) -> Result<u8, StartError> {
    let runtime = runtime()?;
    let complete = runtime.block_on(async {
        let _telemetry = telemetry::start(&loaded.config.telemetry)?;
        let mut signals = Signals::listen()?;
        let node = Node::start(loaded.config.clone()).await?;
        present(common, &Banner::of(&node, &loaded.sources(), &program()));
        let refused = tokio::select! {
            () = signals.next() => None,
            refused = node.refused() => Some(refused),
        };
        let complete = node.stop(signals.next()).await;
        refused.map_or(Ok(complete), Err)
    })?;
    Ok(if complete { OK } else { FAILED })
}

/// How this program was called, so that what is shown can be typed.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "kith".to_owned())
}

/// A node whose banner nobody reads serves all the same.
fn present(common: &Common, banner: &Banner) {
    let text = match common.output.form() {
        Form::Table => banner.to_string(),
        Form::Plain | Form::Json => match serde_json::to_string(banner) {
            Ok(line) => line + "\n",
            Err(error) => return tracing::warn!(%error, "the banner cannot be written"),
        },
    };
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        tracing::warn!(%error, "the banner cannot be written");
    }
}

/// Where it cannot be written nothing is lost: standard error and the log have it.
fn note(log: &Path, line: &str) {
    drop(std::fs::write(log, format!("{line}\n")));
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
