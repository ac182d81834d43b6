//! What members have read, as this node keeps it for a short time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{BATCH_MAX, ConversationId, Dialog, DialogKey, DialogStore, ReadRanges, StoreError, UserId};
use parking_lot::Mutex;
use tokio::{sync::OwnedMutexGuard, time::Instant};

use super::{ReceiptsConfig, kept::Kept, marks::Marks};
use crate::{error::Error, metric::RECEIPT_LOADS};

/// With more marks than these a conversation is a large one.
const LARGE: usize = 10_000;
/// Reads of the store at one time for one conversation.
const READ_AT_ONCE: usize = 4;

/// What users have read of conversations: from the store, kept in the memory of this node for `receipts.memory`. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReadMarks {
    store: Arc<dyn DialogStore>,
    kept: Arc<Mutex<Kept<ConversationId, Slot>>>,
    config: ReceiptsConfig,
}

/// Held while marks are read, so that one call reads them for all.
type Slot = Arc<tokio::sync::Mutex<Copied>>;

#[derive(Debug, Default)]
struct Copied {
    /// When the first of them was read; `None`: there are none.
    since: Option<Instant>,
    marks: Arc<Marks>,
}

impl ReadMarks {
    /// Over the dialogs of a store.
    #[must_use]
    pub fn new(store: Arc<dyn DialogStore>, config: ReceiptsConfig) -> Self {
        Self { store, kept: Arc::new(Mutex::new(Kept::new(config.kept))), config }
    }

    /// What these users, each given with its ordinal, rising, have read of a conversation. `is_fresh`: read now. What is read is kept
    /// also if this future is dropped.
    ///
    /// # Errors
    /// Those of a failing store.
    pub(super) async fn of(
        &self,
        conversation: ConversationId,
        users: Vec<(usize, UserId)>,
        is_fresh: bool,
    ) -> Result<Arc<Marks>, Error> {
        let slot = if is_fresh { Slot::default() } else { self.kept.lock().get(conversation) };
        if is_fresh {
            self.kept.lock().put(conversation, Arc::clone(&slot));
        }
        let mut copied = slot.lock_owned().await;
        if copied.is_older_than(self.age(copied.marks.len())) {
            *copied = Copied::default();
        }
        let missing = copied.marks.missing(users);
        if missing.is_empty() {
            return Ok(Arc::clone(&copied.marks));
        }
        let this = self.clone();
        let read = tokio::spawn(async move { this.read(conversation, missing, copied).await });
        read.await.unwrap_or_else(|_| Err(Error::internal()))
    }

    /// Drops what is kept of a conversation, after a mark. That of a large one is kept until it is old: its marks come all the time.
    pub(super) fn forget(&self, conversation: ConversationId) {
        let mut kept = self.kept.lock();
        if kept.content(conversation) <= LARGE {
            kept.remove(conversation);
        }
    }

    fn age(&self, marks: usize) -> Duration {
        if marks > LARGE { self.config.memory_large } else { self.config.memory }
    }

    async fn read(
        &self,
        conversation: ConversationId,
        missing: Vec<(usize, UserId)>,
        mut copied: OwnedMutexGuard<Copied>,
    ) -> Result<Arc<Marks>, Error> {
        metrics::counter!(RECEIPT_LOADS.name, "what" => "marks").increment(1);
        // Before the read: what comes meanwhile may not be in it. And known as large from now on.
        copied.since.get_or_insert_with(Instant::now);
        self.kept.lock().weigh(conversation, copied.marks.len() + missing.len());
        let parts: Vec<Vec<_>> = missing.chunks(BATCH_MAX).map(<[_]>::to_vec).collect();
        let reads = parts.into_iter().map(async |some| self.dialogs(conversation, some).await);
        let mut reads = stream::iter(reads).buffer_unordered(READ_AT_ONCE);
        let mut found = Vec::with_capacity(missing.len());
        while let Some(marks) = reads.try_next().await? {
            found.extend(marks);
        }
        drop(reads);
        Arc::make_mut(&mut copied.marks).add(found);
        Ok(Arc::clone(&copied.marks))
    }

    /// What these users have read. Those who have no dialog have read nothing.
    async fn dialogs(
        &self,
        conversation: ConversationId,
        users: Vec<(usize, UserId)>,
    ) -> Result<Vec<(usize, ReadRanges)>, Error> {
        let keys: Vec<DialogKey> =
            users.iter().map(|(_, user)| DialogKey { user: *user, conversation }).collect();
        let dialogs = self.store.dialogs(&keys).await.map_err(|error| store_error(&error))?;
        let read = |dialog: Dialog| (dialog.key.user, dialog.read);
        let mut read: HashMap<UserId, ReadRanges> = dialogs.into_iter().map(read).collect();
        Ok(users.into_iter().map(|(at, user)| (at, read.remove(&user).unwrap_or_default())).collect())
    }
}

impl Copied {
    fn is_older_than(&self, age: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= age)
    }
}

fn store_error(error: &StoreError) -> Error {
    Error::store("dialog", error)
}

#[cfg(test)]
mod tests;
