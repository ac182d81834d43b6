//! The node of the script: it answers the calls of a case as the case says, and checks what it got.
//! `clients/conformance/README.md` has the form of the cases.

mod case;
mod contract;
mod control;
mod grpc;
mod http1;
mod run;
mod script;
mod socket;

use std::{io, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context as _, Result};
use tokio::{net::TcpListener, sync::oneshot};

use control::Control;

/// Ends with its standard input, so that no runner leaves it behind.
#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kith-script: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<()> {
    let folder = std::env::args_os().nth(1).context("usage: kith-script FOLDER_OF_CASES")?;
    let control = Arc::new(Control::new(PathBuf::from(folder))?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || {
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        end.send(()).unwrap_or_default();
    });
    tokio::select! {
        served = control.serve(listener) => served,
        _ = ended => Ok(()),
    }
}
