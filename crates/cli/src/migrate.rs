//! `kith migrate`.

use clap::Args;
use kith_server::{config::Config, node::store::Opened, start_error::StartError, telemetry};
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
        let store = Opened::open(&config).await?;
        let done = act(&store, &config, arguments).await;
        store.close().await;
        common.output.print(&done?)?;
        Ok(OK)
    })
}

async fn act(
    store: &Opened,
    config: &Config,
    arguments: &MigrateOptions,
) -> Result<MigrationList, StartError> {
    let about = store.about(config);
    if let Some(unfit) = about.unfit().await {
        return Err(unfit);
    }
    let migrations = store.stores().migrations;
    let only_listed = arguments.status || arguments.dry_run;
    let found = if only_listed { migrations.status().await } else { migrations.migrate().await };
    let found = match found {
        Ok(found) => found,
        Err(error) => return Err(about.why(&error).await.line()),
    };
    Ok(MigrationList::new(found.iter().filter(|found| !arguments.dry_run || found.applied.is_none())))
}

/// Migrations, as `kith migrate` prints them.
#[derive(Serialize)]
#[serde(transparent)]
struct MigrationList(Vec<MigrationLine>);

#[derive(Serialize)]
struct MigrationLine {
    number: u32,
    name: String,
    state: &'static str,
}

impl MigrationList {
    fn new<'a>(migrations: impl Iterator<Item = &'a Migration>) -> Self {
        Self(migrations.map(line).collect())
    }
}

fn line(migration: &Migration) -> MigrationLine {
    let state = if migration.applied.is_some() { "applied" } else { "pending" };
    MigrationLine { number: migration.number, name: migration.name.clone(), state }
}

impl Report for MigrationList {
    fn header(&self) -> Vec<&'static str> {
        vec!["number", "name", "state"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.0
            .iter()
            .map(|line| vec![format!("{:04}", line.number), line.name.clone(), line.state.to_owned()])
            .collect()
    }
}
