//! Retention: messages that are older than configured are hidden from all users, and removed.
//!
//! A document whose highest time became old enough is processed once: then all messages before it are older,
//! also if the message times fall. Example: after today's messages, an import from 2020 is hidden together
//! with these, and in a separate conversation within a minute.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};

use kith_store::{AgedDocument, ConversationId, MessageUpkeep, Seq, Timestamp};
use tokio::time::Instant;

use super::BEGUN_WITHIN;
use crate::{
    conversation::ConversationRecords,
    error::Error,
    message::store_error,
    write::{lease::Lease, removal_time::RemovalTime},
};

/// The time between searches for old documents.
const PERIOD: Duration = Duration::from_secs(60);
/// Pause before conversations that could not be hidden are tried again.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Most conversations that a pass leaves out because they could not be hidden.
const FAILED_MAX: usize = 1_000;
/// How many documents one step reads. Not above the limit for reading conversations at once.
const DOCUMENTS: usize = 250;

/// Raises the lowest number that users may read, by the messages' age.
#[derive(Debug)]
pub(super) struct Retention {
    store: Arc<dyn MessageUpkeep>,
    conversations: ConversationRecords,
    time: RemovalTime,
    /// How long messages are kept. Zero: forever.
    kept: Duration,
    pass: RetentionPass,
    /// When the next pass begins; `None`: now.
    next: Option<Instant>,
}

/// How far a pass over the old documents has come. It may take several steps.
#[derive(Debug)]
struct RetentionPass {
    /// The documents with lower highest times are processed, except those in `failed`.
    from: Timestamp,
    /// The conversations that could not be hidden. Their documents are not settled, and do not hold up the
    /// others.
    failed: HashSet<ConversationId>,
}

impl RetentionPass {
    fn new() -> Self {
        Self { from: Timestamp(i64::MIN), failed: HashSet::new() }
    }

    /// The documents that may be settled.
    fn hidden(&self, documents: &[AgedDocument]) -> Vec<AgedDocument> {
        let is_hidden = |document: &&AgedDocument| !self.failed.contains(&document.conversation);
        documents.iter().filter(is_hidden).copied().collect()
    }

    /// Goes on after these documents, with this many settled. There may be others with the last document's
    /// time; if none was settled, they wait for the next pass.
    fn advance(&mut self, documents: &[AgedDocument], settled: usize) {
        let last = documents.last().map_or(self.from, |last| last.highest);
        let is_stuck = settled == 0 && last == self.from;
        self.from = if is_stuck { Timestamp(last.0.saturating_add(1)) } else { last };
    }
}

impl Retention {
    pub(super) fn new(
        store: Arc<dyn MessageUpkeep>,
        conversations: ConversationRecords,
        time: RemovalTime,
        kept: Duration,
    ) -> Self {
        Self { store, conversations, time, kept, pass: RetentionPass::new(), next: None }
    }

    /// Processes the documents that have become old since the last time, as long as the lease is held.
    ///
    /// # Errors
    /// The store's errors. The rest is processed by a later step, without a conversation that could not be
    /// hidden.
    pub(super) async fn step(&mut self, lease: &mut Lease) -> Result<(), Error> {
        if self.kept.is_zero() || self.next.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        let before = self.time.now().await.map_err(store_error)?.before(self.kept);
        while lease.is_held().await.unwrap_or(false) {
            let some = self.store.aged(self.pass.from..before, DOCUMENTS).await.map_err(store_error)?;
            self.hide_before(&some).await?;
            let hidden = self.pass.hidden(&some);
            self.store.settle_aged(&hidden).await.map_err(store_error)?;
            if some.len() < DOCUMENTS {
                self.end_pass();
                break;
            }
            self.pass.advance(&some, hidden.len());
        }
        Ok(())
    }

    fn end_pass(&mut self) {
        let pass = mem::replace(&mut self.pass, RetentionPass::new());
        let pause = if pass.failed.is_empty() { PERIOD } else { TRIED_AGAIN_AFTER };
        self.next = Some(Instant::now() + pause);
    }

    /// Hides the messages before these documents, and allows their removal. Leaves out the conversations that
    /// could not be hidden before in this pass.
    ///
    /// # Errors
    /// The error of the first conversation that cannot be hidden now. The next step does what it has held up.
    async fn hide_before(&mut self, documents: &[AgedDocument]) -> Result<(), Error> {
        let firsts = lowest_kept(&self.pass.hidden(documents));
        let ids: Vec<ConversationId> = firsts.keys().copied().collect();
        let known: HashMap<ConversationId, Seq> = self.conversations.stored_min_seqs(&ids).await?;
        for (id, first) in firsts {
            // It was hidden by a change that also allows the removal.
            if known.get(&id).is_some_and(|known| first <= *known) {
                continue;
            }
            let begun_by = Instant::now() + BEGUN_WITHIN;
            if let Err(error) = self.conversations.raise_min_seq_in_task(id, first, begun_by).await {
                self.pass.failed.insert(id);
                if self.pass.failed.len() >= FAILED_MAX {
                    self.end_pass();
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

/// For each conversation with several documents here, the first number in its last document.
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
    fn pass_goes_on_behind_documents_that_failed() {
        let at = |highest, log| AgedDocument { highest: Timestamp(highest), ..document(log, 101) };
        let mut pass = RetentionPass::new();
        pass.failed.insert("g9".parse().unwrap());
        let mut from = |documents: &[AgedDocument]| {
            let settled = pass.hidden(documents).len();
            pass.advance(documents, settled);
            pass.from.0
        };
        assert_eq!(from(&[at(3, "g9"), at(7, "g9")]), 7, "others may have this time");
        assert_eq!(from(&[at(7, "g9"), at(7, "g8")]), 7, "one was settled: it is not found again");
        assert_eq!(from(&[at(7, "g9"), at(7, "g9")]), 8, "and none now");
    }

    #[test]
    fn logs_of_kith_are_not_hidden() {
        assert_eq!(lowest_kept(&[document("o1", 101)]).len(), 0);
    }
}
