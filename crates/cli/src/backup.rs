//! `kith backup`: copies the data of an embedded node or a cluster.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::Args;
use kith_server::{config::Backend, start_error::StartError};

use super::Common;

#[derive(Args, Debug)]
pub(super) struct BackupOptions {
    /// File to write, of a cluster a folder, which must not exist; or a folder, where the name contains the
    /// time
    #[arg(long, value_name = "FILE|DIR")]
    to: PathBuf,
}

/// Backs up an embedded node's data folder, or a cluster's databases. Nodes may serve meanwhile.
pub(super) fn run(common: &Common, arguments: &BackupOptions) -> Result<u8, StartError> {
    let config = common.load()?.config;
    match config.store.backend {
        Backend::Sqlite => sqlite::run(common, &config, arguments),
        Backend::Cluster => cluster::run(common, &config, arguments),
    }
}

/// The path to write; in an existing folder the name contains the time.
fn named(to: &Path, suffix: &str) -> PathBuf {
    if !to.is_dir() {
        return to.to_owned();
    }
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    to.join(format!("kith-{}{suffix}", now.replace(['-', ':'], "")))
}

#[cfg(feature = "embedded")]
mod sqlite {
    use kith_store_sqlite::backup::{self, BackupError, Manifest, Progress};
    use serde::Serialize;

    use super::super::{
        Common, FAILED, OK,
        output::{FIELD_AND_VALUE, Report, field_rows, note},
        progress_lines::bar,
    };
    use kith_server::{config::Config, node::store, start_error::StartError, telemetry};

    pub(super) fn run(
        common: &Common,
        config: &Config,
        arguments: &super::BackupOptions,
    ) -> Result<u8, StartError> {
        let to = super::named(&arguments.to, ".db");
        let bar = bar(Some(0), "{bar:24} {percent:>3}% {eta:>4} left");
        let taken = backup::take(&store::data_file(config), &to, &mut |Progress { copied, pages }| {
            bar.set_length(pages);
            bar.set_position(copied);
        });
        bar.finish_and_clear();
        log(config, "backup", taken.as_ref().err());
        let manifest = match taken {
            Ok(manifest) => manifest,
            Err(error) => return failed(&error),
        };
        common.output.print(&BackupResult { path: to.display().to_string(), manifest })?;
        Ok(OK)
    }

    /// Writes the security event, unless nothing was begun.
    pub(in super::super) fn log(config: &Config, event: &'static str, error: Option<&BackupError>) {
        if error.is_none_or(BackupError::is_failure) {
            telemetry::start_security_events(&config.telemetry);
            telemetry::audit::command(event, error.is_none());
        }
    }

    /// Prints the error and returns its exit code.
    pub(in super::super) fn failed(error: &BackupError) -> Result<u8, StartError> {
        if !error.is_failure() {
            return Err(StartError::new(error.to_string()));
        }
        note(&format!("kith: {error}"));
        Ok(FAILED)
    }

    /// A backup, as `kith backup` prints it.
    #[derive(Serialize)]
    struct BackupResult {
        path: String,
        #[serde(flatten)]
        manifest: Manifest,
    }

    impl Report for BackupResult {
        const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

        fn rows(&self) -> Vec<Vec<String>> {
            field_rows(self, &["path", "bytes", "sha256", "users", "groups", "began", "ended"])
        }
    }
}

#[cfg(feature = "embedded")]
pub(super) use sqlite::{failed, log};

#[cfg(not(feature = "embedded"))]
mod sqlite {
    use super::super::Common;
    use kith_server::{config::Config, start_error::StartError};

    pub(super) fn run(_: &Common, _: &Config, arguments: &super::BackupOptions) -> Result<u8, StartError> {
        Err(StartError::new(format!(
            "{} is not written: this build of kith has no SQLite store",
            arguments.to.display()
        )))
    }
}

#[cfg(feature = "cluster")]
mod cluster {
    use kith_server::{
        config::Config,
        node::cluster_backup::{BackupManifest, ClusterBackupError, back_up},
        start_error::StartError,
        telemetry,
    };
    use serde::Serialize;

    use super::super::{
        Common, FAILED, OK,
        copy_progress::CopyProgress,
        output::{FIELD_AND_VALUE, Report, field_rows, note},
        runtime,
    };

    pub(super) fn run(
        common: &Common,
        config: &Config,
        arguments: &super::BackupOptions,
    ) -> Result<u8, StartError> {
        let (to, progress) = (super::named(&arguments.to, ""), CopyProgress::new("copied"));
        let taken = runtime()?.block_on(back_up(config, &to, &|done| progress.update(done)));
        progress.end();
        log(config, "backup", taken.as_ref().err());
        let manifest = match taken {
            Ok(manifest) => manifest,
            Err(error) => return failed(error),
        };
        let bytes = manifest.files.iter().map(|file| file.bytes).sum();
        let rows = manifest.files.iter().map(|file| file.rows).sum();
        common.output.print(&ClusterBackup { path: to.display().to_string(), bytes, rows, manifest })?;
        Ok(OK)
    }

    /// Writes the security event, unless nothing was begun.
    pub(in super::super) fn log(config: &Config, event: &'static str, error: Option<&ClusterBackupError>) {
        if !matches!(error, Some(ClusterBackupError::Refused(_))) {
            telemetry::start_security_events(&config.telemetry);
            telemetry::audit::command(event, error.is_none());
        }
    }

    /// Prints the error and returns its exit code.
    pub(in super::super) fn failed(error: ClusterBackupError) -> Result<u8, StartError> {
        match error {
            ClusterBackupError::Refused(line) => Err(line),
            ClusterBackupError::Failed(line) => {
                note(&format!("kith: {line}"));
                Ok(FAILED)
            }
        }
    }

    /// A backup, as `kith backup` prints it.
    #[derive(Serialize)]
    struct ClusterBackup {
        path: String,
        bytes: u64,
        rows: u64,
        #[serde(flatten)]
        manifest: BackupManifest,
    }

    impl Report for ClusterBackup {
        const COLUMNS: &'static [&'static str] = FIELD_AND_VALUE;

        fn rows(&self) -> Vec<Vec<String>> {
            field_rows(self, &["path", "bytes", "rows", "schema", "epoch", "began", "ended"])
        }
    }
}

#[cfg(feature = "cluster")]
pub(super) use cluster::{failed as cluster_failed, log as log_cluster};

#[cfg(not(feature = "cluster"))]
mod cluster {
    use super::super::Common;
    use kith_server::{config::Config, start_error::StartError};

    pub(super) fn run(_: &Common, _: &Config, arguments: &super::BackupOptions) -> Result<u8, StartError> {
        Err(StartError::new(format!(
            "{} is not written: this build of kith has no store of a cluster",
            arguments.to.display()
        )))
    }
}
