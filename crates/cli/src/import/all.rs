//! `kith import all`: imports a folder of `kith export all`, file by file. A killed run goes on where it
//! stopped.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::{
    ImportSource, import,
    progress::{self, ImportCounts},
    report::ImportSummary,
};
use crate::{
    Common, FAILED, OK,
    applications::Applications,
    client::Target,
    data_folder::DataFolder,
    groups::Groups,
    kind::Import,
    messages::MovedMessages,
    moved_records::{Dialogs, Members, Reactions, Settings},
    ordered_follows::OrderedFollows,
    states::States,
    users::Users,
};

/// The file in the folder that says which files are done.
const PROGRESS: &str = "import.kith-progress";

/// The options for `kith import all`.
#[derive(Debug, clap::Args)]
pub(super) struct AllImport {
    /// Folder that `kith export all` or `kith convert` wrote
    folder: PathBuf,
    /// Starts again, whatever an earlier run noted in the folder
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    target: Target,
}

/// Which files are done.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FolderProgress {
    addr: String,
    done: Vec<(String, ImportCounts)>,
}

impl FolderProgress {
    fn new(addr: &str) -> Self {
        Self { addr: addr.to_owned(), done: Vec::new() }
    }

    fn load(file: &Path, addr: &str) -> Result<Self> {
        let Some(progress) = progress::read::<Self>(file)? else { return Ok(Self::new(addr)) };
        if progress.addr != addr {
            bail!("the interrupted import went to {}; --restart begins again", progress.addr);
        }
        Ok(progress)
    }

    fn of(&self, kind: &str) -> Option<ImportCounts> {
        self.done.iter().find(|(done, _)| done == kind).map(|(_, tally)| *tally)
    }
}

/// A running import of a folder.
struct FolderImport<'a> {
    options: &'a AllImport,
    folder: DataFolder,
    progress: FolderProgress,
    summaries: Vec<ImportSummary>,
}

/// Imports a folder. The exit code says whether every line was imported. Fails if it did not reach the end.
pub(super) async fn run(common: &Common, options: &AllImport) -> Result<u8> {
    let (folder, _) = DataFolder::open(&options.folder)?;
    let progress_file = options.folder.join(PROGRESS);
    let progress = if options.restart {
        FolderProgress::new(&options.target.addr)
    } else {
        FolderProgress::load(&progress_file, &options.target.addr)?
    };
    let mut all = FolderImport { options, folder, progress, summaries: Vec::new() };
    all.file(Users).await?;
    all.file(Groups).await?;
    all.file(Members).await?;
    all.file(OrderedFollows).await?;
    all.file(Settings).await?;
    all.file(MovedMessages).await?;
    all.file(Reactions).await?;
    all.file(Dialogs).await?;
    all.file(Applications).await?;
    all.file(States).await?;
    fs::remove_file(&progress_file)
        .with_context(|| format!("could not remove {}", progress_file.display()))?;
    common.output.print(&all.summaries)?;
    Ok(if all.summaries.iter().any(|one| one.tally.bad > 0) { FAILED } else { OK })
}

impl FolderImport<'_> {
    /// Imports the file of a kind, unless an earlier run has. A folder need not have every file.
    async fn file<K: Import>(&mut self, kind: K) -> Result<()> {
        let file = self.folder.file(K::NAME);
        let done = self.progress.of(K::NAME);
        let tally = match done {
            Some(tally) => tally,
            None if !file.exists() => ImportCounts::default(),
            None => {
                let (restart, target) = (self.options.restart, self.options.target.clone());
                import(kind, &ImportSource { file, restart, progress_file: None, target }).await?.tally
            }
        };
        if done.is_none() {
            self.progress.done.push((K::NAME.to_owned(), tally));
            let path = self.options.folder.join(PROGRESS);
            progress::replace(&path, &self.progress)
                .with_context(|| format!("could not write {}", path.display()))?;
        }
        self.summaries.push(ImportSummary { kind: K::NAME, tally });
        Ok(())
    }
}
