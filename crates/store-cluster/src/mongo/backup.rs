//! Takes a backup of both stores.

use std::{fs, path::Path};

use kith_store::{Migrations as _, NodeStore as _, StoreError};
use mongodb::{
    ClientSession,
    bson::{Document, RawDocumentBuf, doc},
    error::Error,
    options::{ReadConcern, SessionOptions},
};

use super::{
    connect::ClusterHandle,
    database::{MIGRATIONS, Mongo},
    error::{code, read_failed},
    migrate::collections,
};
use crate::backup::{
    BackupError, BackupFile, BackupManifest, BackupProgress, BackupStore, DocumentWriter, ReportProgress,
    begin_folder, end_folder, now,
};

/// The leases of nodes, and the marks of their background work.
pub(super) const LEASES: &str = "leases";
/// Codes by which a server says that it does not have the snapshot any more.
const SNAPSHOT_LOST: [i32; 2] = [239, 246];

impl ClusterHandle {
    /// Writes a backup of both stores to a new folder, which has its name only when it is complete. Nodes may
    /// serve meanwhile. `MongoDB` is copied as it is at one moment. The relations are read from that moment
    /// on, so that they may name a user or group that the other part lacks, and never the other way round;
    /// all rows of a partition are of one moment.
    ///
    /// # Errors
    /// See [`BackupError`]; then there is no backup.
    pub async fn back_up(
        &self,
        to: &Path,
        report: ReportProgress<'_>,
    ) -> Result<BackupManifest, BackupError> {
        let part = begin_folder(to)?;
        let written = self.write_backup(&part, report).await;
        if written.is_err() {
            fs::remove_dir_all(&part).ok();
        }
        let manifest = written?;
        end_folder(&part, to).map_err(BackupError::file(to))?;
        Ok(manifest)
    }

    async fn write_backup(
        &self,
        part: &Path,
        report: ReportProgress<'_>,
    ) -> Result<BackupManifest, BackupError> {
        let (mongo, began) = (&self.mongo, now());
        let (schema, epoch) = (mongo.schema().await?, mongo.epoch().await?.number);
        let mut snapshot = Snapshot::begin(mongo, part, report).await?;
        // The first read sets the moment, so that the relations can be read at once.
        let mut files = vec![snapshot.copy(MIGRATIONS).await?];
        let rest = async {
            for name in collections().into_iter().filter(|name| name != MIGRATIONS) {
                files.push(snapshot.copy(&name).await?);
            }
            Ok(files)
        };
        let relations = async {
            match mongo.relations.get() {
                Some(relations) => relations.client.back_up(part, report).await,
                None => Ok(Vec::new()),
            }
        };
        let (mut files, relations) = tokio::try_join!(rest, relations)?;
        files.extend(relations);
        if mongo.schema().await? != schema {
            return Err(BackupError::Migrated);
        }
        let kith = env!("CARGO_PKG_VERSION").to_owned();
        let manifest = BackupManifest {
            format: BackupManifest::FORMAT,
            kith,
            schema,
            epoch,
            began,
            ended: now(),
            files,
        };
        manifest.save(part).map_err(BackupError::file(part))?;
        Ok(manifest)
    }
}

impl Mongo {
    /// The newest applied migration.
    async fn schema(&self) -> Result<u32, StoreError> {
        let all = self.status().await?;
        Ok(all
            .iter()
            .filter(|migration| migration.applied.is_some())
            .map(|one| one.number)
            .max()
            .unwrap_or(0))
    }
}

/// What a backup has of a collection, and what a restore replaces. Leases say who works at the moment, so a
/// backup has only what outlives their holders: up to where the work has come. The lock of the migrations,
/// and the note about a restore, are not in it either.
pub(super) fn part_in_backup(collection: &str) -> Document {
    match collection {
        LEASES => doc! { "mark": { "$exists": true } },
        MIGRATIONS => doc! { "_id": { "$type": "number" } },
        _ => doc! {},
    }
}

/// Reads all collections as they were at the moment of the first read.
struct Snapshot<'a> {
    mongo: &'a Mongo,
    session: ClientSession,
    folder: &'a Path,
    report: ReportProgress<'a>,
}

impl<'a> Snapshot<'a> {
    async fn begin(
        mongo: &'a Mongo,
        folder: &'a Path,
        report: ReportProgress<'a>,
    ) -> Result<Self, BackupError> {
        let options = SessionOptions::builder().snapshot(true).build();
        let session = mongo.client.start_session().with_options(options).await.map_err(failed)?;
        Ok(Self { mongo, session, folder, report })
    }

    async fn copy(&mut self, name: &str) -> Result<BackupFile, BackupError> {
        let writing = |error| BackupError::file(self.folder.join(name))(error);
        let mut writer = DocumentWriter::create(self.folder, BackupStore::Mongodb, name).map_err(writing)?;
        let collection = self.mongo.database.collection::<RawDocumentBuf>(name);
        // Without it the session sends the connection's read concern, and every read has a moment of its own.
        let mut find = collection.find(part_in_backup(name)).read_concern(ReadConcern::snapshot());
        if name == LEASES {
            find = find.projection(doc! { "mark": 1 });
        }
        let mut found = find.session(&mut self.session).await.map_err(failed)?;
        while found.advance(&mut self.session).await.map_err(failed)? {
            let rows = writer.add(found.current().as_bytes()).map_err(writing)?;
            (self.report)(BackupProgress { name, rows });
        }
        writer.end().map_err(writing)
    }
}

fn failed(error: Error) -> BackupError {
    if code(&error).is_some_and(|code| SNAPSHOT_LOST.contains(&code)) {
        return BackupError::SnapshotTooOld;
    }
    read_failed(error).into()
}

#[cfg(test)]
mod tests {
    use mongodb::{bson::deserialize_from_document, error::ErrorKind};

    use super::*;
    use crate::mongo::{connect::driver_options, database::MongoOptions};

    #[tokio::test]
    #[ignore = "needs MongoDB: run cargo xtask test"]
    #[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
    async fn backup_lacks_what_comes_after_its_moment() {
        let uri = std::env::var("KITH_TEST_MONGODB").expect("KITH_TEST_MONGODB names a MongoDB replica set");
        let options = MongoOptions::new(uri, format!("kith_test_{}", uuid::Uuid::new_v4().simple()));
        let handle = ClusterHandle::over(driver_options(&options).await.unwrap(), options).unwrap();
        let (mongo, folder) = (&handle.mongo, tempfile::tempdir().unwrap());
        mongo.migrate().await.unwrap();
        let part = begin_folder(&folder.path().join("backup")).unwrap();
        let mut snapshot = Snapshot::begin(mongo, &part, &|_| {}).await.unwrap();
        snapshot.copy(MIGRATIONS).await.unwrap();
        mongo.database.collection::<Document>("users").insert_one(doc! { "_id": 7 }).await.unwrap();
        assert_eq!(snapshot.copy("users").await.unwrap().rows, 0);
        mongo.database.drop().await.unwrap();
    }

    #[test]
    fn lost_snapshot_says_what_to_raise() {
        let command = doc! { "code": 239, "codeName": "SnapshotTooOld", "errmsg": "gone" };
        let lost = ErrorKind::Command(deserialize_from_document(command).unwrap()).into();
        let line = failed(lost).to_string();
        assert!(line.contains("minSnapshotHistoryWindowInSeconds") && line.contains("mongodump"), "{line}");
    }
}
