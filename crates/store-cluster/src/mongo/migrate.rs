//! Migrations: command lists under `migrations/mongodb`, applied in order and noted in the collection
//! `migrations`. Every command is idempotent, so an interrupted migration is simply repeated, and two nodes
//! that both believe to hold the lock do no harm.

use std::{collections::BTreeSet, future::Future, time::Duration};

use async_trait::async_trait;
use kith_store::{Migration, Migrations, Outcome, StoreError, Timestamp, millis};
use mongodb::{
    bson::{DateTime, Document, RawDocument, doc},
    error::Error,
    options::ReturnDocument,
};
use tokio::time::Instant;

use super::{
    command::{durable_document, run_write},
    database::{MIGRATIONS, Mongo},
    document::number_in,
    error::{code, is_duplicate, malformed, out_of_time, read_failed, write_failed},
};

/// Each migration's number, name and commands, by number.
const KNOWN: [(u32, &str, &str); 21] = [
    (1, "users and groups", include_str!("../../../../migrations/mongodb/0001_users_and_groups.json")),
    (2, "node", include_str!("../../../../migrations/mongodb/0002_node.json")),
    (3, "leases", include_str!("../../../../migrations/mongodb/0003_leases.json")),
    (4, "relations", include_str!("../../../../migrations/mongodb/0004_relations.json")),
    (5, "members", include_str!("../../../../migrations/mongodb/0005_members.json")),
    (6, "applications", include_str!("../../../../migrations/mongodb/0006_applications.json")),
    (7, "relation log", include_str!("../../../../migrations/mongodb/0007_relation_log.json")),
    (8, "bans", include_str!("../../../../migrations/mongodb/0008_bans.json")),
    (9, "messages", include_str!("../../../../migrations/mongodb/0009_messages.json")),
    (10, "member ranges", include_str!("../../../../migrations/mongodb/0010_member_ranges.json")),
    (11, "dialogs", include_str!("../../../../migrations/mongodb/0011_dialogs.json")),
    (12, "erasures", include_str!("../../../../migrations/mongodb/0012_erasures.json")),
    (13, "sequences", include_str!("../../../../migrations/mongodb/0013_sequences.json")),
    (14, "notices", include_str!("../../../../migrations/mongodb/0014_notices.json")),
    (15, "receipts", include_str!("../../../../migrations/mongodb/0015_receipts.json")),
    (16, "fan-out notes", include_str!("../../../../migrations/mongodb/0016_fan_out_notes.json")),
    (17, "user access", include_str!("../../../../migrations/mongodb/0017_user_access.json")),
    (18, "message times", include_str!("../../../../migrations/mongodb/0018_message_times.json")),
    (19, "group icons", include_str!("../../../../migrations/mongodb/0019_group_icons.json")),
    (20, "changes", include_str!("../../../../migrations/mongodb/0020_changes.json")),
    (21, "reactions", include_str!("../../../../migrations/mongodb/0021_reactions.json")),
];
/// The relation store's migrations.
const OF_RELATIONS: [i64; 6] = [4, 5, 6, 7, 8, 10];
const LOCK: &str = "lock";
/// Is there while a backup is being restored, in the migrations, which every program reads first.
const RESTORING: &str = "restoring";
const LEASE: Duration = Duration::from_secs(30);
const RENEW: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);
const NAMESPACE_EXISTS: i32 = 48;

#[async_trait]
impl Migrations for Mongo {
    async fn status(&self) -> Result<Vec<Migration>, StoreError> {
        if self.is_restoring().await? {
            return Err(StoreError::HalfRestored);
        }
        self.applied().await
    }

    async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        if self.status().await?.iter().all(|migration| migration.applied.is_some()) {
            return Ok(Vec::new());
        }
        let owner: i64 = rand::random();
        self.lock(owner).await?;
        let result = self.with_lease(owner, self.apply_pending()).await;
        let released = self.migrations.delete_one(doc! { "_id": LOCK, "owner": owner }).await;
        if released.is_err() {
            tracing::warn!("the lock of the migrations was not released; it runs out by itself");
        }
        result
    }

    async fn restore_indexes(&self) -> Result<(), StoreError> {
        for migration in self.applied().await?.into_iter().filter(|migration| migration.applied.is_some()) {
            for command in commands(migration.number)? {
                self.run(command).await?;
            }
        }
        Ok(())
    }
}

