//! `kith config`: shows or checks the configuration.

use clap::Args;
use kith_server::{
    config::{ConfigValue, show, values},
    start_error::StartError,
};
use serde::Serialize;

use super::{
    Common, OK,
    output::{Report, write},
};

#[derive(Args, Debug)]
#[command(
    after_help = "Without -o it is TOML that can be used as a file of the configuration, with -o a row for \
                  each value. Secrets are redacted. With --check the result is a row."
)]
pub(super) struct ConfigOptions {
    /// Only say whether it is valid
    #[arg(long)]
    check: bool,
}

pub(super) fn run(common: &Common, arguments: &ConfigOptions) -> Result<u8, StartError> {
    let loaded = common.load()?;
    if arguments.check {
        let file = common.config.as_ref().map(|file| file.display().to_string());
        common.output.print(&ValidConfig { configuration: "right", file })?;
    } else if common.output.requested_form().is_some() {
        common.output.print(&values(&loaded)?)?;
    } else {
        write(show(&loaded)?.as_bytes())?;
    }
    Ok(OK)
}

/// The result of `--check`; an invalid configuration is an error.
#[derive(Serialize)]
struct ValidConfig {
    configuration: &'static str,
    file: Option<String>,
}

impl Report for ValidConfig {
    const COLUMNS: &'static [&'static str] = &["configuration", "file"];
}

impl Report for ConfigValue {
    const COLUMNS: &'static [&'static str] = &["key", "value", "origin"];

    fn row(&self) -> Vec<String> {
        vec![self.key.clone(), self.value.to_string(), self.origin.clone()]
    }
}
