//! Databases and keyspaces that one case uses after another: servers make and drop all those collections and
//! tables a hundred times as slowly as they empty them.

use std::{collections::VecDeque, sync::Mutex};

use mongodb::{
    Client, Database,
    bson::{Document, doc},
};
use scylla::client::{session::Session, session_builder::SessionBuilder};
use tokio::task::JoinSet;

/// The stores that are not in use, the longest free first: without relations, and with them.
static FREE: [Mutex<VecDeque<LentStores>>; 2] = [const { Mutex::new(VecDeque::new()) }; 2];
/// This many cases end before stores are used again: what their last case left under way is over by then.
const RESTING: usize = 3;
/// Migrations are noted here; everything that they made stays.
const MIGRATIONS: &str = "migrations";

/// A database without a document and, with relations, a keyspace without a row. Whether they have collections
/// and tables yet, a migration finds out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LentStores {
    pub(crate) database: String,
    pub(crate) keyspace: Option<String>,
}

impl LentStores {
    /// Takes stores at these addresses: a MongoDB's, and a Cassandra's if there is any.
    pub(crate) async fn take(mongodb: &str, cql: Option<&str>) -> Self {
        let rested = {
            let mut free = FREE[usize::from(cql.is_some())].lock().unwrap();
            if free.len() > RESTING { free.pop_front() } else { None }
        };
        match rested {
            Some(stores) => stores.emptied(mongodb, cql).await,
            None => Self::made(cql).await,
        }
    }

    /// Returns the stores for another case.
    pub(crate) fn give_back(self) {
        FREE[usize::from(self.keyspace.is_some())].lock().unwrap().push_back(self);
    }

    async fn made(cql: Option<&str>) -> Self {
        let name = new_name();
        if let Some(address) = cql {
            // Rows that need not survive a crash are dropped from memory, not written first.
            let text = format!(
                "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}} \
                 AND durable_writes = false"
            );
            session(address).await.query_unpaged(text, ()).await.unwrap();
        }
        Self { keyspace: cql.map(|_| name.clone()), database: name }
    }

    async fn emptied(self, mongodb: &str, cql: Option<&str>) -> Self {
        empty_database(Client::with_uri_str(mongodb).await.unwrap().database(&self.database)).await;
        if let (Some(address), Some(keyspace)) = (cql, &self.keyspace) {
            empty_keyspace(&session(address).await, keyspace).await;
        }
        self
    }
}

async fn empty_database(database: Database) {
    let mut emptying = JoinSet::new();
    for name in database.list_collection_names().await.unwrap() {
        if name != MIGRATIONS {
            let collection = database.collection::<Document>(&name);
            emptying.spawn(async move { collection.delete_many(doc! {}).await });
        }
    }
    while let Some(emptied) = emptying.join_next().await {
        emptied.unwrap().unwrap();
    }
}

async fn empty_keyspace(session: &Session, name: &str) {
    let text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
    let tables = session.query_unpaged(text, (name,)).await.unwrap().into_rows_result().unwrap();
    for table in tables.rows::<(String,)>().unwrap() {
        session.query_unpaged(format!("TRUNCATE {name}.{}", table.unwrap().0), ()).await.unwrap();
    }
}

/// A name that no other database or keyspace has.
pub(crate) fn new_name() -> String {
    format!("kith_test_{}", uuid::Uuid::new_v4().simple())
}

pub(crate) async fn session(address: &str) -> Session {
    SessionBuilder::new().known_node(address).fetch_full_schema_metadata(false).build().await.unwrap()
}
