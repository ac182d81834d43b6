//! The `kith` command line.

// They panic if the stream is full or closed; see `output`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod applications;
mod backup;
mod call;
mod changes;
mod check;
mod client;
mod completions;
mod config;
mod convert;
#[cfg(feature = "cluster")]
mod copy_progress;
mod data_folder;
mod demo;
mod doctor;
mod edge_list;
mod edges;
mod epoch;
mod errors;
mod export;
mod facts;
mod filled_folder;
mod follows;
mod forward;
mod groups;
mod import;
mod inspect;
mod keys;
mod kind;
mod log_filter;
mod man;
mod messages;
mod migrate;
mod moved_records;
mod nodes;
mod notices;
mod ordered_follows;
mod output;
mod ping;
mod ports;
mod progress_lines;
mod proto_lines;
mod readers;
pub mod reference;
mod reference_command;
mod restore;
mod resync;
mod sample;
mod serve;
mod states;
mod status;
mod token;
mod top;
mod users;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use kith_server::{
    build_info,
    config::{Flag, LoadedConfig, Sources, load, termination_log},
    node::size_limit,
    start_error::StartError,
};

use self::output::WriteError;

/// The exit code for success.
pub const OK: u8 = 0;
/// The exit code if the command failed while it ran.
pub const FAILED: u8 = 1;
/// The exit code if the command could not begin: configuration, a port, a file, a store.
pub const NOT_STARTED: u8 = 2;

/// Users and groups behind gRPC, read from memory.
#[derive(Debug, Parser)]
#[command(name = "kith", version = build_info::LONG, about)]
struct Command {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    subcommand: Option<Commands>,
}

#[derive(Debug, Subcommand)]
enum Commands {
    /// Run a node (the default command)
    Serve(serve::ServeOptions),
    /// Run a node with 200 people, and open a page to talk to them
    Demo(demo::DemoOptions),
    /// Create users, groups, follows, messages or readers of notices from a file
    Import(import::ImportOptions),
    /// Write all users or groups as JSON Lines
    Export(export::ExportOptions),
    /// Make a folder for kith import all from the data of another product
    Convert(convert::ConvertOptions),
    /// Apply the migrations of this version to stored data (serve does it, too)
    Migrate(migrate::MigrateOptions),
    /// Copy the data of an embedded node to a file, or of a cluster to a folder, also while nodes serve
    Backup(backup::BackupOptions),
    /// Replace the data of a stopped embedded node or cluster by a backup
    Restore(restore::RestoreOptions),
    /// Show the configuration and where each value came from
    Config(config::ConfigOptions),
    /// Call any method of a node, in JSON
    Call(call::CallOptions),
    /// Show the state of nodes: a row for each
    Status(status::StatusOptions),
    /// Watch the state and activity of nodes, live
    Top(top::TopOptions),
    /// List the nodes of the cluster of a node
    Nodes(nodes::NodesOptions),
    /// Publish notices, list them, or count who has read them
    #[command(subcommand)]
    Notice(notices::NoticeCommand),
    /// Print which records have changed since a cursor, or follow them
    Changes(changes::ChangesOptions),
    /// Send what has changed to a receiver, as signed webhooks
    #[command(subcommand)]
    Forward(forward::ForwardCommand),
    /// Show one record in each tier of each node; changes nothing
    Inspect(inspect::InspectOptions),
    /// Compare the memory of a node with Redis and the store now, and drop stale copies
    Resync(resync::ResyncOptions),
    /// Discard all copies in memory and in Redis, at once and on every node
    #[command(subcommand)]
    Epoch(epoch::EpochCommand),
    /// Compare follows with their list entries, repair differences, or count lists again
    #[command(subcommand)]
    Edges(edges::EdgesCommand),
    /// Change which log lines a node writes, for a while
    LogFilter(log_filter::LogFilterOptions),
    /// Compare values of a node with thresholds, for monitoring
    Check(check::CheckOptions),
    /// Search this machine, the configuration and the node for problems, and say what to run
    Doctor(doctor::DoctorOptions),
    /// Make, list, revoke and check the keys of callers, in files
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Check tokens of users, and make some for trials
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Write believable users and groups, to import for trials
    Sample(sample::SampleOptions),
    /// Ask whether a node serves
    Ping(ping::PingOptions),
    /// Write the completion script of a shell
    Completions(completions::CompletionsOptions),
    /// Write the manual
    Man(man::ManOptions),
    /// Explain the reasons of errors: cause, fix, and whether to retry
    Errors(errors::ErrorsOptions),
    /// Write a reference document
    #[command(hide = true)]
    Reference(reference_command::ReferenceOptions),
}

