//! The reference documents under `docs/`, generated from the code that they describe.
//!
//! `cargo xtask docs` writes the output of the command for each; `cargo xtask docs --check` fails if one differs from
//! the code.

mod api;
mod authorization;
mod command_line;
mod configuration;
mod errors;
mod markdown;
mod metrics;

use clap::ValueEnum;

pub use configuration::{Key, keys};

/// One of the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// Services, methods and messages
    Api,
    /// Who may call what
    Authorization,
    /// Reasons of errors
    Errors,
    /// What `/metrics` exports
    Metrics,
    /// Keys of the configuration
    Configuration,
    /// Commands and their flags
    CommandLine,
}

impl Document {
    /// Writes it in Markdown. `command` is the whole command line, for the document about it.
    #[must_use]
    pub fn markdown(self, command: clap::Command) -> String {
        match self {
            Self::Api => api::write(),
            Self::Authorization => authorization::write(),
            Self::Errors => errors::write(),
            Self::Metrics => metrics::write(),
            Self::Configuration => configuration::write(),
            Self::CommandLine => command_line::write(command),
        }
    }
}
