//! `kith migrate`: applies the migrations.

use clap::Args;
use kith_server::{config::Config, node::store::OpenStore, start_error::StartError, telemetry};
use kith_store::Migration;
use serde::Serialize;

use super::{Common, OK, output::Report, runtime};

#[derive(Args, Debug)]
pub(super) struct MigrateOptions {
    /// Only list the migrations, applied and pending
    #[arg(long)]
    status: bool,
    /// Only list what would be applied
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(common: &Common, arguments: &MigrateOptions) -> Result<u8, StartError> {
    let config = common.load()?.config;
    runtime()?.block_on(async {
        let _telemetry = telemetry::start(&config.telemetry)?;
        let store = OpenStore::open(&config).await?;
        let done = list_or_migrate(&store, &config, arguments).await;
        store.close().await;
        common.output.print(&done?)?;
        Ok(OK)
    })
}

async fn list_or_migrate(
    store: &OpenStore,
    config: &Config,
    arguments: &MigrateOptions,
) -> Result<Vec<MigrationLine>, StartError> {
    let info = store.info(config);
    if let Some(unfit) = info.unfit().await {
        return Err(unfit);
    }
    let migrations = store.stores().migrations;
    let only_listed = arguments.status || arguments.dry_run;
    let found = if only_listed { migrations.status().await } else { migrations.migrate().await };
    let found = match found {
        Ok(found) => found,
        Err(error) => return Err(info.failure(&error).await.line()),
    };
    if !only_listed && let Err(error) = migrations.restore_indexes().await {
        return Err(info.index_failure(&error).await);
    }
    Ok(found.iter().filter(|found| !arguments.dry_run || found.applied.is_none()).map(line).collect())
}

/// A migration, as `kith migrate` prints it.
#[derive(Serialize)]
struct MigrationLine {
    number: u32,
    name: String,
    state: &'static str,
}

fn line(migration: &Migration) -> MigrationLine {
    let state = if migration.applied.is_some() { "applied" } else { "pending" };
    MigrationLine { number: migration.number, name: migration.name.clone(), state }
}

impl Report for MigrationLine {
    const COLUMNS: &'static [&'static str] = &["number", "name", "state"];

    fn row(&self) -> Vec<String> {
        vec![format!("{:04}", self.number), self.name.clone(), self.state.to_owned()]
    }
}
