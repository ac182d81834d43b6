//! Notifies other domains about changed profiles.

use std::{
    fmt::Debug,
    sync::{Arc, OnceLock},
};

use kith_store::UserId;

/// Is notified when a user was changed by UpdateUser: within the call, after it is stored. A repeated request
/// notifies again.
pub trait ProfileListener: Debug + Send + Sync {
    /// This user's profile has changed. Does not block.
    fn profile_changed(&self, user: UserId);
}

/// A listener in a domain above users, which is made after them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct LateListener(Arc<OnceLock<Arc<dyn ProfileListener>>>);

impl LateListener {
    /// Notifies this listener from now on. A second call changes nothing.
    pub(super) fn set(&self, listener: Arc<dyn ProfileListener>) {
        self.0.get_or_init(|| listener);
    }

    pub(super) fn profile_changed(&self, user: UserId) {
        if let Some(listener) = self.0.get() {
            listener.profile_changed(user);
        }
    }
}
