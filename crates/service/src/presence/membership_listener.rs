//! The listener of presence: joins and leaves change which members of a group are online.

use std::time::Duration;

use async_trait::async_trait;
use kith_store::{GroupId, UserId};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    error::Error,
    group::members::{MembershipEvent, MembershipListener},
    metric,
};

/// Changes that may wait. Those beyond are made up for where it is listed who is online in the group, and joins by the next
/// change of each user.
const WAITING_MAX: usize = 10_000;

/// Some users joined a group or left it.
#[derive(Debug)]
pub struct Moved {
    pub(super) group: GroupId,
    pub(super) users: Vec<UserId>,
    /// Dropped once it is dealt with.
    pub(super) done: oneshot::Sender<()>,
}

/// Passes joins and leaves on to presence.
#[derive(Debug)]
pub struct Moves {
    tell: mpsc::Sender<Moved>,
    wait: Duration,
}

/// The listener, which waits at most `wait` until presence has handled a change, and the changes that it passes on.
pub fn moves(wait: Duration) -> (Moves, mpsc::Receiver<Moved>) {
    let (tell, told) = mpsc::channel(WAITING_MAX);
    (Moves { tell, wait }, told)
}

#[async_trait]
impl MembershipListener for Moves {
    /// Waits until the change is dealt with, but no longer than is configured.
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error> {
        let (MembershipEvent::Joined { group, users, .. } | MembershipEvent::Left { group, users, .. }) =
            event
        else {
            return Ok(());
        };
        let (group, users) = (*group, users.clone());
        let (done, dealt_with) = oneshot::channel();
        if self.tell.try_send(Moved { group, users, done }).is_err() {
            metrics::counter!(metric::PRESENCE_MOVES_DROPPED.name).increment(1);
            return Ok(());
        }
        // It goes on.
        drop(timeout(self.wait, dealt_with).await);
        Ok(())
    }
}