/// The collections, by the migrations that create them.
pub(super) fn collections() -> BTreeSet<String> {
    let commands = KNOWN.iter().flat_map(|(number, ..)| commands(*number).unwrap_or_default());
    let created = commands.filter_map(|command| command.get_str("create").ok().map(str::to_owned));
    created.chain([MIGRATIONS.to_owned()]).collect()
}

/// The number of the newest migration that this program knows.
pub(super) fn newest_migration() -> u32 {
    KNOWN.last().map_or(0, |(number, ..)| *number)
}

impl Mongo {
    /// Whether a restore has begun and not ended.
    pub(super) async fn is_restoring(&self) -> Result<bool, StoreError> {
        Ok(self.find_one(&self.migrations, doc! { "_id": RESTORING }).await?.is_some())
    }

    /// Notes that a restore begins: until it has ended, no node starts.
    pub(super) async fn begin_restoring(&self) -> Result<(), StoreError> {
        self.upsert(
            &self.migrations,
            doc! { "_id": RESTORING },
            doc! { "$set": { "at": Timestamp::now().0 } }.into(),
        )
        .await
        .map(drop)
    }

    pub(super) async fn end_restoring(&self) -> Result<(), StoreError> {
        self.migrations.delete_one(doc! { "_id": RESTORING }).await.map(drop).map_err(write_failed)
    }

    /// All known migrations, as they are noted.
    pub(super) async fn applied(&self) -> Result<Vec<Migration>, StoreError> {
        let mut all: Vec<Migration> = KNOWN
            .iter()
            .map(|(number, name, _)| Migration { number: *number, name: (*name).to_owned(), applied: None })
            .collect();
        let filter = doc! { "_id": { "$type": "number" } };
        let mut applied = self.migrations.find(filter).sort(doc! { "_id": -1 }).await.map_err(read_failed)?;
        let newest = all.last().map_or(0, |newest| newest.number);
        while applied.advance().await.map_err(read_failed)? {
            let (number, at) = noted(applied.current())?;
            if let Some(found) = u32::try_from(number).ok().filter(|number| *number > newest) {
                let name = applied.current().get_str("name").unwrap_or_default().to_owned();
                return Err(StoreError::NewerSchema { found, name, known: newest });
            }
            let known = all.iter_mut().find(|migration| i64::from(migration.number) == number);
            let known = known.ok_or_else(|| malformed("migrations"))?;
            known.applied =
                Some(at).filter(|_| !OF_RELATIONS.contains(&number) || self.has_relations(applied.current()));
        }
        Ok(all)
    }

    async fn apply_pending(&self) -> Result<Vec<Migration>, StoreError> {
        let mut done = Vec::new();
        for migration in self.status().await?.into_iter().filter(|migration| migration.applied.is_none()) {
            for command in commands(migration.number)? {
                self.run(command).await?;
            }
            if let Some(relations) = self.relations.get() {
                relations.client.apply(migration.number).await?;
            }
            done.push(self.note(migration).await?);
        }
        Ok(done)
    }

    async fn run(&self, mut command: Document) -> Result<(), StoreError> {
        command.insert("writeConcern", durable_document(self.options.migration_wait));
        match run_write(&self.database, command).await {
            Ok(_) => Ok(()),
            Err(error) if code(&error) == Some(NAMESPACE_EXISTS) => Ok(()),
            Err(error) => Err(write_failed(error)),
        }
    }

    async fn note(&self, migration: Migration) -> Result<Migration, StoreError> {
        let at = Timestamp::now();
        let id = doc! { "_id": i64::from(migration.number) };
        let mut note = doc! { "name": &*migration.name, "at": at.0 };
        if let Some(relations) = self.relations.get() {
            note.insert("keyspace", relations.client.keyspace_name());
        }
        match self.migrations.update_one(id, doc! { "$set": note }).upsert(true).await {
            Ok(_) => Ok(Migration { applied: Some(at), ..migration }),
            Err(error) if is_duplicate(&error) => Ok(Migration { applied: Some(at), ..migration }),
            Err(error) => Err(write_failed(error)),
        }
    }

