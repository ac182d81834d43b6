//! The reference documents, generated from the code that they describe.
//!
//! `cargo xtask docs` writes the output of the command for each. `cargo xtask docs --check` fails if a
//! document of `docs/reference/` differs from the code.

mod api;
mod authorization;
mod command_line;
mod configuration;
mod errors;
mod markdown;
mod metrics;

use clap::ValueEnum;
use kith_server::{openapi, start_error::StartError};

pub use configuration::{ConfigKey, ValueKind, keys};

/// A reference document.
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
    /// Calls as JSON, as OpenAPI 3.1
    Openapi,
    /// The JSON schema of `kith.toml`
    ConfigurationSchema,
}

impl Document {
    /// Writes the document in its form, Markdown or JSON. `command` is the whole command line, for the
    /// document about it.
    ///
    /// # Errors
    /// Fails if the descriptors that are built into the program cannot be read.
    pub fn text(self, command: clap::Command) -> Result<String, StartError> {
        Ok(match self {
            Self::Api => api::write(),
            Self::Authorization => authorization::write(),
            Self::Errors => errors::write(),
            Self::Metrics => metrics::write(),
            Self::Configuration => configuration::write(),
            Self::CommandLine => command_line::write(command),
            Self::Openapi => openapi::document().map_err(|error| StartError::new(error.to_string()))?,
            Self::ConfigurationSchema => configuration::schema::write(),
        })
    }
}
