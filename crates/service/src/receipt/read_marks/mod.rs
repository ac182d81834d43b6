//! Short-lived copies of members' read marks on this node.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{BATCH_MAX, ConversationId, Dialog, DialogKey, DialogStore, ReadRanges, StoreError, UserId};
use parking_lot::Mutex;
use tokio::{sync::OwnedMutexGuard, time::Instant};

use super::{ReceiptsConfig, marks::MarksByOrdinal, weighted_copies::WeightedCopies};
use crate::{error::Error, metric::RECEIPT_LOADS};

/// The number of marks above which a conversation is large.
const LARGE: usize = 10_000;
/// The most concurrent store reads for one conversation.
const READ_AT_ONCE: usize = 4;

/// The users' read marks in conversations: read from the store, and kept in this node's memory for
/// the time in the configuration. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReadMarks {
    store: Arc<dyn DialogStore>,
    kept: Arc<Mutex<WeightedCopies<ConversationId, MarksCell>>>,
    config: ReceiptsConfig,
}

/// Held while marks are read, so that one call reads them for all.
type MarksCell = Arc<tokio::sync::Mutex<CopiedMarks>>;

#[derive(Debug, Default)]
struct CopiedMarks {
    /// When the first mark was read; `None`: there are no marks.
    since: Option<Instant>,
    marks: Arc<MarksByOrdinal>,
}

impl ReadMarks {
    /// Creates it over a store's dialogs.
    #[must_use]
    pub fn new(store: Arc<dyn DialogStore>, config: ReceiptsConfig) -> Self {
        Self { store, kept: Arc::new(Mutex::new(WeightedCopies::new(config.kept))), config }
    }

    /// Returns these users' read marks in a conversation. Users are given with their ordinals, which rise.
    /// `is_fresh`: the marks are read now. The result is kept even if this future is dropped.
    pub(super) async fn of(
        &self,
        conversation: ConversationId,
        users: impl IntoIterator<Item = (usize, UserId)>,
        is_fresh: bool,
    ) -> Result<Arc<MarksByOrdinal>, Error> {
        let slot = if is_fresh { MarksCell::default() } else { self.kept.lock().get(conversation) };
        if is_fresh {
            self.kept.lock().put(conversation, Arc::clone(&slot));
        }
        let mut copied = slot.lock_owned().await;
        if copied.is_older_than(self.age(copied.marks.len())) {
            *copied = CopiedMarks::default();
        }
        let missing = copied.marks.missing(users);
        if missing.is_empty() {
            return Ok(Arc::clone(&copied.marks));
        }
        let this = self.clone();
        let read = tokio::spawn(async move { this.read(conversation, missing, copied).await });
        read.await.unwrap_or_else(|_| Err(Error::internal()))
    }

    /// Drops a conversation's copies, after a mark. A large conversation's copies are kept until they are
    /// old: marks are frequent there.
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
        mut copied: OwnedMutexGuard<CopiedMarks>,
    ) -> Result<Arc<MarksByOrdinal>, Error> {
        metrics::counter!(RECEIPT_LOADS.name, "what" => "marks").increment(1);
        // Both are set before the read: its result may lack marks that come meanwhile, and the conversation
        // counts as large from now on.
        copied.since.get_or_insert_with(Instant::now);
        self.kept.lock().set_weight(conversation, copied.marks.len() + missing.len());
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

    /// Reads these users' read marks. Users without a dialog have read nothing.
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

impl CopiedMarks {
    fn is_older_than(&self, age: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= age)
    }
}

fn store_error(error: &StoreError) -> Error {
    Error::store("dialog", error)
}

#[cfg(test)]
mod tests;
