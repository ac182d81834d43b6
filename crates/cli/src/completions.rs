//! `kith completions`: prints completions for shells.

use clap_complete::Shell;
use kith_server::start_error::StartError;
use serde::Serialize;

use super::{Common, OK, tree};

/// For which shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        source <(kith completions bash)\n  \
        kith completions zsh > \"${fpath[1]}/_kith\"\n  \
        kith completions fish > ~/.config/fish/completions/kith.fish\n\n\
        The script is written unchanged; with -o json as a JSON string.")]
pub(super) struct CompletionsOptions {
    /// The shell that completes commands
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(common: &Common, arguments: &CompletionsOptions) -> Result<u8, StartError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut tree(), "kith", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    common
        .output
        .print_text(&script, &CompletionScript { shell: arguments.shell.to_string(), script: text })?;
    Ok(OK)
}

#[derive(Serialize)]
struct CompletionScript {
    shell: String,
    script: String,
}
