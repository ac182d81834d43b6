//! `kith restore`: replaces an embedded node's data by a backup.

use std::path::PathBuf;

use clap::Args;
use kith_server::{config::Backend, start_error::StartError};

use super::Common;

#[derive(Args, Debug)]
pub(super) struct RestoreOptions {
    /// A file that `kith backup` has written; its manifest must be in the same folder
    file: PathBuf,
    /// Keep existing data under another name that contains the time
    #[arg(long)]
    force: bool,
}

/// Restores a backup into an embedded node's data folder. The node must not run.
pub(super) fn run(common: &Common, arguments: &RestoreOptions) -> Result<u8, StartError> {
    let config = common.load()?.config;
    if config.store.backend == Backend::Cluster {
        return Err(StartError::new(
            "the data lie in MongoDB: restore them with mongorestore, or bring them in with kith import",
        ));
    }
    sqlite::run(common, &config, arguments)
}

#[cfg(feature = "embedded")]
mod sqlite {
    use kith_store_sqlite::backup::{self, Replace, Restored};
    use serde::Serialize;

    use super::super::{
        Common, OK,
        backup::{failed, log},
        output::{FIELD_AND_VALUE, Report, field_rows},
    };
    use kith_server::{config::Config, node::store, start_error::StartError};

    pub(super) fn run(
        common: &Common,
        config: &Config,
        arguments: &super::RestoreOptions,
    ) -> Result<u8, StartError> {
        let replace = if arguments.force { Replace::KeepAside } else { Replace::Never };
        let restored = backup::restore(&arguments.file, &store::data_file(config), replace);
        log(config, "restore", restored.as_ref().err());
        match restored {
            Ok(restored) => {
                common.output.print(&RestoreResult::of(restored))?;
                Ok(OK)
            }
            Err(error) => failed(&error),
        }
    }

    /// The restored data, as `kith restore` prints them.
    #[derive(Serialize)]
    struct RestoreResult {
        path: String,
        /// The folder with the data that were there before.
        kept: Option<String>,
        /// The time at which the backup was begun.
        taken: String,
        users: u64,
        groups: u64,
        schema: u32,
        epoch: u64,
    }

    impl RestoreResult {
        fn of(restored: Restored) -> Self {
            let Restored { path, kept, epoch, backup } = restored;
            Self {
                path: path.display().to_string(),
                kept: kept.map(|kept| kept.display().to_string()),
                taken: humantime::format_rfc3339_seconds(backup.began).to_string(),
                users: backup.users,
                groups: backup.groups,
                schema: backup.schema,
                epoch,
            }
        }
    }

    impl Report for RestoreResult {
        const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

        fn rows(&self) -> Vec<Vec<String>> {
            field_rows(self, &["path", "kept", "taken", "users", "groups", "schema", "epoch"])
        }
    }
}

#[cfg(not(feature = "embedded"))]
mod sqlite {
    use super::super::Common;
    use kith_server::{config::Config, start_error::StartError};

    pub(super) fn run(_: &Common, _: &Config, arguments: &super::RestoreOptions) -> Result<u8, StartError> {
        let super::RestoreOptions { file, force: _ } = arguments;
        Err(StartError::new(format!(
            "{} is not restored: this build of kith has no SQLite store",
            file.display()
        )))
    }
}
