//! What a node keeps in Cassandra, which is another test's afterwards.

#[path = "../../../store-cluster/tests/server/keyspaces.rs"]
mod keyspaces;

use std::{collections::HashMap, sync::Mutex};

use kith_server::config::{Backend, Config};

/// Those of nodes that were stopped, by the database that stands beside them.
static KEPT: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// Free for another node when it is dropped.
#[derive(Debug)]
pub(super) struct Keyspace {
    database: String,
    name: String,
}

impl Keyspace {
    /// The one of the node that had this database before, else an empty one; named in the configuration. None where the
    /// node has a file.
    pub(super) async fn of(config: &mut Config) -> Option<Self> {
        let address = config.store.cql.contact_points.first()?;
        if config.store.backend != Backend::Cluster {
            return None;
        }
        let database = config.store.mongodb.database.clone();
        let kept = KEPT.lock().unwrap().get_or_insert_default().remove(&database);
        let name = match kept {
            Some(name) => name,
            None => keyspaces::take(address).await,
        };
        config.store.cql.keyspace.clone_from(&name);
        Some(Self { database, name })
    }

    pub(super) fn keep(mut self) {
        let (database, name) = (std::mem::take(&mut self.database), std::mem::take(&mut self.name));
        KEPT.lock().unwrap().get_or_insert_default().insert(database, name);
    }
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            keyspaces::give_back(std::mem::take(&mut self.name));
        }
    }
}
