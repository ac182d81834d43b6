//! `kith export`: writes users, groups, or a conversation's messages as JSON Lines, by ascending number, in
//! the form that `kith import` reads.

mod all;
mod group_records;
mod reaction_records;
mod user_records;

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::client::Channel;
use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status};

use super::{
    Common, OK,
    client::Target,
    groups::Groups,
    kind::Export,
    messages::ConversationMessages,
    output::Report,
    progress_lines::bar,
    proto_lines::{TRIES, WAIT},
    users::Users,
};

/// The options for `kith export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Records are JSON Lines whatever -o says, since kith import reads them; -o is for the \
                        summary, which goes to standard error."
)]
pub(super) struct ExportOptions {
    #[command(subcommand)]
    kind: ExportKind,
}

#[derive(Debug, clap::Subcommand)]
enum ExportKind {
    /// All users, without secrets
    Users(ExportSink),
    /// All groups, without invite codes
    Groups(ExportSink),
    /// The messages of one conversation: all that any of its readers could read
    Messages(ConversationExport),
    /// A folder with everything, for kith import all
    #[command(
        after_help = "Nothing should be written to the node meanwhile: each page is read at another moment. What is not \
                            exported is named in docs/operate/data.md."
    )]
    All(all::AllExport),
}

#[derive(Debug, clap::Args)]
struct ConversationExport {
    /// Id of the conversation: d7-8, g9
    conversation: String,
    #[command(flatten)]
    sink: ExportSink,
}

#[derive(Debug, clap::Args)]
struct ExportSink {
    /// Written when complete; `-`: the standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Exports all records of a kind. Fails if the node does not answer or the file cannot be written; then an
/// existing file is unchanged.
pub(super) async fn run(common: &Common, options: &ExportOptions) -> Result<u8> {
    let (kind, exported) = match &options.kind {
        ExportKind::All(options) => return all::run(common, options).await,
        ExportKind::Users(sink) => ("users", export(&Users, sink).await?),
        ExportKind::Groups(sink) => ("groups", export(&Groups, sink).await?),
        ExportKind::Messages(ConversationExport { conversation, sink }) => {
            ("messages", export(&ConversationMessages(conversation.clone()), sink).await?)
        }
    };
    common.output.print_to_stderr(&ExportSummary { kind, exported })?;
    Ok(OK)
}

#[derive(Serialize)]
struct ExportSummary {
    kind: &'static str,
    exported: u64,
}

impl Report for ExportSummary {
    const COLUMNS: &'static [&'static str] = &["kind", "exported"];
}

async fn export<E: Export>(source: &E, sink: &ExportSink) -> Result<u64> {
    let (channel, limit) = (sink.target.connect().await?, sink.target.options.message_limit());
    if sink.file == Path::new("-") {
        return copy(source, channel, limit, io::stdout().lock()).await;
    }
    let unwritable = || format!("could not write {}", sink.file.display());
    if fs::metadata(&sink.file).is_ok_and(|data| !data.is_file()) {
        // A device or a pipe must not be replaced by a file.
        let device = File::options().write(true).open(&sink.file).with_context(unwritable)?;
        return copy(source, channel, limit, device).await;
    }
    // A link is kept, and its target is replaced.
    let target = fs::canonicalize(&sink.file).unwrap_or_else(|_| sink.file.clone());
    let part = target.with_added_extension("part");
    let file = File::create(&part).with_context(unwritable)?;
    let count = match copy(source, channel, limit, &file).await {
        Ok(count) => count,
        Err(why) => {
            fs::remove_file(&part).ok();
            return Err(why);
        }
    };
    file.sync_all().and_then(|()| fs::rename(&part, &target)).with_context(unwritable)?;
    Ok(count)
}

/// Writes all records. When the stream is interrupted, continues after the last record.
async fn copy<E: Export>(source: &E, channel: Channel, limit: Duration, sink: impl Write) -> Result<u64> {
    let bar = bar(None, "{spinner} {human_pos} records, {per_sec}");
    let mut copy = RecordWriter { sink: BufWriter::new(sink), limit, after: 0, count: 0, bar };
    let mut failures = 0;
    loop {
        let before = copy.count;
        let Err(status) = copy.stream(source, channel.clone()).await? else { break };
        failures = if copy.count > before { 1 } else { failures + 1 };
        if status.code() != Code::Unavailable && status.code() != Code::DeadlineExceeded || failures >= TRIES
        {
            bail!("the node ended the export: {}", status.message());
        }
        sleep(WAIT).await;
    }
    copy.bar.finish_and_clear();
    copy.sink.flush().context("could not write the records")?;
    Ok(copy.count)
}

struct RecordWriter<W: Write> {
    sink: BufWriter<W>,
    /// The time limit for each message.
    limit: Duration,
    after: i64,
    count: u64,
    bar: ProgressBar,
}

impl<W: Write> RecordWriter<W> {
    async fn stream<E: Export>(&mut self, source: &E, channel: Channel) -> Result<Result<(), Status>> {
        let mut messages = match source.export(channel, self.after).await {
            Ok(messages) => messages,
            Err(status) => return Ok(Err(status)),
        };
        loop {
            match timeout(self.limit, messages.next()).await {
                Ok(Some(Ok(records))) => self.write::<E>(&records)?,
                Ok(Some(Err(status))) => return Ok(Err(status)),
                Ok(None) => return Ok(Ok(())),
                Err(_) => return Ok(Err(Status::unavailable("the node does not answer"))),
            }
        }
    }

    fn write<E: Export>(&mut self, records: &[E::Record]) -> Result<()> {
        for record in records {
            writeln!(self.sink, "{}", E::line(record)?).context("could not write the records")?;
            self.after = E::number(record);
            self.count += 1;
        }
        self.bar.set_position(self.count);
        Ok(())
    }
}
