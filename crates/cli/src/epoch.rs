//! `kith epoch`: starts a new epoch, which invalidates all copies.

use std::{collections::BTreeMap, time::SystemTime};

use anyhow::Result;
use kith_proto::admin::v1::{StartEpochRequest, admin_service_client::AdminServiceClient};
use kith_server::{
    node::restored::{FinishedRestore, finish_restore},
    telemetry,
};
use serde::Serialize;

use super::{
    Common, FAILED, OK,
    client::Target,
    output::{FIELD_AND_VALUE, Report, field_rows},
};

/// The commands for the epoch.
#[derive(Debug, clap::Subcommand)]
pub(super) enum EpochCommand {
    /// Begin a new one: memory and Redis are cold afterwards, and the store is asked
    #[command(after_help = "For use after the store was changed without Kith, or restored from a backup.\n\
                            Exit codes: 0 the node that was asked is in the new epoch and the others follow, 1 the epoch has begun and the node is not in it yet, 2 it could not begin.")]
    Start(EpochOptions),
    /// Finish a restore of MongoDB while all nodes are stopped: begin a new epoch, and skip ids and sequence
    /// numbers
    #[command(
        after_help = "Run it after both parts of a backup were restored, and before a node starts. It skips as many ids and numbers \
                            as can have been given out since the backup, so that none is given out twice, creates missing indexes, and \
                            may be repeated. It asks no node: it opens the store of the configuration.\n\
                            Exit codes: 0 done, 2 it could not begin, for example because nodes use the store."
    )]
    AfterRestore(AfterRestoreOptions),
}

/// The backup that was restored.
#[derive(Debug, clap::Args)]
pub(super) struct AfterRestoreOptions {
    /// When the backup of MongoDB was begun, or earlier, in UTC: 2026-11-27T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_rfc3339)]
    backed_up_at: SystemTime,
}

/// Which node to ask.
#[derive(Debug, clap::Args)]
pub(super) struct EpochOptions {
    #[command(flatten)]
    target: Target,
}

/// Begins a new epoch. Fails if the node or the store does not answer.
pub(super) async fn run(common: &Common, what: &EpochCommand) -> Result<u8> {
    match what {
        EpochCommand::Start(EpochOptions { target }) => start(common, target).await,
        EpochCommand::AfterRestore(options) => after_restore(common, options).await,
    }
}

async fn after_restore(common: &Common, options: &AfterRestoreOptions) -> Result<u8> {
    let config = common.load()?.config;
    let finished = finish_restore(&config, options.backed_up_at).await?;
    telemetry::start_security_events(&config.telemetry);
    telemetry::audit::command("restore", true);
    common.output.print(&RestoreFinished::of(finished))?;
    Ok(OK)
}

/// The result of a finished restore, as `kith epoch after-restore` prints it.
#[derive(Serialize)]
pub(super) struct RestoreFinished {
    place: String,
    epoch: i64,
    /// The next id for each kind of record.
    next_ids: BTreeMap<&'static str, i64>,
    sequences: u64,
}

impl RestoreFinished {
    pub(super) fn of(finished: FinishedRestore) -> Self {
        let FinishedRestore { place, epoch, next_ids, sequences } = finished;
        Self { place, epoch, next_ids: next_ids.into_iter().collect(), sequences }
    }
}

impl Report for RestoreFinished {
    const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

    fn rows(&self) -> Vec<Vec<String>> {
        field_rows(self, &["place", "epoch", "next_ids", "sequences"])
    }
}

async fn start(common: &Common, target: &Target) -> Result<u8> {
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
