//! `kith config`.

use std::path::PathBuf;

use clap::Args;
use kith_server::{
    config::{ConfigValue, Loaded, show, values},
    start_error::StartError,
};
use serde::Serialize;

use super::{
    Common, OK,
    output::{Report, write},
};

#[derive(Args, Debug)]
#[command(
    after_help = "Without -o it is TOML that can be used as a file of the configuration, on a terminal and \
                        in a pipe alike; with -o a row for each value. Secrets are redacted. With --check the \
                        result is a row."
)]
pub(super) struct ConfigOptions {
    /// Only say whether it is valid
    #[arg(long)]
    check: bool,
}

pub(super) fn run(common: &Common, arguments: &ConfigOptions) -> Result<u8, StartError> {
    let loaded = common.load()?;
    if arguments.check {
        common.output.print(&Valid { configuration: "right", file: common.config.clone() })?;
    } else if common.output.asked().is_some() {
        common.output.print(&ConfigList::of(&loaded)?)?;
    } else {
        write(show(&loaded)?.as_bytes())?;
    }
    Ok(OK)
}

/// The result of `--check`; an invalid configuration is an error.
#[derive(Serialize)]
struct Valid {
    configuration: &'static str,
    file: Option<PathBuf>,
}

impl Report for Valid {
    fn header(&self) -> Vec<&'static str> {
        vec!["configuration", "file"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let file = self.file.as_ref().map_or_else(String::new, |file| file.display().to_string());
        vec![vec![self.configuration.to_owned(), file]]
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct ConfigList(Vec<ConfigValue>);

impl ConfigList {
    fn of(loaded: &Loaded) -> Result<Self, StartError> {
        Ok(Self(values(loaded)?))
    }
}

impl Report for ConfigList {
    fn header(&self) -> Vec<&'static str> {
        vec!["key", "value", "origin"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row =
            |value: &ConfigValue| vec![value.key.clone(), value.value.to_string(), value.origin.clone()];
        self.0.iter().map(row).collect()
    }
}
