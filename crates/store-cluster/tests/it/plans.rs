//! Every query for many documents walks an index in the order of the answer: it neither looks at all
//! documents nor sorts. The queries are those that the server saw, taken from its profiler, not copies.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::server;
use futures::TryStreamExt as _;
use kith_store::{
    ConversationId, Dialog, DialogKey, DialogList, GroupId, GroupWords, Keyword, Stores, Timestamp, UserId,
    UserName,
};
use kith_store_cluster::MongoOptions;
use mongodb::{
    Database,
    bson::{Document, doc},
};

/// The profiler's notes about finds in one collection.
async fn noted(database: &Database, collection: &str) -> Vec<Document> {
    let filter = doc! { "op": "query", "ns": format!("{}.{collection}", database.name()) };
    let notes = database.collection::<Document>("system.profile");
    notes.find(filter).await.unwrap().try_collect().await.unwrap()
}

/// Runs `work` under the profiler, and asserts that it read `collection` by these indexes alone.
async fn assert_walks(collection: &str, indexes: &[&str], work: impl AsyncFnOnce(&Stores)) {
    let options: MongoOptions = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let database = server::database(&options).await;
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    work(&stores).await;
    let notes = noted(&database, collection).await;
    let mut plans: Vec<&str> = notes.iter().map(|note| note.get_str("planSummary").unwrap()).collect();
    plans.sort_unstable();
    assert_eq!(plans, indexes);
    for note in &notes {
        assert!(!note.contains_key("hasSortStage"), "{note}");
    }
}

const PHONE: &str = "IXSCAN { phone: 1, _id: 1 }";
const EMAIL: &str = "IXSCAN { email_key: 1, _id: 1 }";
const NAME: &str = "IXSCAN { name_key: 1 }";
const ID: &str = "IXSCAN { _id: 1 }";

const RECENT: &str = "IXSCAN { _id.u: 1, day: -1, _id.c: -1 }";

async fn search(stores: &Stores, keyword: &str) {
    stores.users.search_users(&Keyword::new(keyword).unwrap(), None, 20).await.unwrap();
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn search_by_email_uses_two_indexes() {
    assert_walks("users", &[EMAIL, NAME], async |stores| search(stores, "ann@example.org").await).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn search_by_phone_uses_two_indexes() {
    assert_walks("users", &[NAME, PHONE], async |stores| search(stores, "+8613800138000").await).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_name_is_looked_up_by_its_unique_index() {
    let work = async |stores: &Stores| {
        stores.users.user_by_name(&UserName::new("ann").unwrap()).await.unwrap();
    };
    assert_walks("users", &[NAME], work).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn scans_walk_the_index_of_ids() {
    let work = async |stores: &Stores| {
        stores.users.scan_users(None, 20).await.unwrap();
    };
    assert_walks("users", &[ID], work).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn search_of_groups_uses_two_indexes() {
    let indexes =
        ["IXSCAN { name_keys: 1, visibility: 1, _id: 1 }", "IXSCAN { tag_keys: 1, visibility: 1, _id: 1 }"];
    let work = async |stores: &Stores| {
        stores.groups.search_groups(&GroupWords::exact_key("chess"), None, 20).await.unwrap();
    };
    assert_walks("groups", &indexes, work).await;
}

fn user() -> UserId {
    UserId::new(7).unwrap()
}

/// Dialogs on one day.
fn dialogs(count: i64) -> Vec<DialogKey> {
    let group = |id| ConversationId::Group(GroupId::new(id).unwrap());
    (1..=count).map(|id| DialogKey { user: user(), conversation: group(id) }).collect()
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn dialogs_are_read_by_their_ids() {
    let work = async |stores: &Stores| {
        stores.dialogs.dialogs(&dialogs(3)).await.unwrap();
        stores.dialogs.dialog_conversations(user(), None, 20).await.unwrap();
        stores.dialogs.dialog_conversations(user(), Some("g9".parse().unwrap()), 20).await.unwrap();
    };
    assert_walks("dialogs", &[ID, ID, ID], work).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn conversations_are_read_by_their_ids() {
    let ids = ["g8", "g9"].map(|id| id.parse().unwrap());
    let work = async |stores: &Stores| drop(stores.conversations.conversations(&ids).await.unwrap());
    assert_walks("conversations", &[ID], work).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn lists_of_dialogs_walk_the_index_of_days() {
    let work = async |stores: &Stores| {
        for list in [DialogList::All, DialogList::Direct] {
            stores.dialogs.dialog_list(user(), list, None, 20).await.unwrap();
        }
    };
    assert_walks("dialogs", &[RECENT, RECENT], work).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn deep_page_of_dialogs_reads_no_entry_before_it() {
    let options: MongoOptions = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    stores.dialogs.make_dialogs(&dialogs(200), Timestamp::now()).await.unwrap();
    let first = stores.dialogs.dialog_list(user(), DialogList::All, None, 150).await.unwrap();
    let database = server::database(&options).await;
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    let after = first.last().map(Dialog::position);
    assert_eq!(stores.dialogs.dialog_list(user(), DialogList::All, after, 5).await.unwrap().len(), 5);
    for note in noted(&database, "dialogs").await {
        let keys = note.get_i32("keysExamined").unwrap();
        assert!(keys <= 6, "{note}");
    }
}
