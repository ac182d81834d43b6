//! A group store that replaces a node's. It counts searches, can hold a search, and can lose a write's
//! answer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kith_proto::group::v1::group_service_client::GroupServiceClient;
use kith_server::{config::Config, edge::Edge};
use kith_store::*;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::store_over::store_over;
use crate::{bare_node, broken_store};

/// Holds a search between its read and its answer.
pub(crate) struct HeldSearch {
    pub(crate) reached: oneshot::Receiver<()>,
    pub(crate) release: oneshot::Sender<()>,
}

/// The module describes it.
#[derive(Debug)]
pub(crate) struct CountingGroupStore {
    inner: Arc<dyn GroupStore>,
    searches: AtomicUsize,
    held: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
    loses: Mutex<bool>,
}

/// Makes a node without a network over such a store. The handle keeps the store open.
pub(crate) async fn node()
-> (GroupServiceClient<Edge>, Arc<CountingGroupStore>, kith_store_sqlite::SqliteHandle) {
    let file = kith_store_sqlite::open_in_memory().await.unwrap();
    let mut stores = file.stores();
    let listed = Arc::new(CountingGroupStore {
        inner: Arc::clone(&stores.groups),
        searches: AtomicUsize::new(0),
        held: Mutex::default(),
        loses: Mutex::default(),
    });
    stores.groups = Arc::<CountingGroupStore>::clone(&listed);
    let (edge, _) = bare_node::serve(&stores, &Config::default()).await;
    (GroupServiceClient::new(edge), listed, file)
}

impl CountingGroupStore {
    pub(crate) fn searches(&self) -> usize {
        self.searches.load(Ordering::SeqCst)
    }

    pub(crate) fn hold_search(&self) -> HeldSearch {
        let ((reach, reached), (release, released)) = (oneshot::channel(), oneshot::channel());
        *self.held.lock() = Some((reach, released));
        HeldSearch { reached, release }
    }

    /// Lets the next write land and loses its answer.
    pub(crate) fn lose_answer(&self) {
        *self.loses.lock() = true;
    }

    fn answer<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if std::mem::take(&mut *self.loses.lock()) {
            return Err(broken_store::away(Outcome::Unknown));
        }
        answer
    }
}

store_over! {
    GroupStore for CountingGroupStore by inner {
        async fn search_groups(
            &self,
            key: &str,
            after: Option<GroupId>,
            limit: usize,
        ) -> Result<Vec<Group>, StoreError> {
            self.searches.fetch_add(1, Ordering::SeqCst);
            let found = self.inner.search_groups(key, after, limit).await;
            let held = self.held.lock().take();
            if let Some((reach, released)) = held {
                reach.send(()).unwrap();
                released.await.unwrap();
            }
            found
        }

        async fn create_group(&self, group: NewGroup, write: Write) -> Result<Applied<Group>, StoreError> {
            self.answer(self.inner.create_group(group, write).await)
        }

        async fn update_group(
            &self,
            id: GroupId,
            patch: GroupPatch,
            write: Write,
        ) -> Result<Applied<Group>, StoreError> {
            self.answer(self.inner.update_group(id, patch, write).await)
        }

        async fn dismiss_group(&self, id: GroupId, write: Write) -> Result<Applied<Version>, StoreError> {
            self.answer(self.inner.dismiss_group(id, write).await)
        }
    }
    fn group(id: GroupId) -> Stored<Group>;
    fn groups(ids: &[GroupId]) -> Vec<(GroupId, Stored<Group>)>;
    fn scan_groups(after: Option<GroupId>, limit: usize) -> Vec<Group>;
}