/// The help heading that separates node configuration flags from a command's flags.
const CONFIGURATION: &str = "Configuration of a node";

/// Flags that set values of the configuration.
#[derive(Args, Debug)]
struct Common {
    /// File of the configuration [default: ./kith.toml, where there is one]
    #[arg(long, global = true, help_heading = CONFIGURATION, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where gRPC is served [default: 127.0.0.1:7600]
    #[arg(long, global = true, help_heading = CONFIGURATION, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Folder with the data of an embedded node [default: ./data]
    #[arg(long, global = true, help_heading = CONFIGURATION, value_name = "DIR")]
    data_dir: Option<String>,
    /// Allow other machines to be served without TLS
    #[arg(long, global = true, help_heading = CONFIGURATION)]
    insecure_listen: bool,
    /// Which log lines are written: error, warn, info, debug, trace, or target=level pairs
    #[arg(long, global = true, help_heading = CONFIGURATION, value_name = "FILTER")]
    log: Option<String>,
    /// Set any value: --set limits.in_flight=100
    #[arg(long, global = true, help_heading = CONFIGURATION, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    output: output::Output,
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    // tonic, mongodb and others take this provider; without it each would look for its own.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return exit_code(Err(StartError::new("the provider of TLS cannot be installed")));
    }
    let command = match Command::try_parse() {
        Ok(command) => command,
        Err(explained) => return exit_code(explain(&explained)),
    };
    exit_code(match command.subcommand.unwrap_or_else(|| Commands::Serve(serve::ServeOptions::default())) {
        Commands::Serve(arguments) => serve::run(&command.common, &arguments),
        Commands::Demo(arguments) => demo::run(&command.common, &arguments),
        Commands::Import(options) => client::block_on(import::run(&command.common, &options)),
        Commands::Export(options) => client::block_on(export::run(&command.common, &options)),
        Commands::Convert(options) => {
            convert::run(&command.common, &options).map_err(|why| StartError::new(format!("{why:#}")))
        }
        Commands::Migrate(arguments) => migrate::run(&command.common, &arguments),
        Commands::Backup(arguments) => backup::run(&command.common, &arguments),
        Commands::Restore(arguments) => restore::run(&command.common, &arguments),
        Commands::Config(arguments) => config::run(&command.common, &arguments),
        Commands::Call(arguments) => client::block_on(call::run(&command.common, &arguments)),
        Commands::Status(arguments) => client::block_on(status::run(&command.common, &arguments)),
        Commands::Top(arguments) => client::block_on(top::run(&command.common, &arguments)),
        Commands::Nodes(arguments) => client::block_on(nodes::run(&command.common, &arguments)),
        Commands::Notice(what) => client::block_on(notices::run(&command.common, &what)),
        Commands::Changes(arguments) => client::block_on(changes::run(&command.common, &arguments)),
        Commands::Forward(what) => client::block_on(forward::run(&command.common, &what)),
        Commands::Resync(arguments) => client::block_on(resync::run(&command.common, &arguments)),
        Commands::LogFilter(what) => client::block_on(log_filter::run(&command.common, &what)),
        Commands::Epoch(what) => client::block_on(epoch::run(&command.common, &what)),
        Commands::Edges(what) => client::block_on(edges::run(&command.common, &what)),
        Commands::Inspect(arguments) => client::block_on(inspect::run(&command.common, &arguments)),
        Commands::Check(arguments) => client::block_on(check::run(&command.common, &arguments)),
        Commands::Doctor(arguments) => client::block_on(doctor::run(&command.common, &arguments)),
        Commands::Keys(what) => keys::run(&command.common, &what),
        Commands::Token(what) => client::block_on(token::run(&command.common, &what)),
        Commands::Sample(arguments) => sample::run(&command.common, &arguments),
        Commands::Ping(arguments) => client::block_on(ping::run(&command.common, &arguments)),
        Commands::Completions(arguments) => completions::run(&command.common, &arguments),
        Commands::Man(arguments) => man::run(&command.common, &arguments),
        Commands::Errors(arguments) => errors::run(&command.common, &arguments),
        Commands::Reference(arguments) => {
            reference_command::run(&command.common, &arguments, Command::command())
        }
    })
}

