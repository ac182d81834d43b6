//! Retention: messages that are older than configured are hidden from all users, and removed.
//!
//! Every document that becomes old enough is processed once, by rising time: then all messages of the documents before
//! it are older. The mark of the lease is the time that was reached.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use kith_store::{AgedDocument, ConversationId, MessageUpkeep, Seq, Timestamp};
use tokio::time::Instant;

use super::BEGUN_WITHIN;
use crate::{conversation::ConversationRecords, error::Error, message::store_error, write::lease::Lease};

/// Period of the search for old documents.
const PERIOD: Duration = Duration::from_secs(60);
/// Documents that are read in one step. Not above what is read of conversations at once.
const DOCUMENTS: usize = 250;

/// Raises the lowest number that users may read, by the age of messages.
#[derive(Debug)]
pub(super) struct Retention {
    store: Arc<dyn MessageUpkeep>,
    conversations: ConversationRecords,
    /// Zero: forever.
    kept: Duration,
    /// When all old documents were last processed.
    looked: Option<Instant>,
}

impl Retention {
    pub(super) const fn new(
        store: Arc<dyn MessageUpkeep>,
        conversations: ConversationRecords,
        kept: Duration,
    ) -> Self {
        Self { store, conversations, kept, looked: None }
    }

    /// Processes the documents that have become old since the last time, as long as the lease is held.
    ///
    /// # Errors
    /// Errors of the store. The rest is processed by a later step.
    pub(super) async fn step(&mut self, lease: &mut Lease) -> Result<(), Error> {
        let looked = self.looked.is_some_and(|looked| looked.elapsed() < PERIOD);
        let Some(before) = begun_before(self.kept, Timestamp::now()).filter(|_| !looked) else {
            return Ok(());
        };
        let mark = lease.mark().await.map_err(store_error)?;
        let mut from = mark.as_deref().and_then(parse_mark).unwrap_or(Timestamp(i64::MIN));
        while lease.is_held().await.unwrap_or(false) {
            let some = self.store.aged(from, before, DOCUMENTS).await.map_err(store_error)?;
            self.hide_before(&some).await?;
            from = some.last().map_or(from, |last| Timestamp(last.begun.0.saturating_add(1)));
            lease.set_mark(&from.0.to_le_bytes()).await.map_err(store_error)?;
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

/// A document must be begun before this time so that all messages before it are old; `None`: no message is.
fn begun_before(kept: Duration, now: Timestamp) -> Option<Timestamp> {
    let kept = i64::try_from(kept.as_millis()).ok().filter(|kept| *kept > 0)?;
    Some(Timestamp(now.0.saturating_sub(kept)))
}

fn parse_mark(mark: &[u8]) -> Option<Timestamp> {
    Some(Timestamp(i64::from_le_bytes(mark.try_into().ok()?)))
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
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn document(conversation: &str, first: Seq) -> AgedDocument {
        AgedDocument {
            begun: Timestamp(7),
            conversation: ConversationId::stored(conversation).unwrap(),
            first,
        }
    }

    #[test]
    fn messages_are_kept_for_ever_by_default() {
        assert_eq!(begun_before(Duration::ZERO, Timestamp::now()), None);
        assert_eq!(begun_before(Duration::MAX, Timestamp::now()), None);
        assert_eq!(begun_before(HOUR, Timestamp(4_000_000)), Some(Timestamp(400_000)));
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

    #[test]
    fn mark_that_cannot_be_read_begins_again() {
        assert_eq!(parse_mark(&7_i64.to_le_bytes()), Some(Timestamp(7)));
        assert_eq!(parse_mark(b"7"), None);
    }
}
