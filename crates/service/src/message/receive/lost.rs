//! The end of a receiver whose client was lost: what the client may not have is entered for pushes.

use std::{sync::Arc, time::Duration};

use kith_delivery::{Entry, Generation, Position, ReadFrom, ReadOutcome};
use kith_store::{SeqRange, UserId};
use prost::bytes::Bytes;
use tokio::{runtime::Handle, time::sleep};

use super::{
    ReceiversInner,
    liveness::{UnconfirmedRanges, add},
    receiver::Receiver,
};
use crate::error::Error;

/// Entries of the inbox that are read: all that it keeps.
const ENTRIES: usize = 200;
/// Attempts, and the pause between two of them.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(3);

/// A receiver whose client was lost.
struct LostReceiver {
    parts: Arc<ReceiversInner>,
    user: UserId,
    generation: Generation,
    position: Position,
    unconfirmed: UnconfirmedRanges,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let Some(liveness) = self.registration.waker.liveness().filter(|liveness| liveness.is_lost()) else {
            return;
        };
        let unconfirmed = liveness.take_unconfirmed();
        self.registration.leave();
        let lost = LostReceiver {
            parts: Arc::clone(&self.parts),
            user: self.reader.user,
            generation: self.generation,
            position: self.position,
            unconfirmed,
        };
        // Without a runtime the node has ended.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(lost.end());
        }
    }
}

impl LostReceiver {
    async fn end(mut self) {
        if self.parts.hub.hand_over(self.user, &mut self.unconfirmed) {
            return;
        }
        for _ in 0..TRIES {
            match self.announce().await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(%error, "messages of a lost receiver are not entered for pushes yet")
                }
            }
            sleep(PAUSE).await;
        }
        tracing::warn!("pushes may lack messages: those of a lost receiver could not be entered");
    }

    /// Enters the messages, unless the user has another receiver, which gets them.
    async fn announce(&mut self) -> Result<(), Error> {
        let (parts, user) = (Arc::clone(&self.parts), self.user);
        Arc::clone(&parts.hub).close(user).await;
        let wakes = parts.keeper().signal(user, Bytes::new()).await;
        if !wakes.map_err(super::start::inboxes_unavailable)?.is_empty() {
            return Ok(());
        }
        self.add_unread().await?;
        parts.delivery.announce_to(user, &self.unconfirmed).await
    }

    /// Adds the entries of the inbox that the receiver has not read.
    async fn add_unread(&mut self) -> Result<(), Error> {
        let Self { user, generation, position, .. } = *self;
        let from = ReadFrom { user, generation, after: position };
        let read = self.parts.keeper().read(&[from], ENTRIES).await.pop();
        let entries = match read {
            Some(Ok(ReadOutcome::Entries(entries))) => entries,
            // The stream was reset, or is by its next read.
            Some(Ok(ReadOutcome::Reset)) => return Ok(()),
            Some(Err(error)) => return Err(super::start::inboxes_unavailable(error)),
            None => return Ok(()),
        };
        for (_, entry) in entries {
            if let Entry::Range { conversation, first, last } = entry {
                let seqs = SeqRange { first: first.unwrap_or(last), last };
                add(&mut self.unconfirmed, conversation, seqs);
            }
        }
        Ok(())
    }
}