    /// Whether the relation tables were created, too, in the configured keyspace, if there is any.
    fn has_relations(&self, note: &RawDocument) -> bool {
        self.relations.get().is_none_or(|relations| {
            note.get_str("keyspace").is_ok_and(|name| name == relations.client.keyspace_name())
        })
    }

    /// Waits for the lock.
    async fn lock(&self, owner: i64) -> Result<(), StoreError> {
        let give_up = Instant::now() + self.options.migration_wait;
        loop {
            match self.take_lock(owner).await {
                Ok(true) => return Ok(()),
                Err(error) if !is_duplicate(&error) => return Err(write_failed(error)),
                Ok(false) | Err(_) if Instant::now() >= give_up => {
                    return Err(out_of_time(Outcome::NotApplied));
                }
                Ok(false) | Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// Takes the lock if it is free, by the server's clock, which all nodes share.
    async fn take_lock(&self, owner: i64) -> Result<bool, Error> {
        let never = DateTime::from_millis(0);
        let free = doc! { "$lte": [{ "$ifNull": ["$until", never] }, "$$NOW"] };
        let holder = doc! { "$cond": [free.clone(), owner, "$owner"] };
        let until = doc! { "$cond": [free, { "$add": ["$$NOW", lease()] }, "$until"] };
        let take = vec![doc! { "$set": { "owner": holder, "until": until } }];
        let lock = self.migrations.find_one_and_update(doc! { "_id": LOCK }, take).upsert(true);
        let held = lock.return_document(ReturnDocument::After).await?;
        Ok(held.is_some_and(|held| held.get_i64("owner").is_ok_and(|holder| holder == owner)))
    }

    /// Runs `work` while the lock is renewed; stops it when the lock is lost.
    async fn with_lease<T>(
        &self,
        owner: i64,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(RENEW) => self.renew(owner).await?,
            }
        }
    }

    async fn renew(&self, owner: i64) -> Result<(), StoreError> {
        let mine = doc! { "_id": LOCK, "owner": owner };
        let longer = vec![doc! { "$set": { "until": { "$add": ["$$NOW", lease()] } } }];
        let renewed = self.migrations.update_one(mine, longer).await.map_err(write_failed)?;
        if renewed.matched_count == 1 { Ok(()) } else { Err(StoreError::Overloaded) }
    }
}

fn lease() -> i64 {
    millis(LEASE)
}

fn noted(document: &RawDocument) -> Result<(i64, Timestamp), StoreError> {
    let number = number_in(document, "_id")?.ok_or_else(|| malformed("_id"))?;
    let at = number_in(document, "at")?.ok_or_else(|| malformed("at"))?;
    Ok((number, Timestamp(at)))
}

fn commands(number: u32) -> Result<Vec<Document>, StoreError> {
    let found = KNOWN.iter().find(|(known, ..)| *known == number);
    let (_, _, text) = found.ok_or_else(|| malformed("migration"))?;
    // Reads straight into documents, which keep the order of their fields: an index's field order matters.
    serde_json::from_str(text).map_err(|_| malformed("migration"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_readable_and_without_gaps() {
        for ((number, ..), expected) in KNOWN.iter().zip(1..) {
            assert_eq!(*number, expected);
            let is_of_relations = OF_RELATIONS.contains(&i64::from(*number));
            // Group and user fields that documents have when they are set.
            let needs_nothing = [15, 17, 19].contains(number);
            assert_eq!(commands(*number).unwrap().is_empty(), is_of_relations || needs_nothing);
        }
    }

    #[test]
    fn the_fields_of_an_index_keep_their_order() {
        let commands = commands(1).unwrap();
        let of_users = commands.iter().find(|command| command.get_str("createIndexes").is_ok()).unwrap();
        let email = of_users.get_array("indexes").unwrap()[1].as_document().unwrap();
        let fields: Vec<&str> = email.get_document("key").unwrap().keys().map(String::as_str).collect();
        assert_eq!(fields, ["email_key", "_id"]);
    }
}
