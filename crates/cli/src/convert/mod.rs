//! `kith convert`: makes a folder for `kith import all` from the data of another product. Reads files, and
//! calls no node.

mod conversation;
mod csv_tables;
mod documents;
mod groups;
mod ids;
mod messages;
mod people;
mod writer;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::Serialize;

use self::{documents::Documents, ids::Ids, writer::FolderWriter};
use super::{
    Common, FAILED, OK,
    data_folder::DataFolder,
    output::{Report, note},
};

/// The options for `kith convert`.
#[derive(Debug, clap::Args)]
pub(super) struct ConvertOptions {
    #[command(subcommand)]
    from: ConvertFrom,
}

#[derive(Debug, clap::Subcommand)]
enum ConvertFrom {
    /// From a dump of the MongoDB of OpenIM 3
    #[command(
        after_help = "The dump is a folder with the files of mongoexport (COLLECTION.json, a document in each line) or of \
                      mongodump (COLLECTION.bson) of the collections user, friend, black, friend_request, group, group_member, \
                      group_request, conversation, seq_user and msg. A collection that is missing is empty. Ids that are numbers \
                      stay; others get numbers, which ids.jsonl keeps for later runs.\n\
                      Exit codes: 0 every document was read, 1 some are bad, 2 it did not reach the end."
    )]
    Openim(Folders),
    /// From tables in CSV
    #[command(
        after_help = "The folder has users.csv, groups.csv, members.csv, follows.csv, settings.csv, or some of them. The first \
                      row names the fields as in the files of `kith export all`: userId, params.lang, tags:list (a;b), \
                      historyForNewMembers:bool; a member needs a joinTime. An empty cell is no field. A group's creator is its first member. Ids that are \
                      numbers stay; others get numbers, which ids.jsonl keeps for later runs.\n\
                      Exit codes: 0 every row was read, 1 some are bad, 2 it did not reach the end."
    )]
    Csv(Folders),
}

#[derive(Debug, clap::Args)]
struct Folders {
    /// Folder with the files of the collections, or with the tables
    dump: PathBuf,
    /// Folder to write; what an earlier run wrote there is replaced, apart from ids.jsonl
    folder: PathBuf,
}

/// The number of lines of one kind.
#[derive(Debug, Serialize)]
struct Converted {
    kind: String,
    written: u64,
}

impl Report for Converted {
    const COLUMNS: &'static [&'static str] = &["kind", "written"];
}

/// A running conversion.
struct Conversion {
    dump: PathBuf,
    ids: Ids,
    out: FolderWriter,
    /// Documents and rows that could not be used.
    bad: u64,
}

/// Converts a folder. The exit code says whether everything could be read. Fails if it did not reach the
/// end.
pub(super) fn run(common: &Common, options: &ConvertOptions) -> Result<u8> {
    let (ConvertFrom::Openim(Folders { dump, folder }) | ConvertFrom::Csv(Folders { dump, folder })) =
        &options.from;
    if !dump.is_dir() {
        bail!("{} is no folder", dump.display());
    }
    let folder = DataFolder::replace(folder)?;
    let ids_file = folder.file("ids");
    let mut conversion =
        Conversion { dump: dump.clone(), ids: Ids::load(&ids_file)?, out: FolderWriter::new(folder), bad: 0 };
    match &options.from {
        ConvertFrom::Openim(_) => openim(&mut conversion, &ids_file)?,
        ConvertFrom::Csv(_) => csv_tables::convert(&mut conversion)?,
    }
    conversion.ids.save(&ids_file)?;
    let bad = conversion.bad;
    let lines = conversion.out.finish()?;
    let converted = lines.into_iter().map(|(kind, written)| Converted { kind, written });
    common.output.print(&converted.collect::<Vec<_>>())?;
    Ok(if bad > 0 { FAILED } else { OK })
}

/// Saves numbers before records have them, so that a killed run gives no number twice.
fn openim(conversion: &mut Conversion, ids_file: &Path) -> Result<()> {
    let people = people::convert(conversion)?;
    conversion.ids.save(ids_file)?;
    let groups = groups::convert(conversion, &people)?;
    conversion.ids.save(ids_file)?;
    messages::convert(conversion, &people, &groups)
}

impl Conversion {
    /// Calls a function for each document of a collection. Names and skips those for which it fails.
    fn each(
        &mut self,
        collection: &str,
        mut one: impl FnMut(&mut Self, &serde_json::Value) -> Result<Result<(), String>>,
    ) -> Result<()> {
        let Some(mut documents) = Documents::open(&self.dump, collection)? else { return Ok(()) };
        while let Some(document) = documents.next()? {
            let read = match &document.value {
                Ok(value) => one(self, value)?,
                Err(why) => Err(why.clone()),
            };
            if let Err(why) = read {
                self.note_bad(&documents, document.number, &why);
            }
        }
        Ok(())
    }

    fn note_bad(&mut self, documents: &Documents, number: u64, why: &str) {
        self.skip(&format!("{}:{number}: {why}", documents.name()));
    }

    /// Names what is skipped.
    fn skip(&mut self, what: &str) {
        self.bad += 1;
        note(what);
    }
}
