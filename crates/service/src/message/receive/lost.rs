//! Ends a receiver whose client was lost: enters for pushes what the client may not have.

use std::{sync::Arc, time::Duration};

use kith_delivery::ReadFrom;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use super::{
    super::deliver::UnconfirmedRanges, ReceiversInner, Receiving, liveness::OnLoss, receiver::Receiver,
};

/// The number of attempts, and the pause between two attempts.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(3);
/// How long a stopping node waits for them. After that, another node does it.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// A receiver whose client was lost.
struct LostReceiver {
    parts: Arc<ReceiversInner>,
    /// Its position in the inbox.
    from: ReadFrom,
    unconfirmed: UnconfirmedRanges,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // The receiver leaves before the end is known: a lost receiver must not be found as its user's other
        // receiver.
        let is_last = self.registration.leave();
        let from = ReadFrom { user: self.reader.user, generation: self.generation, after: self.position };
        let parts = Arc::clone(&self.parts);
        let on_loss = OnLoss::new(move |unconfirmed| {
            let lost = LostReceiver { parts: Arc::clone(&parts), from, unconfirmed };
            // Without a runtime the node has ended.
            if let Ok(runtime) = Handle::try_current() {
                parts.lost.spawn_on(lost.end(), &runtime);
            }
        });
        let is_lost = self.registration.waker.liveness().end(self.registration.number, on_loss);
        if is_last && !is_lost {
            self.registration.end_user();
        }
    }
}

impl LostReceiver {
    async fn end(mut self) {
        let (parts, user) = (Arc::clone(&self.parts), self.from.user);
        if parts.hub.hand_over(user, &mut self.unconfirmed) {
            return;
        }
        for _ in 0..TRIES {
            // The user has no receiver here any more. Until all is entered, another node may do it if this
            // one dies.
            Arc::clone(&parts.hub).close(user).await;
            match parts.delivery.announce_unconfirmed(self.from, self.unconfirmed.clone()).await {
                Ok(()) => return parts.hub.forget(user).await,
                Err(error) => {
                    tracing::debug!(%error, "messages of a lost receiver are not entered for pushes yet")
                }
            }
            sleep(PAUSE).await;
        }
        tracing::warn!("pushes may lack messages: those of a lost receiver could not be entered");
    }
}

impl Receiving {
    /// Waits until lost receivers' messages are entered for pushes. To be called when no stream is open any
    /// more.
    pub async fn end_lost(&self) {
        self.0.lost.close();
        drop(timeout(ENDS_WITHIN, self.0.lost.wait()).await);
    }
}
