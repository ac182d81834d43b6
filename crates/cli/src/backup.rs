//! `kith backup`: copies an embedded node's data.

use std::path::PathBuf;

use clap::Args;
use kith_server::{config::Backend, start_error::StartError};

use super::Common;

#[derive(Args, Debug)]
pub(super) struct BackupOptions {
    /// File to write, which must not exist; or a folder, where its name contains the time
    #[arg(long, value_name = "FILE|DIR")]
    to: PathBuf,
}

/// Backs up an embedded node's data folder. The node may serve meanwhile.
pub(super) fn run(common: &Common, arguments: &BackupOptions) -> Result<u8, StartError> {
    let config = common.load()?.config;
    if config.store.backend == Backend::Cluster {
        return Err(StartError::new(
            "the data lie in MongoDB: back them up with mongodump, or write them out with kith export",
        ));
    }
    sqlite::run(common, &config, arguments)
}

#[cfg(feature = "embedded")]
mod sqlite {
    use std::{
        path::{Path, PathBuf},
        time::SystemTime,
    };

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
        let to = file(&arguments.to);
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

    fn file(to: &Path) -> PathBuf {
        if !to.is_dir() {
            return to.to_owned();
        }
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        to.join(format!("kith-{}.db", now.replace(['-', ':'], "")))
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
