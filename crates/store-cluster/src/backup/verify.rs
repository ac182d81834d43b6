//! Checks a backup before anything is restored.

use std::{collections::BTreeSet, fs::File, io, path::Path};

use super::{
    BackupError, BackupFile, BackupManifest, BackupProgress, DocumentReader, ReportProgress, files::Hashed,
};

/// The newest migration, and the collections and tables, that this program knows.
pub(crate) struct KnownSchema {
    pub(crate) newest: u32,
    pub(crate) names: BTreeSet<String>,
}

/// Reads the whole backup, and compares every file's size, SHA-256 and count with the manifest.
pub(crate) fn verify(
    folder: &Path,
    known: &KnownSchema,
    report: ReportProgress<'_>,
) -> Result<BackupManifest, BackupError> {
    let manifest = BackupManifest::of(folder, known.newest)?;
    for file in &manifest.files {
        let path = file.path(folder);
        match is_intact(file, &path) {
            Ok(true) if known.names.contains(&file.name) => {
                report(BackupProgress { name: &file.name, rows: file.rows });
            }
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(BackupError::File { path, source });
            }
            Ok(_) | Err(_) => return Err(BackupError::Damaged(path)),
        }
    }
    Ok(manifest)
}

fn is_intact(file: &BackupFile, path: &Path) -> io::Result<bool> {
    let (mut documents, mut rows) = (DocumentReader::new(Hashed::new(File::open(path)?))?, 0);
    for document in documents.by_ref() {
        document?;
        rows += 1;
    }
    let (bytes, sha256) = documents.into_inner().total();
    Ok((rows, bytes) == (file.rows, file.bytes) && sha256 == file.sha256)
}
