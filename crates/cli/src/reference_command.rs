//! `kith reference`: serves Kith's developers; `cargo xtask docs` stores its output.

use clap::Args;
use kith_server::start_error::StartError;
use serde::Serialize;

use super::{Common, OK, reference::Document};

#[derive(Args, Debug)]
pub(super) struct ReferenceOptions {
    /// The document to print
    #[arg(value_enum)]
    document: Document,
}

/// A document as a command's result.
#[derive(Serialize)]
struct ReferenceText {
    text: String,
}

/// Prints the document unchanged, or as a JSON string if JSON was requested.
pub(super) fn run(
    common: &Common,
    arguments: &ReferenceOptions,
    command: clap::Command,
) -> Result<u8, StartError> {
    let written = ReferenceText { text: arguments.document.text(command)? };
    common.output.print_text(written.text.as_bytes(), &written)?;
    Ok(OK)
}
