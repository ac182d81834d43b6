//! Keyspaces that one case uses after another: a server makes and drops all those tables a hundred times as slowly
//! as it empties them.

use std::{collections::VecDeque, sync::Mutex};

use scylla::client::{session::Session, session_builder::SessionBuilder};

/// Keyspaces that are not in use, the one that has been free the longest first.
static FREE: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// So many cases end before a keyspace is used again: what its last case left under way is over by then.
const RESTING: usize = 3;

/// The name of a keyspace without a row. Whether it has tables yet, a migration finds out.
pub(super) async fn take(address: &str) -> String {
    let session = session(address).await;
    let rested = {
        let mut free = FREE.lock().unwrap();
        if free.len() > RESTING { free.pop_front() } else { None }
    };
    match rested {
        Some(name) => emptied(&session, name).await,
        None => made(&session).await,
    }
}

/// For another case.
pub(super) fn give_back(name: String) {
    FREE.lock().unwrap().push_back(name);
}

/// Rows that need not survive a crash are dropped from memory, not written first.
async fn made(session: &Session) -> String {
    let name = format!("kith_test_{}", uuid::Uuid::new_v4().simple());
    let text = format!(
        "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}} \
         AND durable_writes = false"
    );
    session.query_unpaged(text, ()).await.unwrap();
    name
}

async fn emptied(session: &Session, name: String) -> String {
    let text = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
    let tables = session.query_unpaged(text, (&name,)).await.unwrap().into_rows_result().unwrap();
    for table in tables.rows::<(String,)>().unwrap() {
        session.query_unpaged(format!("TRUNCATE {name}.{}", table.unwrap().0), ()).await.unwrap();
    }
    name
}

async fn session(address: &str) -> Session {
    SessionBuilder::new().known_node(address).fetch_full_schema_metadata(false).build().await.unwrap()
}
