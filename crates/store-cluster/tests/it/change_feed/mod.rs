//! MongoDB's change feed: changes by the stores, and by hand.

mod appends;
mod by_hand;
mod damaged;
mod dialogs;
mod leased;
mod lost;
mod marks;
mod messages;
mod proxy;
mod unavailable;
mod writes;

use std::{sync::Arc, time::Duration};

use kith_store::{
    Applied, ChangeFeed, FeedChange, FeedError, FeedRecord, FeedStream, NewGroup, NewUser, Stores, Timestamp,
    User, UserPatch, Version,
    conformance::sample::{bare_group, bare_user, group_id, tags, user_id, version, write},
};
use kith_store_cluster::MongoOptions;
use mongodb::{
    Collection, Database,
    bson::{Document, doc},
};
use tokio::time::{Instant, timeout};

use crate::server::{self, DatabaseGuard};

/// No change takes this long.
const BOUND: Duration = Duration::from_secs(30);
/// How long the tests wait where nothing is expected.
const QUIET: Duration = Duration::from_millis(1500);

/// Stores in a fresh database, and the driver's own view.
struct Stage {
    stores: Stores,
    feed: Arc<dyn ChangeFeed>,
    database: Database,
    options: MongoOptions,
    _cleaning: DatabaseGuard,
}

impl Stage {
    async fn open() -> Self {
        Self::open_with(server::options()).await
    }

    async fn open_with(options: MongoOptions) -> Self {
        let (stores, cleaning) = server::open_with(options.clone()).await;
        let database = server::database(&options).await;
        let feed = Arc::clone(&stores.feeds[0].feed);
        Self { stores, feed, database, options, _cleaning: cleaning }
    }

    /// The collection in which a person would edit.
    fn documents(&self, collection: &str) -> Collection<Document> {
        self.database.collection(collection)
    }

    async fn document(&self, id: i64) -> Document {
        self.documents("users").find_one(doc! { "_id": id }).await.unwrap().unwrap()
    }

    async fn user(&self, id: i64) -> User {
        self.stores.users.user(user_id(id)).await.unwrap().live().unwrap()
    }

    async fn create(&self, id: i64) -> Version {
        let made = self.stores.users.create_user(new_user(id, &format!("user-{id}")), write()).await;
        version_of(&made.unwrap())
    }

    async fn update(&self, id: i64, age: u8) -> Version {
        let older = UserPatch { age: Some(age), ..UserPatch::default() };
        version_of(&self.stores.users.update_user(user_id(id), older, write()).await.unwrap())
    }

    async fn release(&self, id: i64) {
        self.stores.users.release_id(user_id(id), Timestamp::now()).await.unwrap();
    }

    async fn delete(&self, id: i64, name_free_at: Timestamp) -> Version {
        self.stores.users.delete_user(user_id(id), name_free_at, write()).await.unwrap().record
    }
}

/// An open feed, and how far it was read.
struct Reader {
    changes: Box<dyn FeedStream>,
    mark: Vec<u8>,
}

impl Reader {
    async fn open(feed: &Arc<dyn ChangeFeed>, after: Option<&[u8]>) -> Self {
        let mut changes = feed.open(after).await.unwrap();
        let mark = match after {
            Some(mark) => mark.to_vec(),
            // A feed that begins now has delivered nothing yet.
            None => changes.next(Duration::ZERO).await.unwrap().mark,
        };
        Self { changes, mark }
    }

    /// Reads until this many changes were delivered; more are an error.
    async fn take(&mut self, count: usize) -> Vec<FeedChange> {
        let (mut delivered, give_up) = (Vec::new(), Instant::now() + BOUND);
        while delivered.len() < count {
            assert!(
                Instant::now() < give_up,
                "{count} changes are awaited, and these were delivered: {delivered:?}"
            );
            delivered.extend(self.next(QUIET).await.unwrap());
        }
        assert_eq!(delivered.len(), count, "{delivered:?}");
        delivered
    }

    /// Reads until this change is delivered, and returns all changes.
    async fn take_until(&mut self, last: FeedChange) -> Vec<FeedChange> {
        let (mut delivered, give_up) = (Vec::new(), Instant::now() + BOUND);
        while !delivered.contains(&last) {
            assert!(Instant::now() < give_up, "{last:?} is awaited, and these were delivered: {delivered:?}");
            delivered.extend(self.next(QUIET).await.unwrap());
        }
        delivered
    }

    async fn next(&mut self, patience: Duration) -> Result<Vec<FeedChange>, FeedError> {
        let batch = self.changes.next(patience).await?;
        assert!(batch.changes.len() <= kith_store::FEED_BATCH_MAX);
        self.mark = batch.mark;
        Ok(batch.changes)
    }

    /// Reads a change by hand, and that by which the feed gave the record a version. Returns the version.
    async fn given(&mut self, record: FeedRecord) -> Version {
        let changes = self.take(2).await;
        let stamp = FeedChange { record, version: changes[1].version, by_hand: false };
        assert_eq!(changes, [FeedChange { by_hand: true, ..stamp }, stamp]);
        stamp.version.unwrap()
    }

    async fn assert_quiet(&mut self) {
        assert_eq!(self.next(QUIET).await.unwrap(), []);
    }

    /// Reads on until the feed ends.
    async fn end(&mut self) -> FeedError {
        let end = async {
            loop {
                if let Err(error) = self.next(QUIET).await {
                    return error;
                }
            }
        };
        timeout(BOUND, end).await.unwrap()
    }
}

/// A change that this program made.
fn of_user(id: i64, version: Version) -> FeedChange {
    FeedChange { record: FeedRecord::User(user_id(id)), version: Some(version), by_hand: false }
}

fn of_group(id: i64, version: Version) -> FeedChange {
    let record = FeedRecord::Group(group_id(id));
    FeedChange { record, version: Some(version), by_hand: false }
}

fn version_of(applied: &Applied<User>) -> Version {
    applied.record.version
}

fn new_user(id: i64, name: &str) -> NewUser {
    NewUser { nick_name: "nick".into(), age: 7, ..bare_user(id, name) }
}

fn new_group(id: i64) -> NewGroup {
    NewGroup { tags: tags(&["a", "b", "c"]), ..bare_group(id, "chess") }
}
