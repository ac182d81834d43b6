//! `kith top`: shows the nodes' state and activity live.

mod activity;
mod detail;
mod draw;
mod feed;
mod health;
mod history;
mod lines;
mod list;
mod sample;
mod screen;
#[cfg(test)]
mod screen_tests;
pub(super) mod shown;
mod table;
mod view;

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use anyhow::Result;

use self::feed::Feed;
use super::{Common, client::Targets, output::OutputForm};

/// Which nodes to watch, and how often.
#[derive(Debug, clap::Args)]
#[command(after_help = "With one address, the other nodes of its cluster are watched, too.\n\
        On a terminal it is a screen: q quits, p pauses, d shows the details of a node, ? explains columns and keys.\n\
        NO_COLOR turns colors off.\n\
        Elsewhere, and with -o plain, -o json or --count, every interval is a row for each node, or a line of JSON.\n\
        A node that does not answer is unreachable until it answers again.\n\
        Exit codes: 0 ended, 1 a node was unreachable at the end, 2 the only node that was asked is unreachable.")]
pub(super) struct TopOptions {
    /// How often figures are refreshed: 200ms to 60s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Ends after this many intervals
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    targets: Targets,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|why| why.to_string())?;
    let within = (Duration::from_millis(200)..=Duration::from_secs(60)).contains(&interval);
    if within { Ok(interval) } else { Err("say 200ms to 60s".to_owned()) }
}

/// Watches until it is stopped. Fails if a single node is watched and it does not answer, or if the terminal
/// cannot be used.
pub(super) async fn run(common: &Common, arguments: &TopOptions) -> Result<u8> {
    let feed = Feed::begin(&arguments.targets, arguments.interval).await?;
    let asked = common.output.requested_form();
    let screen = asked.is_none_or(|form| form == OutputForm::Table) && arguments.count.is_none();
    if screen && io::stdout().is_terminal() {
        screen::run(feed).await
    } else {
        lines::run(feed, common.output.form(), arguments.count).await
    }
}
