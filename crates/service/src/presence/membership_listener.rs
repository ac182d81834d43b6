//! The presence listener: joins and leaves change which group members are online.

use std::time::Duration;

use async_trait::async_trait;
use kith_store::{GroupId, UserId};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    error::Error,
    group::member::{MembershipEvent, MembershipListener},
    metric,
};

/// Changes that may wait. Others are corrected when the group's online members are listed, and joins also by
/// each user's next change.
const WAITING_MAX: usize = 10_000;

/// Users who joined or left a group.
#[derive(Debug)]
pub struct MembershipUpdate {
    pub(super) group: GroupId,
    pub(super) users: Vec<UserId>,
    /// Dropped after it was processed.
    pub(super) done: oneshot::Sender<()>,
}

/// Passes joins and leaves on to presence.
#[derive(Debug)]
pub struct MembershipForwarder {
    sender: mpsc::Sender<MembershipUpdate>,
    wait: Duration,
}

/// The listener, which waits at most `wait` until presence has handled a change, and the changes that it
/// passes on.
pub fn membership_forwarder(wait: Duration) -> (MembershipForwarder, mpsc::Receiver<MembershipUpdate>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (MembershipForwarder { sender, wait }, receiver)
}

#[async_trait]
impl MembershipListener for MembershipForwarder {
    /// Waits until the change is processed, but no longer than configured.
    async fn changed(&self, event: &MembershipEvent) -> Result<(), Error> {
        let (MembershipEvent::Joined { group, users, .. } | MembershipEvent::Left { group, users, .. }) =
            event
        else {
            return Ok(());
        };
        let (group, users) = (*group, users.clone());
        let (done, processed) = oneshot::channel();
        if self.sender.try_send(MembershipUpdate { group, users, done }).is_err() {
            metrics::counter!(metric::PRESENCE_MOVES_DROPPED.name).increment(1);
            return Ok(());
        }
        // It continues.
        drop(timeout(self.wait, processed).await);
        Ok(())
    }
}
