use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::Args;
use kith_lab::demo::Demo;
use kith_lab_servers::program::program;

#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Users to import, as JSON Lines.
    #[arg(long, value_name = "FILE", default_value = "target/sample/users.jsonl")]
    users: PathBuf,
    /// The program of a node [default: `kith` in the folder of this program].
    #[arg(long)]
    kith: Option<PathBuf>,
}

impl DemoArguments {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let demo = Demo { kith: program(self.kith)?, users: self.users };
        demo.run(&mut |line| println!("{line}")).await?;
        Ok(ExitCode::SUCCESS)
    }
}
