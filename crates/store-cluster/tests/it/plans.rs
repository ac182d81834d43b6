//! Every query of many documents walks an index in the order of the answer: it neither looks at all documents
//! nor sorts. The queries are those that the server saw, taken from its profiler, not copies of them.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::server;
use futures::TryStreamExt as _;
use kith_store::{GroupWords, Keyword, Stores, UserName};
use kith_store_cluster::MongoOptions;
use mongodb::{
    Database,
    bson::{Document, doc},
};

/// What the profiler noted of the finds in one collection.
async fn noted(database: &Database, collection: &str) -> Vec<Document> {
    let filter = doc! { "op": "query", "ns": format!("{}.{collection}", database.name()) };
    let notes = database.collection::<Document>("system.profile");
    notes.find(filter).await.unwrap().try_collect().await.unwrap()
}

/// Runs `work` under the profiler, and asserts that it read `collection` by these indexes alone.
async fn assert_walks((collection, indexes): (&str, &[&str]), work: impl AsyncFnOnce(&Stores)) {
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

async fn search(stores: &Stores, keyword: &str) {
    stores.users.search_users(&Keyword::new(keyword).unwrap(), None, 20).await.unwrap();
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_search_by_email_walks_the_indexes_of_names_and_emails() {
    assert_walks(("users", &[EMAIL, NAME]), async |stores| search(stores, "ann@example.org").await).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_search_by_phone_walks_the_indexes_of_names_and_phones() {
    assert_walks(("users", &[NAME, PHONE]), async |stores| search(stores, "+8613800138000").await).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_name_is_looked_up_by_its_unique_index() {
    let work = async |stores: &Stores| {
        stores.users.user_by_name(&UserName::new("ann").unwrap()).await.unwrap();
    };
    assert_walks(("users", &[NAME]), work).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn scans_walk_the_index_of_ids() {
    let work = async |stores: &Stores| {
        stores.users.scan_users(None, 20).await.unwrap();
    };
    assert_walks(("users", &[ID]), work).await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_search_of_groups_walks_the_indexes_of_names_and_tags() {
    let indexes =
        ["IXSCAN { name_keys: 1, visibility: 1, _id: 1 }", "IXSCAN { tag_keys: 1, visibility: 1, _id: 1 }"];
    let work = async |stores: &Stores| {
        stores.groups.search_groups(&GroupWords::exact_key("chess"), None, 20).await.unwrap();
    };
    assert_walks(("groups", &indexes), work).await;
}
