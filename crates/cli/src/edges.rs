//! `kith edges`: compares, repairs and counts follows and their lists.

use anyhow::{Result, bail};
use kith_proto::admin::v1::{
    EdgeComparison, EdgeDifference, RebuildCountsRequest, RebuildCountsResponse, RepairEdgesRequest,
    VerifyEdgesRequest, admin_service_client::AdminServiceClient,
};
use serde::Serialize;
use tokio::time::timeout;
use tonic::Streaming;

use super::{
    Common, FAILED, OK,
    client::{Target, message_of},
    output::Report,
    progress_lines::ProgressLines,
};

/// The number of parts in a bar.
const PARTS: u64 = 1000;

/// The commands for follows and their lists.
#[derive(Debug, clap::Subcommand)]
pub(super) enum EdgesCommand {
    /// Compare every follow with its entries in the lists of both users; changes nothing
    #[command(
        after_help = "Exit codes: 0 all agree, 1 some differ (kith edges repair repairs them), 2 it did not reach the end."
    )]
    Verify(CompareOptions),
    /// Compare them, and repair differences; the follow decides
    #[command(
        after_help = "Exit codes: 0 all agree now, 1 some still differ, 2 it did not reach the end: run it again."
    )]
    Repair(CompareOptions),
    /// Count the lists of every user again, and correct wrong counts
    #[command(
        after_help = "Exit codes: 0 all counts are correct now, 2 it did not reach the end: run it again."
    )]
    Recount(RecountOptions),
}

/// The shown result of a comparison.
#[derive(Debug, clap::Args)]
pub(super) struct CompareOptions {
    /// How many differences are shown
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 10,
        value_parser = clap::value_parser!(i32).range(1..=1000)
    )]
    examples: i32,
    #[command(flatten)]
    target: Target,
}

/// The node that counts.
#[derive(Debug, clap::Args)]
pub(super) struct RecountOptions {
    #[command(flatten)]
    target: Target,
}

/// Runs to the end, and prints progress on standard error. Fails if the node does not answer, runs the same
/// already, or its store does not answer.
pub(super) async fn run(common: &Common, what: &EdgesCommand) -> Result<u8> {
    match what {
        EdgesCommand::Verify(CompareOptions { examples, target }) => {
            let mut client = AdminServiceClient::new(target.connect().await?);
            let request = VerifyEdgesRequest { examples: *examples };
            let steps = target.response(client.verify_edges(request)).await?;
            let found = compared(target, steps, |step| step.comparison).await?;
            common.output.print(&found)?;
            Ok(if found.differences > 0 { FAILED } else { OK })
        }
        EdgesCommand::Repair(CompareOptions { examples, target }) => {
            let mut client = AdminServiceClient::new(target.connect().await?);
            let request = RepairEdgesRequest { examples: *examples };
            let steps = target.response(client.repair_edges(request)).await?;
            let found = compared(target, steps, |step| step.comparison).await?;
            common.output.print(&found)?;
            Ok(if found.differences > found.repaired { FAILED } else { OK })
        }
        EdgesCommand::Recount(RecountOptions { target }) => {
            let mut client = AdminServiceClient::new(target.connect().await?);
            let steps = target.response(client.rebuild_counts(RebuildCountsRequest {})).await?;
            common.output.print(&recounted(target, steps).await?)?;
            Ok(OK)
        }
    }
}

async fn compared<M>(
    target: &Target,
    mut steps: Streaming<M>,
    of: impl Fn(M) -> Option<EdgeComparison>,
) -> Result<Comparison> {
    let mut progress = ProgressLines::new(Some(PARTS));
    let mut examples = Vec::new();
    loop {
        let Some(step) = of(next(target, &mut steps).await?) else {
            bail!("the node leaves out what it found")
        };
        for example in step.examples.iter().map(Difference::of) {
            progress.say(&example.line());
            examples.push(example);
        }
        let EdgeComparison { checked, differences, repaired, .. } = step;
        if step.ended {
            progress.end();
            return Ok(Comparison { checked, differences, repaired, examples });
        }
        show_progress(&mut progress, step.done, format!("{checked} checked, {differences} differ"));
    }
}

async fn recounted(target: &Target, mut steps: Streaming<RebuildCountsResponse>) -> Result<RecountResult> {
    let mut progress = ProgressLines::new(Some(PARTS));
    loop {
        let RebuildCountsResponse { done, counted, corrected, ended } = next(target, &mut steps).await?;
        if ended {
            progress.end();
            return Ok(RecountResult { counted, corrected });
        }
        show_progress(&mut progress, done, format!("{counted} counted, {corrected} corrected"));
    }
}

/// Reads the next message. The last message is marked as such.
async fn next<M>(target: &Target, steps: &mut Streaming<M>) -> Result<M> {
    let limit = target.options.message_limit();
    match timeout(limit, steps.message()).await {
        Ok(Ok(Some(message))) => Ok(message),
        Ok(Ok(None)) => bail!("{} ended early; run it again", target.addr),
        Ok(Err(status)) => bail!("{} answers {:?}: {}", target.addr, status.code(), message_of(&status)),
        Err(_) => bail!("{} sends nothing for {}", target.addr, humantime::format_duration(limit)),
    }
}

fn show_progress(progress: &mut ProgressLines, done: f64, summary: String) {
    progress.update(parts(done), summary, |summary| format!("{:.1}%, {summary}", 100.0 * done));
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "of a bar"
)]
fn parts(done: f64) -> u64 {
    (done.clamp(0.0, 1.0) * PARTS as f64) as u64
}

#[derive(Serialize)]
struct Comparison {
    checked: i64,
    differences: i64,
    repaired: i64,
    examples: Vec<Difference>,
}

impl Report for Comparison {
    const COLUMNS: &'static [&'static str] = &["checked", "differences", "repaired"];
}

#[derive(Serialize)]
struct Difference {
    user_id: i64,
    target_id: i64,
    kind: String,
    repaired: bool,
}

impl Difference {
    fn of(difference: &EdgeDifference) -> Self {
        let name = difference.kind().as_str_name().to_lowercase();
        Self {
            user_id: difference.user_id,
            target_id: difference.target_id,
            kind: name.trim_start_matches("edge_difference_kind_").to_owned(),
            repaired: difference.repaired,
        }
    }

    fn line(&self) -> String {
        let Self { user_id, target_id, kind, repaired } = self;
        let mended = if *repaired { ", mended" } else { "" };
        format!("{user_id} -> {target_id}: {}{mended}", kind.replace('_', " "))
    }
}

#[derive(Serialize)]
struct RecountResult {
    counted: i64,
    corrected: i64,
}

impl Report for RecountResult {
    const COLUMNS: &'static [&'static str] = &["counted", "corrected"];
}
