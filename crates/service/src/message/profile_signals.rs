//! Signals about changed profiles. They are no notes: a user whose friends change often would have no room in
//! its inbox for messages. A client reads profiles when it starts.

use std::sync::Arc;

use kith_store::UserId;
use tokio::sync::Semaphore;

use super::{Inboxes, Notes, receive};
use crate::{
    metric::SIGNALS,
    relation::{Blocks, Follows, newest_friends},
    user::ProfileListener,
};

/// Users that a user followed last, among whom its friends get a signal.
const FOLLOWED_MAX: usize = 200;
/// Changes that are signalled at the same time. Further signals are left out, so that a profile import does
/// not delay messages.
const AT_ONCE: usize = 8;

/// Sends signals about changed profiles. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProfileSignals {
    inboxes: Inboxes,
    relations: Option<(Follows, Blocks)>,
    permits: Arc<Semaphore>,
}

impl ProfileSignals {
    /// Creates it over the inboxes in `notes`. `relations`: the users' relations; without them only a user's
    /// own devices get a signal.
    #[must_use]
    pub fn new(notes: &Notes, relations: Option<(Follows, Blocks)>) -> Self {
        Self { inboxes: notes.inboxes.clone(), relations, permits: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    async fn signal(&self, user: UserId) {
        let friends = match &self.relations {
            // If they cannot be read, the user's own devices get it.
            Some((follows, blocks)) => {
                newest_friends(follows, blocks, user, FOLLOWED_MAX).await.unwrap_or_default()
            }
            None => Vec::new(),
        };
        let users = friends.into_iter().chain([user]).collect();
        metrics::counter!(SIGNALS.name, "kind" => "profile").increment(1);
        self.inboxes.signal(users, &receive::profile_to_bytes(user));
    }
}

impl ProfileListener for ProfileSignals {
    fn profile_changed(&self, user: UserId) {
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else { return };
        let this = self.clone();
        tokio::spawn(async move {
            this.signal(user).await;
            drop(permit);
        });
    }
}
