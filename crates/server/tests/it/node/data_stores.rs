//! A MongoDB node's database and keyspace are reused by later nodes. Hundreds of them would fill the servers'
//! memory.

#[path = "../../../../store-cluster/tests/it/server/lent_stores.rs"]
mod lent_stores;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Mutex,
};

pub(crate) use lent_stores::LentStores;

/// The stores by data folder, while a node runs or another node may use the folder: the same data folder has
/// the same stores.
static LENT: Mutex<Option<HashMap<PathBuf, LentStores>>> = Mutex::new(None);

/// A node's stores, until the node is dropped.
pub struct DataStores {
    data: PathBuf,
    pub(crate) stores: LentStores,
}

impl DataStores {
    /// Returns this data folder's stores, or else empty stores.
    pub async fn of(data: &Path, mongodb: &str, cql: Option<&str>) -> Self {
        let known = LENT.lock().unwrap().get_or_insert_default().get(data).cloned();
        let stores = match known {
            Some(stores) => stores,
            None => LentStores::take(mongodb, cql).await,
        };
        LENT.lock().unwrap().get_or_insert_default().insert(data.to_owned(), stores.clone());
        Self { data: data.to_owned(), stores }
    }

    /// Keeps the stores for another node over the same data folder.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for DataStores {
    fn drop(&mut self) {
        LENT.lock().unwrap().get_or_insert_default().remove(&self.data);
        self.stores.clone().give_back();
    }
}
