//! `kith import`: JSON Lines, or lists of edges, into a node. A run that was killed goes on where it was; a bad line is told
//! and passed over.

mod flow;
mod progress;
mod reader;
mod report;

use std::{
    fs::{self, File},
    io::{BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use self::{
    flow::Flow,
    progress::{Job, Progress, Tally},
    reader::{Bounds, Reader},
    report::{Imported, Report},
};
use super::{
    Common, FAILED, OK, client::Target, follows::Follows, groups::Groups, kind::Import, users::Users,
};

/// What to import.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "How it goes and which lines are bad is told on standard error, the counts at its end on \
                        standard output.\nExit codes: 0 every line stands, 1 some are bad, 2 it did not come to \
                        the end: run it again and it goes on."
)]
pub(super) struct ImportOptions {
    #[command(subcommand)]
    kind: ImportKind,
}

#[derive(Debug, clap::Subcommand)]
enum ImportKind {
    /// Creates users from a file of JSON Lines
    Users(Source),
    /// Creates groups from a file of JSON Lines
    Groups(Source),
    /// Creates follows from a file of JSON Lines, or of pairs of user ids
    #[command(
        after_help = "A line is a follow in JSON, {\"userId\":\"1\",\"targetId\":\"2\",\"followTime\":\"2024-05-01T08:00:00Z\"} \
                      (the time may be left out: now), or two ids with spaces, a tab or a comma between: 1 2. Lines \
                      that begin with # are passed over, as in the graphs of SNAP. A follow that stands already is \
                      left as it is and counts as imported. Whether the users exist is not looked at.\n\
                      Exit codes: as those of kith import."
    )]
    Follows(Source),
}

#[derive(Debug, clap::Args)]
struct Source {
    /// One record a line, in the JSON of its Protocol Buffers message; of follows, see below
    file: PathBuf,
    /// Begins anew, whatever an earlier run noted in FILE.kith-progress
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    target: Target,
}

/// Imports a file. The exit code tells whether every line stands.
///
/// # Errors
/// When it could not run to the end of the file.
pub(super) async fn run(common: &Common, options: &ImportOptions) -> Result<u8> {
    let (kind, tally) = match &options.kind {
        ImportKind::Users(source) => ("users", import::<Users>("users", source).await?),
        ImportKind::Groups(source) => ("groups", import::<Groups>("groups", source).await?),
        ImportKind::Follows(source) => ("follows", import::<Follows>("follows", source).await?),
    };
    common.output.print(&Imported { kind, tally })?;
    Ok(if tally.bad > 0 { FAILED } else { OK })
}

async fn import<K: Import>(kind: &str, source: &Source) -> Result<Tally> {
    let job = Job::of(kind, &source.target.addr, &source.file)?;
    let kept = progress::beside(&source.file);
    let earlier = if source.restart { None } else { Progress::load(&kept, &job)? };
    let channel = source.target.connect().await?;
    let progress = earlier.unwrap_or_else(|| Progress::new(job));
    // Noted before anything is sent: the request ids follow from it.
    progress.save(&kept)?;
    let lines = open(&source.file, progress.at.offset)?;
    let reader = Reader::new(lines, progress.at, progress.run.clone(), Bounds::default());
    let report = Report::new(&source.file, &progress);
    let mut flow = Flow::<K, _>::new(channel, reader, progress, kept.clone(), report);
    flow.patience.answer = source.target.reach.streamed();
    let tally = flow.run().await;
    flow.report.end();
    let tally = tally?;
    fs::remove_file(&kept).with_context(|| format!("could not remove {}", kept.display()))?;
    Ok(tally)
}

fn open(file: &Path, offset: u64) -> Result<BufReader<File>> {
    let open = || {
        let mut file = File::open(file)?;
        file.seek(SeekFrom::Start(offset))?;
        std::io::Result::Ok(BufReader::new(file))
    };
    open().with_context(|| format!("could not read {}", file.display()))
}

#[cfg(test)]
mod tests;