/// Returns all commands with their flags: the source for completions, manuals and documents.
#[must_use]
pub fn tree() -> clap::Command {
    Command::command()
}

/// Writes help or version, which are results, or the command line's error.
fn explain(explained: &clap::Error) -> Result<u8, StartError> {
    let written = explained.print().and_then(|()| io::stdout().flush());
    if !explained.use_stderr() {
        written.map_err(WriteError::output)?;
    }
    Ok(u8::try_from(explained.exit_code()).unwrap_or(NOT_STARTED))
}

fn exit_code(result: Result<u8, StartError>) -> ExitCode {
    ExitCode::from(result.unwrap_or_else(|error| {
        output::note(&format!("kith: {error}"));
        NOT_STARTED
    }))
}

impl From<WriteError> for StartError {
    fn from(unwritable: WriteError) -> Self {
        Self::new(unwritable.to_string())
    }
}

impl Common {
    /// Loads the configuration from all sources.
    fn load(&self) -> Result<LoadedConfig, StartError> {
        self.load_with(Vec::new())
    }

    /// Like `load`, but with one command's flags, which win.
    fn load_with(&self, flags: Vec<Flag>) -> Result<LoadedConfig, StartError> {
        Ok(load(&self.sources(flags)?)?)
    }

    /// Returns the file for the reason why a start failed, even if the rest of the configuration is invalid.
    fn termination_log(&self) -> Option<PathBuf> {
        termination_log(&self.sources(Vec::new()).ok()?)
    }

    fn sources(&self, flags: Vec<Flag>) -> Result<Sources, StartError> {
        let mut environment = Vec::new();
        for (name, value) in std::env::vars_os() {
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => environment.push((name, value)),
                Err(_) if name.starts_with("KITH_") => {
                    return Err(StartError::new(format!("{name}: the value is not UTF-8; write it again")));
                }
                Err(_) => {}
            }
        }
        let flags = [self.flags()?, flags].concat();
        Ok(Sources { file: self.config.clone(), environment, flags })
    }

    /// Returns the environment, without values that are not text.
    fn environment() -> Vec<(String, String)> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        std::env::vars_os().filter_map(text).collect()
    }

    fn flags(&self) -> Result<Vec<Flag>, StartError> {
        let mut flags = Vec::new();
        for pair in &self.set {
            let Some((key, value)) = pair.split_once('=') else {
                return Err(StartError::new(format!("--set {pair}: say KEY=VALUE")));
            };
            flags.push(Flag { name: "--set", key: key.trim().to_owned(), value: value.to_owned() });
        }
        flags.extend(set_flags([
            ("--listen", "listen", self.listen.clone()),
            ("--data-dir", "data_dir", self.data_dir.clone()),
            ("--log", "telemetry.log_filter", self.log.clone()),
            ("--insecure-listen", "insecure_listen", self.insecure_listen.then(|| "true".to_owned())),
        ]));
        Ok(flags)
    }
}

/// Returns the flags that have a value, from their names, keys and values.
fn set_flags<const N: usize>(flags: [(&'static str, &str, Option<String>); N]) -> Vec<Flag> {
    let flag = |(name, key, value): (&'static str, &str, Option<String>)| {
        Some(Flag { name, key: key.to_owned(), value: value? })
    };
    flags.into_iter().filter_map(flag).collect()
}

/// Makes a command's runtime. From then on a file that is too large is an error, and does not end the
/// process.
fn runtime() -> Result<tokio::runtime::Runtime, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| StartError::new(format!("the runtime cannot start: {error}")))?;
    let entered = runtime.enter();
    size_limit::outlive()?;
    drop(entered);
    Ok(runtime)
}
