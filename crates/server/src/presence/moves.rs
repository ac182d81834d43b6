//! Who joined or left groups: told by members, for who of them is online.

use std::time::Duration;

use kith_store::{GroupId, UserId};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::metric;

/// Changes that may wait. Those beyond are made up for where it is listed who is online in the group, and joins by the next
/// change of each user.
const WAITING_MAX: usize = 10_000;

/// Some users joined a group or left it.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(super) group: GroupId,
    pub(super) users: Vec<UserId>,
    /// Dropped once it is dealt with.
    pub(super) done: oneshot::Sender<()>,
}

/// Tells of them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Moves {
    tell: mpsc::Sender<Moved>,
    wait: Duration,
}

/// What tells, and waits at most so long until it is dealt with; and what is told.
pub(crate) fn moves(wait: Duration) -> (Moves, mpsc::Receiver<Moved>) {
    let (tell, told) = mpsc::channel(WAITING_MAX);
    (Moves { tell, wait }, told)
}

impl Moves {
    /// To be called once the change stands.
    pub(crate) async fn tell(&self, group: GroupId, users: Vec<UserId>) {
        let (done, dealt_with) = oneshot::channel();
        if self.tell.try_send(Moved { group, users, done }).is_err() {
            metrics::counter!(metric::PRESENCE_MOVES_DROPPED.name).increment(1);
            return;
        }
        // It goes on.
        drop(timeout(self.wait, dealt_with).await);
    }
}
