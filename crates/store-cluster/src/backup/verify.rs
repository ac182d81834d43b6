//! Checks a backup before anything is restored.

use std::{fs::File, io, path::Path};

use super::{
    BackupError, BackupFile, BackupManifest, BackupProgress, DocumentReader, ReportProgress, files::Hashed,
};
use crate::{cql, mongo};

/// Reads the whole backup, and compares every file's size, SHA-256 and count with the manifest. Blocks its
/// thread meanwhile.
///
/// # Errors
/// If the backup is damaged, or a newer version made it.
pub fn verify(folder: &Path, report: ReportProgress<'_>) -> Result<BackupManifest, BackupError> {
    let manifest = BackupManifest::of(folder, mongo::newest_migration())?;
    for file in &manifest.files {
        let path = file.path(folder);
        match is_intact(file, &path) {
            Ok(true) => report(BackupProgress { name: &file.name, rows: file.rows }),
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(BackupError::File { path, source });
            }
            Ok(false) | Err(_) => return Err(BackupError::Damaged(path)),
        }
    }
    Ok(manifest)
}

fn is_intact(file: &BackupFile, path: &Path) -> io::Result<bool> {
    let is_known = mongo::collections().contains(&file.name) || cql::tables().contains(&file.name);
    let mut documents = DocumentReader::new(Hashed::new(File::open(path)?))?;
    let mut rows = 0;
    for document in documents.by_ref() {
        document?;
        rows += 1;
    }
    let mut rest = documents.into_inner();
    let after = io::copy(&mut rest, &mut io::sink())?;
    let (bytes, sha256) = rest.total();
    Ok(is_known && after == 0 && (rows, bytes, sha256) == (file.rows, file.bytes, file.sha256.clone()))
}
