//! Which forwarder is meant.

use std::path::PathBuf;

use anyhow::Result;
use kith_forward::StateFile;

/// The name of a forwarder, and where its state is.
#[derive(Debug, clap::Args)]
pub(super) struct StateOptions {
    /// Name of the forwarder: 1 to 64 of a-z, 0-9 and -
    #[arg(long)]
    name: String,
    /// Folder with the states of forwarders: up to where everything is delivered, and parked records
    #[arg(long, value_name = "DIR", default_value = "./forward")]
    state: PathBuf,
}

impl StateOptions {
    /// Names the files. Fails if the name cannot be that of a file.
    pub(super) fn file(&self) -> Result<StateFile> {
        StateFile::new(&self.state, &self.name)
            .map_err(|error| anyhow::anyhow!("--name {}: {error}", self.name))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
