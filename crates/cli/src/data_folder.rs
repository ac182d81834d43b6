//! The folder that `kith export all` writes and `kith import all` reads: a file for each kind of record, and
//! a manifest, which is written last.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

/// The version of the folder's form.
const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
/// All kinds of records.
const KINDS: [&str; 10] = [
    "users",
    "groups",
    "members",
    "follows",
    "settings",
    "messages",
    "reactions",
    "dialogs",
    "applications",
    "states",
];

/// A folder with records.
#[derive(Clone, Debug)]
pub(super) struct DataFolder(PathBuf);

/// The contents of a folder.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The version of the form.
    format: u32,
    /// The program that wrote the folder.
    pub(super) made_by: String,
    /// The lines in each file, by the name of their kind.
    pub(super) lines: BTreeMap<String, u64>,
}

impl Manifest {
    /// A manifest for files with these lines.
    pub(super) fn new(lines: BTreeMap<String, u64>) -> Self {
        Self { format: FORMAT, made_by: format!("kith {}", env!("CARGO_PKG_VERSION")), lines }
    }
}

impl DataFolder {
    /// Creates a folder, or takes one that is empty or was left unfinished. Fails if it has a manifest.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let folder = Self(path.to_owned());
        fs::create_dir_all(path).with_context(|| format!("could not create {}", path.display()))?;
        if folder.0.join(MANIFEST).exists() {
            bail!("{} contains an export already; name another folder", path.display());
        }
        Ok(folder)
    }

    /// Creates a folder, or empties one of its kinds of records and its manifest.
    pub(super) fn replace(path: &Path) -> Result<Self> {
        let folder = Self(path.to_owned());
        fs::create_dir_all(path).with_context(|| format!("could not create {}", path.display()))?;
        let files = KINDS.iter().map(|kind| folder.file(kind)).chain([path.join(MANIFEST)]);
        for file in files.filter(|file| file.exists()) {
            fs::remove_file(&file).with_context(|| format!("could not remove {}", file.display()))?;
        }
        Ok(folder)
    }

    /// Opens a complete folder. Fails if its manifest is missing or has another form.
    pub(super) fn open(path: &Path) -> Result<(Self, Manifest)> {
        let folder = Self(path.to_owned());
        let file = folder.0.join(MANIFEST);
        let bytes = fs::read(&file)
            .with_context(|| format!("could not read {}: the export is not complete", file.display()))?;
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is no manifest of an export", file.display()))?;
        if manifest.format != FORMAT {
            bail!("{} has the form {}, not {FORMAT}", file.display(), manifest.format);
        }
        Ok((folder, manifest))
    }

    /// The file with the records of this kind.
    pub(super) fn file(&self, kind: &str) -> PathBuf {
        self.0.join(format!("{kind}.jsonl"))
    }

    /// Completes the folder.
    pub(super) fn finish(&self, manifest: &Manifest) -> Result<()> {
        let file = self.0.join(MANIFEST);
        let write = || -> Result<()> { Ok(fs::write(&file, serde_json::to_vec_pretty(manifest)?)?) };
        write().with_context(|| format!("could not write {}", file.display()))
    }

    /// Reads one id of each line, by rising number.
    pub(super) fn ids(&self, kind: &str, field: &str) -> Result<Vec<i64>> {
        let file = self.file(kind);
        let unreadable = || format!("could not read {}", file.display());
        let mut ids = Vec::new();
        for line in BufReader::new(File::open(&file).with_context(unreadable)?).lines() {
            let line: BTreeMap<String, serde_json::Value> =
                serde_json::from_str(&line.with_context(unreadable)?).with_context(unreadable)?;
            let id = line.get(field).and_then(serde_json::Value::as_str).and_then(|id| id.parse().ok());
            ids.push(id.with_context(unreadable)?);
        }
        Ok(ids)
    }
}
