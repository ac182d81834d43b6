//! Restores a backup of both stores.

use std::{io, path::Path, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{Migrations as _, StoreError};
use mongodb::{Collection, bson::RawDocumentBuf, options::InsertManyOptions};

use super::{
    backup::{LEASES, part_in_backup},
    connect::ClusterHandle,
    database::{MIGRATIONS, Mongo, durable},
    error::write_failed,
    migrate::{collections, newest_migration},
};
use crate::{
    backup::{
        BackupError, BackupFile, BackupManifest, BackupProgress, BackupStore, DocumentReader, KnownSchema,
        ReportProgress, verify,
    },
    cql::{MEMBERS, tables},
};

/// Inserts in flight.
const IN_FLIGHT: usize = 4;
/// Documents and bytes in one insert; a single document may have more bytes.
const BATCH_DOCUMENTS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;
/// How long the server waits for a majority to have an insert: the disk may be busy for long.
const MAJORITY: Duration = Duration::from_secs(60);

/// Reads the whole backup, and compares every file's size, SHA-256 and count with the manifest. Blocks its
/// thread meanwhile.
///
/// # Errors
/// If the backup is damaged, or a newer version made it.
pub fn verify_backup(folder: &Path, report: ReportProgress<'_>) -> Result<BackupManifest, BackupError> {
    let names = collections().into_iter().chain(tables()).collect();
    verify(folder, &KnownSchema { newest: newest_migration(), names }, report)
}

impl ClusterHandle {
    /// Whether the stores hold data that a restore would replace. What a restore left that did not end does
    /// not count.
    ///
    /// # Errors
    /// If a store cannot answer, or a newer version of the program wrote the data.
    pub async fn holds_data(&self) -> Result<bool, StoreError> {
        let mongo = &self.mongo;
        if mongo.is_restoring().await? {
            return Ok(false);
        }
        if mongo.status().await?.iter().any(|migration| migration.applied.is_some()) {
            return Ok(true);
        }
        match mongo.relations.get() {
            Some(relations) => relations.client.has_rows().await,
            None => Ok(false),
        }
    }

    /// Replaces what both stores hold by a [verified](verify_backup) backup. From its
    /// beginning until [`Self::end_restore`] no node starts. May be repeated.
    ///
    /// # Errors
    /// See [`BackupError`]. After one a part may have been restored.
    pub async fn restore(
        &self,
        folder: &Path,
        backup: &BackupManifest,
        report: ReportProgress<'_>,
    ) -> Result<(), BackupError> {
        let mongo = &self.mongo;
        let of = |store| backup.files.iter().filter(move |file| file.store == store);
        if mongo.relations.get().is_none() && of(BackupStore::Cql).any(|file| file.rows > 0) {
            return Err(BackupError::NoRelations);
        }
        mongo.begin_restoring().await?;
        for name in collections() {
            mongo.clear(&name).await?;
        }
        for file in of(BackupStore::Mongodb) {
            mongo.load(folder, file, report).await?;
        }
        if let Some(relations) = mongo.relations.get() {
            relations.client.recreate(backup.schema).await?;
            for file in of(BackupStore::Cql) {
                relations.client.load(folder, file, report).await?;
            }
            for members in of(BackupStore::Cql).filter(|file| file.name == MEMBERS) {
                relations.restore_memberships(folder, members, backup.began).await?;
            }
        }
        Ok(())
    }

    /// Lets nodes start again.
    ///
    /// # Errors
    /// If the store cannot answer; then the restore has to be repeated.
    pub async fn end_restore(&self) -> Result<(), StoreError> {
        self.mongo.end_restoring().await
    }
}

impl Mongo {
    async fn clear(&self, name: &str) -> Result<(), StoreError> {
        let collection = self.database.collection::<RawDocumentBuf>(name);
        match name {
            LEASES | MIGRATIONS => collection.delete_many(part_in_backup(name)).await.map(drop),
            _ => collection.drop().await,
        }
        .map_err(write_failed)
    }

    async fn load(
        &self,
        folder: &Path,
        file: &BackupFile,
        report: ReportProgress<'_>,
    ) -> Result<(), BackupError> {
        let path = file.path(folder);
        let documents = DocumentReader::open(file, folder).map_err(BackupError::file(&path))?;
        let collection = self.database.collection::<RawDocumentBuf>(&file.name);
        let inserts = stream::iter(Batches { documents, next: None }).map(|batch| async {
            let batch = batch.map_err(BackupError::file(&path))?;
            insert(&collection, batch).await.map_err(BackupError::from)
        });
        let mut inserts = std::pin::pin!(inserts.buffer_unordered(IN_FLIGHT));
        let mut rows = 0;
        while let Some(inserted) = inserts.try_next().await? {
            rows += inserted;
            report(BackupProgress { name: &file.name, rows });
        }
        Ok(())
    }
}

async fn insert(
    collection: &Collection<RawDocumentBuf>,
    batch: Vec<RawDocumentBuf>,
) -> Result<u64, StoreError> {
    let options = InsertManyOptions::builder().ordered(false).write_concern(durable(MAJORITY)).build();
    collection.insert_many(&batch).with_options(options).await.map_err(write_failed)?;
    Ok(batch.len() as u64)
}

/// The documents of a file, in batches with a limit.
struct Batches {
    documents: DocumentReader<std::fs::File>,
    /// The document that did not fit into the last batch.
    next: Option<RawDocumentBuf>,
}

impl Batches {
    fn document(&mut self) -> io::Result<Option<RawDocumentBuf>> {
        if let Some(next) = self.next.take() {
            return Ok(Some(next));
        }
        let Some(document) = self.documents.next().transpose()? else { return Ok(None) };
        RawDocumentBuf::from_bytes(document).map(Some).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn batch(&mut self) -> io::Result<Vec<RawDocumentBuf>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_DOCUMENTS
            && let Some(document) = self.document()?
        {
            bytes += document.as_bytes().len();
            if bytes > BATCH_BYTES && !batch.is_empty() {
                self.next = Some(document);
                break;
            }
            batch.push(document);
        }
        Ok(batch)
    }
}

impl Iterator for Batches {
    type Item = io::Result<Vec<RawDocumentBuf>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batch().map(|batch| (!batch.is_empty()).then_some(batch)).transpose()
    }
}
