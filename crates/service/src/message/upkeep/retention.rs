//! Retention: messages that are older than configured are hidden from all users, and removed.
//!
//! A document whose highest time became old enough is processed once: then all messages before it are older, also if the
//! times of messages fall. Example: after messages of today, an import of 2020 is hidden together with these, and in a
//! conversation of its own within a minute.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use kith_store::{AgedDocument, ConversationId, MessageUpkeep, Seq};
use tokio::time::Instant;

use super::BEGUN_WITHIN;
use crate::{
    conversation::ConversationRecords,
    error::Error,
    message::store_error,
    write::{lease::Lease, removal_time::RemovalTime},
};

/// Period of the search for old documents.
const PERIOD: Duration = Duration::from_secs(60);
/// Documents that are read in one step. Not above what is read of conversations at once.
const DOCUMENTS: usize = 250;

/// Raises the lowest number that users may read, by the age of messages.
#[derive(Debug)]
pub(super) struct Retention {
    store: Arc<dyn MessageUpkeep>,
    conversations: ConversationRecords,
    time: RemovalTime,
    /// Zero: forever.
    kept: Duration,
    /// When all old documents were last processed.
    looked: Option<Instant>,
}

impl Retention {
    pub(super) const fn new(
        store: Arc<dyn MessageUpkeep>,
        conversations: ConversationRecords,
        time: RemovalTime,
        kept: Duration,
    ) -> Self {
        Self { store, conversations, time, kept, looked: None }
    }

    /// Processes the documents that have become old since the last time, as long as the lease is held.
    ///
    /// # Errors
    /// Errors of the store. The rest is processed by a later step.
    pub(super) async fn step(&mut self, lease: &mut Lease) -> Result<(), Error> {
        if self.kept.is_zero() || self.looked.is_some_and(|looked| looked.elapsed() < PERIOD) {
            return Ok(());
        }
        let before = self.time.now().await.map_err(store_error)?.before(self.kept);
        while lease.is_held().await.unwrap_or(false) {
            let some = self.store.aged(before, DOCUMENTS).await.map_err(store_error)?;
            self.hide_before(&some).await?;
            self.store.settle_aged(&some).await.map_err(store_error)?;
            if some.len() < DOCUMENTS {
                self.looked = Some(Instant::now());
                break;
            }
        }
        Ok(())
    }

    /// Hides the messages before these documents, and allows their removal.
    async fn hide_before(&self, documents: &[AgedDocument]) -> Result<(), Error> {
        let firsts = lowest_kept(documents);
        let ids: Vec<ConversationId> = firsts.keys().copied().collect();
        let known: HashMap<ConversationId, Seq> = self.conversations.stored_min_seqs(&ids).await?;
        for (id, first) in firsts {
            // It was hidden by a change that also allows the removal.
            if known.get(&id).is_none_or(|known| *known < first) {
                self.conversations.raise_min_seq_in_task(id, first, Instant::now() + BEGUN_WITHIN).await?;
            }
        }
        Ok(())
    }
}

/// The first number of the last of these documents of each conversation that has others before it.
fn lowest_kept(documents: &[AgedDocument]) -> BTreeMap<ConversationId, Seq> {
    let mut firsts = BTreeMap::new();
    let is_of_users = |document: &&AgedDocument| !matches!(document.conversation, ConversationId::Offline(_));
    for document in documents.iter().filter(|document| document.first > 1).filter(is_of_users) {
        let first = firsts.entry(document.conversation).or_insert(document.first);
        *first = document.first.max(*first);
    }
    firsts
}

#[cfg(test)]
mod tests {
    use kith_store::Timestamp;

    use super::*;

    fn document(conversation: &str, first: Seq) -> AgedDocument {
        AgedDocument {
            highest: Timestamp(7),
            conversation: ConversationId::stored(conversation).unwrap(),
            first,
        }
    }

    #[test]
    fn last_old_document_of_a_conversation_is_kept() {
        let documents = [document("g9", 1), document("g8", 1), document("g9", 201), document("g9", 101)];
        let expected = [("g9".parse().unwrap(), 201)];
        assert_eq!(lowest_kept(&documents).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn logs_of_kith_are_not_hidden() {
        assert_eq!(lowest_kept(&[document("o1", 101)]).len(), 0);
    }
}
