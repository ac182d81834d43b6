//! Keyspaces of nodes: each has one of its own, which another node uses after it. Hundreds of them would fill the memory of the
//! server.

#[path = "../../../../store-cluster/tests/it/server/keyspaces.rs"]
mod keyspaces;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Mutex,
};

/// Of nodes that run, or whose data folder another node may use: the same data folder is the same keyspace.
static LENT: Mutex<Option<HashMap<PathBuf, String>>> = Mutex::new(None);

/// The keyspace of a node, until the node is dropped.
pub struct LentKeyspace {
    data: PathBuf,
    pub name: String,
}

impl LentKeyspace {
    /// That of this data folder, or else an empty one.
    pub async fn of(data: &Path, address: &str) -> Self {
        let known = LENT.lock().unwrap().get_or_insert_default().get(data).cloned();
        let name = match known {
            Some(name) => name,
            None => keyspaces::take(address).await,
        };
        LENT.lock().unwrap().get_or_insert_default().insert(data.to_owned(), name.clone());
        Self { data: data.to_owned(), name }
    }

    /// For another node over the same data folder.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for LentKeyspace {
    fn drop(&mut self) {
        LENT.lock().unwrap().get_or_insert_default().remove(&self.data);
        keyspaces::give_back(std::mem::take(&mut self.name));
    }
}
