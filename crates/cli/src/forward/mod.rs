//! `kith forward`: sends what has changed to a receiver, as signed webhooks.

mod node_source;
mod receiver_options;
mod records;
mod retry;
mod state_options;
mod status;
mod test_event;
mod webhook;

use anyhow::Result;

use super::Common;

/// The commands of a forwarder.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ForwardCommand {
    /// Send what has changed to a receiver, until it is stopped
    #[command(
        after_help = "Needs a key with change:export and the scope to read each kind, such as the preset connector, and changes.kept in \
                      the configuration of the nodes. The secret file has whsec_ and 24 to 64 random bytes in base64; during a rotation two \
                      lines. Run it under a supervisor.\n\
                      Exit codes: 0 stopped by a signal; 1 stopped by itself, and says what to do; 2 it could not begin."
    )]
    Webhook(Box<webhook::WebhookOptions>),
    /// Show how far a forwarder is, and which records are parked
    Status(status::ForwarderOptions),
    /// Send the present state of parked records again
    #[command(after_help = "The forwarder sends them at once if it runs, else when it starts.\n\
                      Exit codes: 0 asked, 2 there is no such parked record, or the state cannot be used.")]
    Retry(retry::RetryOptions),
    /// Send one event of the type forward.test, and print the answer
    #[command(after_help = "Exit codes: 0 the receiver took it, 1 it did not, 2 it could not be sent.")]
    Test(test_event::TestOptions),
}

/// Runs a command. Fails when it could not begin.
pub(super) async fn run(common: &Common, what: &ForwardCommand) -> Result<u8> {
    match what {
        ForwardCommand::Webhook(options) => webhook::run(options).await,
        ForwardCommand::Status(options) => status::run(common, options),
        ForwardCommand::Retry(options) => retry::run(common, options),
        ForwardCommand::Test(options) => test_event::run(common, options).await,
    }
}
