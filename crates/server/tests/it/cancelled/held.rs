//! A user store that can be held around its commit, and whose answers can be lost.

use std::sync::Arc;

use kith_store::*;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{broken_store, store_over::store_over};

/// The moment at which a write waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldPoint {
    BeforeCommit,
    AfterCommit,
}

/// Controls the store.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    at: Mutex<Option<HoldPoint>>,
    /// `Some(landed)`: the next write's answer is lost, after its commit if true, else before.
    lost: Mutex<Option<bool>>,
    reached: Notify,
    released: Notify,
}

impl Hold {
    /// Puts this hold over a store.
    pub(crate) fn over(self: &Arc<Self>, inner: &Arc<dyn UserStore>) -> Arc<dyn UserStore> {
        Arc::new(HeldUserStore { hold: Arc::clone(self), inner: Arc::clone(inner) })
    }

    /// Makes the next write wait at this moment.
    pub(crate) fn at(&self, moment: HoldPoint) {
        *self.at.lock() = Some(moment);
    }

    /// Loses the next write's answer.
    pub(crate) fn lose_answer(&self, landed: bool) {
        *self.lost.lock() = Some(landed);
    }

    /// Waits until a write waits.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets the write go on.
    pub(crate) fn release(&self) {
        self.released.notify_one();
    }

    async fn pass(&self, moment: HoldPoint) {
        let held = self.at.lock().take_if(|at| *at == moment).is_some();
        if held {
            self.reached.notify_one();
            self.released.notified().await;
        }
    }

    async fn around<T>(
        &self,
        write: impl Future<Output = Result<Applied<T>, StoreError>> + Send,
    ) -> Result<Applied<T>, StoreError> {
        let lost = self.lost.lock().take();
        if lost == Some(false) {
            return Err(broken_store::away(Outcome::Unknown));
        }
        self.pass(HoldPoint::BeforeCommit).await;
        let applied = write.await;
        self.pass(HoldPoint::AfterCommit).await;
        if lost == Some(true) { Err(broken_store::away(Outcome::Unknown)) } else { applied }
    }
}

#[derive(Debug)]
struct HeldUserStore {
    hold: Arc<Hold>,
    inner: Arc<dyn UserStore>,
}

store_over! {
    UserStore for HeldUserStore by inner {
        async fn create_user(&self, user: NewUser, write: Write) -> Result<Applied<User>, StoreError> {
            self.hold.around(self.inner.create_user(user, write)).await
        }

        async fn update_user(
            &self,
            id: UserId,
            patch: UserPatch,
            write: Write,
        ) -> Result<Applied<User>, StoreError> {
            self.hold.around(self.inner.update_user(id, patch, write)).await
        }

        async fn delete_user(
            &self,
            id: UserId,
            name_free_at: Timestamp,
            write: Write,
        ) -> Result<Applied<Version>, StoreError> {
            self.hold.around(self.inner.delete_user(id, name_free_at, write)).await
        }
    }
    fn user(id: UserId) -> Stored<User>;
    fn users(ids: &[UserId]) -> Vec<(UserId, Stored<User>)>;
    fn user_by_name(name: &UserName) -> Option<User>;
    fn search_users(keyword: &Keyword, after: Option<UserId>, limit: usize) -> Vec<User>;
    fn scan_users(after: Option<UserId>, limit: usize) -> Vec<User>;
    fn release_id(id: UserId, deleted: Timestamp) -> ();
}
