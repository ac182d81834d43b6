//! `kith man`: writes the manual, a page for each command.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::Command;
use clap_mangen::Man;
use kith_server::start_error::StartError;
use serde::Serialize;

use super::{
    Common, OK,
    filled_folder::FilledFolder,
    output::{Report, WriteError},
    tree,
};

/// Where to put the pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kith man | man -l -\n  kith man --dir /usr/local/share/man/man1")]
pub(super) struct ManOptions {
    /// Folder for a page of each command; created if it does not exist. Without it the page of kith itself
    /// goes to standard output, with -o json as a JSON string
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run(common: &Common, arguments: &ManOptions) -> Result<u8, StartError> {
    let pages = pages().map_err(WriteError::output)?;
    if let Some(dir) = &arguments.dir {
        common.output.print(&write_pages(dir, &pages)?)?;
        return Ok(OK);
    }
    let texts = pages.iter().map(|page| ManEntry { page: page.name.clone(), text: page.text() });
    let first = pages.first().map_or(&[][..], |page| &page.roff);
    common.output.print_text(first, &texts.collect::<Vec<_>>())?;
    Ok(OK)
}

struct ManPage {
    name: String,
    roff: Vec<u8>,
}

impl ManPage {
    fn text(&self) -> Option<String> {
        Some(String::from_utf8_lossy(&self.roff).into_owned())
    }
}

/// Returns the page for `kith` first, then a page for each command, however deep.
fn pages() -> io::Result<Vec<ManPage>> {
    // Once the tree is built, each command's page has the flags that all commands share.
    let mut root = tree().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add_pages(root, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: Command, pages: &mut Vec<ManPage>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let below: Vec<_> = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    let mut roff = Vec::new();
    Man::new(command.name(name.clone())).render(&mut roff)?;
    pages.push(ManPage { name: format!("{name}.1"), roff });
    below.into_iter().try_for_each(|command| add_pages(command, pages))
}

/// A page, or the file that it was written to.
#[derive(Serialize)]
struct ManEntry {
    page: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// Writes the pages into a folder. Returns their files.
fn write_pages(dir: &Path, pages: &[ManPage]) -> Result<Vec<ManEntry>, StartError> {
    let folder = FilledFolder::create("--dir", dir)?;
    let written =
        pages.iter().map(|page| Ok(ManEntry { page: folder.write(&page.name, &page.roff)?, text: None }));
    written.collect()
}

impl Report for ManEntry {
    const COLUMNS: &'static [&'static str] = &["page"];
}
