//! `kith migrate`.

use clap::Args;
use kith_store::Migration;

use super::{Common, OK, runtime};
use crate::{
    backend::{self, Opened},
    config::Config,
    start::StartError,
    telemetry,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Only list the migrations, applied and pending
    #[arg(long)]
    status: bool,
    /// Only list what would be applied
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<u8, StartError> {
    let config = common.load()?.config;
    runtime()?.block_on(async {
        let _telemetry = telemetry::start(&config.telemetry)?;
        let store = Opened::open(&config).await?;
        let done = act(&store, &config, arguments).await;
        store.close().await;
        done.map(|()| OK)
    })
}

async fn act(store: &Opened, config: &Config, arguments: &Arguments) -> Result<(), StartError> {
    let migrations = store.stores().migrations;
    let unusable = |error| backend::unusable(config, &error);
    if arguments.status || arguments.dry_run {
        let all = migrations.status().await.map_err(unusable)?;
        let wanted = all.iter().filter(|migration| arguments.status || migration.applied.is_none());
        print(wanted, "nothing is pending");
        return Ok(());
    }
    let applied = migrations.migrate().await.map_err(unusable)?;
    print(applied.iter(), "nothing was pending");
    Ok(())
}

fn print<'a>(migrations: impl Iterator<Item = &'a Migration>, none: &str) {
    let mut any = false;
    for migration in migrations {
        let state = if migration.applied.is_some() { "applied" } else { "pending" };
        println!("{:04} {} {state}", migration.number, migration.name);
        any = true;
    }
    if !any {
        println!("{none}");
    }
}
