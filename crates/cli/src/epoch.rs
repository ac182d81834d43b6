//! `kith epoch`: starts a new epoch, which invalidates all copies.

use anyhow::Result;
use kith_proto::admin::v1::{StartEpochRequest, admin_service_client::AdminServiceClient};
use serde::Serialize;

use super::{Common, FAILED, OK, client::Target, output::Report};

/// What to do with the epoch.
#[derive(Debug, clap::Subcommand)]
pub(super) enum EpochCommand {
    /// Begin a new one: memory and Redis are cold afterwards, and the store is asked
    #[command(after_help = "For use after the store was changed without Kith, or restored from a backup.\n\
                            Exit codes: 0 the node that was asked is in the new epoch and the others follow, 1 the epoch has begun and the node is not in it yet, 2 it could not begin.")]
    Start(EpochOptions),
}

/// Which node to ask.
#[derive(Debug, clap::Args)]
pub(super) struct EpochOptions {
    #[command(flatten)]
    target: Target,
}

/// Begins a new epoch. Fails if the node or the store does not answer.
pub(super) async fn run(common: &Common, what: &EpochCommand) -> Result<u8> {
    let EpochCommand::Start(EpochOptions { target }) = what;
    let mut client = AdminServiceClient::new(target.connect().await?);
    let begun = target.response(client.start_epoch(target.request(StartEpochRequest {}))).await?;
    common.output.print(&EpochStarted { epoch: begun.epoch, followed: begun.followed })?;
    Ok(if begun.followed { OK } else { FAILED })
}

#[derive(Serialize)]
struct EpochStarted {
    epoch: i64,
    followed: bool,
}

impl Report for EpochStarted {
    const COLUMNS: &'static [&'static str] = &["epoch", "followed"];
}
