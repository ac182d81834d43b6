//! `kith config`.

use clap::Args;

use super::{Common, OK};
use crate::{config::show, start::StartError};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Only say whether it can be taken
    #[arg(long)]
    check: bool,
}

pub(super) fn run(common: &Common, arguments: &Arguments) -> Result<u8, StartError> {
    let loaded = common.load()?;
    if arguments.check {
        println!("the configuration is right");
    } else {
        print!("{}", show(&loaded)?);
    }
    Ok(OK)
}
