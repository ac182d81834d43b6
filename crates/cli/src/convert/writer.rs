//! Writes the files of a folder for `kith import all`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write as _},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::data_folder::{DataFolder, Manifest};

/// The files that are being written, by kind.
pub(super) struct FolderWriter {
    folder: DataFolder,
    files: BTreeMap<&'static str, (BufWriter<File>, u64)>,
}

impl FolderWriter {
    pub(super) const fn new(folder: DataFolder) -> Self {
        Self { folder, files: BTreeMap::new() }
    }

    /// Appends a line to the file of a kind.
    pub(super) fn line(&mut self, kind: &'static str, line: &Value) -> Result<()> {
        let unwritable = || format!("could not write the {kind}");
        let (file, count) = match self.files.entry(kind) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let file = File::create(self.folder.file(kind)).with_context(unwritable)?;
                place.insert((BufWriter::new(file), 0))
            }
        };
        *count += 1;
        writeln!(file, "{line}").with_context(unwritable)
    }

    /// Completes the folder. Returns the number of lines by kind.
    pub(super) fn finish(self) -> Result<BTreeMap<String, u64>> {
        let mut lines = BTreeMap::new();
        for (kind, (mut file, count)) in self.files {
            file.flush()
                .and_then(|()| file.get_ref().sync_all())
                .with_context(|| format!("could not write the {kind}"))?;
            lines.insert(kind.to_owned(), count);
        }
        self.folder.finish(&Manifest::new(lines.clone()))?;
        Ok(lines)
    }
}

/// The last time that JSON can express, in milliseconds.
const LAST_TIME: i64 = 253_402_300_799_999;

/// A time as JSON has it.
pub(super) fn time(millis: i64) -> Value {
    let time = std::time::Duration::from_millis(millis.clamp(0, LAST_TIME).unsigned_abs());
    json!(humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + time).to_string())
}

/// The first characters of a text, in one line.
pub(super) fn cut(text: &str, chars: usize) -> String {
    let line = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    line.take(chars).collect::<String>().trim().to_owned()
}
