//! `kith restore`: replaces the data of an embedded node or a cluster by a backup.

use std::path::PathBuf;

use clap::Args;
use kith_server::{config::Backend, start_error::StartError};

use super::Common;

#[derive(Args, Debug)]
pub(super) struct RestoreOptions {
    /// A file that `kith backup` has written, with its manifest next to it; of a cluster the folder
    file: PathBuf,
    /// Keep existing data under another name that contains the time; of a cluster, replace them
    #[arg(long)]
    force: bool,
}

/// Restores a backup into an embedded node's data folder, or a cluster's databases. No node may run.
pub(super) fn run(common: &Common, arguments: &RestoreOptions) -> Result<u8, StartError> {
    let config = common.load()?.config;
    let file = arguments.file.display();
    match config.store.backend {
        Backend::Sqlite if arguments.file.is_dir() => Err(StartError::new(format!(
            "{file} is a folder, like the backup of a cluster, and store.backend is sqlite; name a file"
        ))),
        Backend::Cluster if arguments.file.is_file() => Err(StartError::new(format!(
            "{file} is a file, like the backup of an embedded node, and store.backend is cluster; name a folder"
        ))),
        Backend::Sqlite => sqlite::run(common, &config, arguments),
        Backend::Cluster => cluster::run(common, &config, arguments),
    }
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

#[cfg(feature = "cluster")]
mod cluster {
    use kith_server::{
        config::Config,
        node::cluster_backup::{BackupProgress, RestoredCluster, restore},
        start_error::StartError,
    };
    use serde::Serialize;

    use super::super::{
        Common, OK,
        backup::{cluster_failed, log_cluster},
        copy_progress::CopyProgress,
        epoch::RestoreFinished,
        output::{FIELD_AND_VALUE, Report, field_rows},
        runtime,
    };

    pub(super) fn run(
        common: &Common,
        config: &Config,
        arguments: &super::RestoreOptions,
    ) -> Result<u8, StartError> {
        let progress = CopyProgress::new("restored");
        let report = |done: BackupProgress<'_>| progress.update(done);
        let restored = runtime()?.block_on(restore(config, &arguments.file, arguments.force, &report));
        progress.end();
        log_cluster(config, "restore", restored.as_ref().err());
        match restored {
            Ok(restored) => {
                common.output.print(&ClusterRestored::of(restored))?;
                Ok(OK)
            }
            Err(error) => cluster_failed(error),
        }
    }

    /// The restored data, as `kith restore` prints them.
    #[derive(Serialize)]
    struct ClusterRestored {
        /// The time at which the backup was begun.
        taken: String,
        rows: u64,
        schema: u32,
        #[serde(flatten)]
        finished: RestoreFinished,
    }

    impl ClusterRestored {
        fn of(restored: RestoredCluster) -> Self {
            let RestoredCluster { finished, backup } = restored;
            Self {
                taken: humantime::format_rfc3339_seconds(backup.began).to_string(),
                rows: backup.files.iter().map(|file| file.rows).sum(),
                schema: backup.schema,
                finished: RestoreFinished::of(finished),
            }
        }
    }

    impl Report for ClusterRestored {
        const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

        fn rows(&self) -> Vec<Vec<String>> {
            field_rows(self, &["place", "taken", "rows", "schema", "epoch", "next_ids", "sequences"])
        }
    }
}

#[cfg(not(feature = "cluster"))]
mod cluster {
    use super::super::Common;
    use kith_server::{config::Config, start_error::StartError};

    pub(super) fn run(_: &Common, _: &Config, arguments: &super::RestoreOptions) -> Result<u8, StartError> {
        let super::RestoreOptions { file, force: _ } = arguments;
        Err(StartError::new(format!(
            "{} is not restored: this build of kith has no store of a cluster",
            file.display()
        )))
    }
}
