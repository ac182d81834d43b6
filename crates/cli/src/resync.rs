//! `kith resync`: compares a node's memory with the records that it copies.

use anyhow::Result;
use kith_proto::admin::v1::{NamespaceResync, ResyncRequest, admin_service_client::AdminServiceClient};
use serde::Serialize;

use super::{Common, FAILED, OK, client::Target, output::Report};

/// The exit code if a copy was stale for longer than allowed.
const STALE: u8 = 4;

/// The options for `kith resync`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Stale copies are dropped. A suspect is a copy of which a newer version is known: the change may be on its way, so it is compared again.\n\
                        Exit codes: 0 no copy is stale, 4 some were, 1 Redis or the store did not answer, 2 the node did not."
)]
pub(super) struct ResyncOptions {
    /// Only this namespace, such as user or group [default: all]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    namespace: String,
    /// All of memory, as far as --timeout allows, instead of 500 copies
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    target: Target,
}

/// Compares. Fails when the node does not answer, or has no such namespace.
pub(super) async fn run(common: &Common, arguments: &ResyncOptions) -> Result<u8> {
    let target = &arguments.target;
    let request = ResyncRequest { namespace: arguments.namespace.clone(), full: arguments.full };
    let mut client = AdminServiceClient::new(target.connect().await?);
    let answer = target.response(client.resync(target.request(request))).await?;
    let rows: Vec<_> = answer.namespaces.iter().map(row).collect();
    common.output.print(&rows)?;
    if rows.iter().any(|row| row.stale > 0) {
        return Ok(STALE);
    }
    Ok(if rows.iter().all(|row| row.unanswered.is_empty()) { OK } else { FAILED })
}

#[derive(Serialize)]
struct NamespaceRow {
    namespace: String,
    checked: i64,
    stale: i64,
    suspects: i64,
    complete: bool,
    unanswered: String,
}

fn row(found: &NamespaceResync) -> NamespaceRow {
    NamespaceRow {
        namespace: found.namespace.clone(),
        checked: found.checked,
        stale: found.stale,
        suspects: found.suspects,
        complete: found.complete,
        unanswered: found.unanswered.clone(),
    }
}

impl Report for NamespaceRow {
    const COLUMNS: &'static [&'static str] =
        &["namespace", "checked", "stale", "suspects", "complete", "unanswered"];
}
