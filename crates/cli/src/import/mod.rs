//! `kith import`: imports JSON Lines, or edge lists, into a node. If a run is interrupted, the next run over
//! the file resumes it. A bad line is reported and skipped.

mod all;
mod input;
mod progress;
mod reader;
mod report;
mod running;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow, bail};

use self::{
    input::Input,
    progress::{Job, Progress},
    reader::{ChunkBounds, ChunkReader},
    report::{ImportReport, ImportSummary},
    running::RunningImport,
};
use super::{
    Common, FAILED, OK, client::Target, follows::Follows, groups::Groups, kind::Import, messages::Messages,
    output::note, readers::Readers, users::Users,
};

/// The options for `kith import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Progress and bad lines go to standard error, the counts at the end to standard output.\nAn \
                  interrupted import from a pipe or - (standard input) has to start again: records with ids \
                  that exist already are counted and not created twice.\nExit codes: 0 every line is \
                  imported, 1 some are bad, 2 it did not reach the end: run it again, and it continues."
)]
pub(super) struct ImportOptions {
    #[command(subcommand)]
    kind: ImportKind,
}

#[derive(Debug, clap::Subcommand)]
enum ImportKind {
    /// Creates users from a file of JSON Lines
    Users(ImportSource),
    /// Creates groups from a file of JSON Lines
    Groups(ImportSource),
    /// Appends messages to conversations, with the numbers, senders and times of the file
    #[command(
        after_help = "A line is a message in JSON, as kith export messages writes it. The conversation must exist: the group, or \
                      both users. Its messages keep their numbers: the first line is number 1 of an empty conversation, or the one after \
                      the last message, and the others follow without gaps. A line with any other number ends the import. \
                      Without seq a message gets the next number. No other program should send to the conversation meanwhile.\n\
                      An edited message has the content of its last edit; a recalled message is empty. Read marks and \
                      settings of users are not part of the file.\n\
                      Exit codes: as those of kith import."
    )]
    Messages(ImportSource),
    /// Creates follows from a file of JSON Lines, or of pairs of user ids
    #[command(after_help = "A line is a follow in JSON, \
                      {\"userId\":\"1\",\"targetId\":\"2\",\"followTime\":\"2024-05-01T08:00:00Z\"} (default \
                      of the time: now), or a line of a table: two ids separated by a comma, a tab, a \
                      semicolon or spaces, with or without quotes. A first line may name the columns: user_id \
                      (or follower, source, from), target_id (or followee, target, to) and follow_time; \
                      without these names the first two columns are the ids. Further columns are ignored, and \
                      lines that begin with # or %. A follow that exists already is not changed and counts as \
                      imported. Whether the users exist is not checked.\nExit codes: as those of kith \
                      import.")]
    Follows(ImportSource),
    /// Registers readers of audiences of notices from a file of JSON Lines
    #[command(after_help = "A line is a request of RegisterReaders in JSON: \
                      {\"audienceId\":1,\"readers\":[{\"readerId\":\"42\",\"since\":\"2024-05-01T08:00:00Z\"}]} with 1 to 1000 \
                      readers (default of since: now). The audience must be registered. A reader that is registered already is not changed and counts as imported.\n\
                      Exit codes: as those of kith import.")]
    Readers(ImportSource),
    /// Imports a folder of kith export all: everything
    #[command(
        after_help = "The files are imported in the order in which they need each other. No other program should write \
                      meanwhile. What a folder does not contain is named in docs/operate/data.md.\nExit codes: as those of \
                      kith import."
    )]
    All(all::AllImport),
}

#[derive(Debug, clap::Args)]
struct ImportSource {
    /// One record a line, in the JSON of its Protocol Buffers message; of follows, see below; `-`: standard
    /// input
    file: PathBuf,
    /// Starts again, whatever an earlier run noted in the progress file
    #[arg(long)]
    restart: bool,
    /// File for the progress until the end [default: FILE.kith-progress]
    #[arg(long, value_name = "PROGRESS")]
    progress_file: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Imports a file. The exit code says whether every line was imported. Fails if it could not read the whole
/// file.
pub(super) async fn run(common: &Common, options: &ImportOptions) -> Result<u8> {
    let imported = match &options.kind {
        ImportKind::All(options) => return all::run(common, options).await,
        ImportKind::Users(source) => import(Users, source).await?,
        ImportKind::Groups(source) => import(Groups, source).await?,
        ImportKind::Messages(source) => import(Messages, source).await?,
        ImportKind::Follows(source) => import(Follows::default(), source).await?,
        ImportKind::Readers(source) => import(Readers, source).await?,
    };
    common.output.print(&imported)?;
    Ok(if imported.tally.bad > 0 { FAILED } else { OK })
}

async fn import<K: Import>(mut kind: K, source: &ImportSource) -> Result<ImportSummary> {
    let input = Input::open(K::NAME, &source.file)?;
    kind.examine(&input.beginning).map_err(|why| anyhow!("{}: {why}", input.name))?;
    let progress_file = source.progress_file(&input)?;
    let progress = match &progress_file {
        Some(progress_file) => source.progress(K::NAME, progress_file)?,
        None => Progress::new(Job::of_pipe(K::NAME, &source.target.addr)),
    };
    let channel = source.target.connect().await?;
    match &progress_file {
        // The progress is stored before anything is sent: the request ids depend on it.
        Some(progress_file) => progress.save(progress_file)?,
        None => note(&format!("kith: {} is read once: an import that breaks off starts again", input.name)),
    }
    let report = ImportReport::new(&input.name, &progress);
    let lines = input.lines(progress.at.offset)?;
    let reader = ChunkReader::new(lines, progress.at, progress.run.clone(), ChunkBounds::default());
    let mut running = RunningImport::new(channel, kind, reader, progress, progress_file.clone(), report);
    running.limits.answer = source.target.options.message_limit();
    let tally = running.run().await;
    running.report.end();
    let tally = tally?;
    if let Some(progress_file) = progress_file {
        fs::remove_file(&progress_file)
            .with_context(|| format!("could not remove {}", progress_file.display()))?;
    }
    Ok(ImportSummary { kind: K::NAME, tally })
}

impl ImportSource {
    /// Returns the progress file; `None` for a pipe.
    fn progress_file(&self, input: &Input) -> Result<Option<PathBuf>> {
        match &self.progress_file {
            Some(_) if !input.is_file() => {
                bail!("{} is read once and has no progress to keep; leave out --progress-file", input.name)
            }
            Some(given) => Ok(Some(given.clone())),
            None => Ok(input.is_file().then(|| progress::default_file(&self.file))),
        }
    }

    /// Loads an earlier run's progress, or begins a new run.
    fn progress(&self, kind: &str, progress_file: &Path) -> Result<Progress> {
        let job = Job::of(kind, &self.target.addr, &self.file)?;
        let earlier = if self.restart { None } else { Progress::load(progress_file, &job)? };
        Ok(earlier.unwrap_or_else(|| Progress::new(job)))
    }
}

#[cfg(test)]
mod tests;
