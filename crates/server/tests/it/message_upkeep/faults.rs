//! A store that fails where tests say so.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use kith_store::{
    AgedDocument, CompletedTimes, Conversation, ConversationId, ConversationStore, DocumentKey,
    MessageUpkeep, Outcome, SentDocuments, Seq, StoreError, Stores, Timestamp, TrimResult, UserId, Version,
};
use parking_lot::Mutex;

use crate::broken_store::away;

/// The operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Every removal in this log.
    Log(ConversationId),
    /// Every search for old documents.
    SearchByAge,
    /// The next content removal, after its effect, like a node that dies.
    AnswerOfAnErasure,
    /// The next change to a conversation record.
    Record,
    /// Every change to this conversation's record.
    RecordOf(ConversationId),
}

pub(super) type Faults = Arc<Mutex<Vec<Fault>>>;

/// A store with faults.
#[derive(Debug)]
struct Faulty {
    upkeep: Arc<dyn MessageUpkeep>,
    records: Arc<dyn ConversationStore>,
    faults: Faults,
}

/// Puts faults into stores. A fault that happens once is removed when it happens.
pub(super) fn put_into(stores: &mut Stores, faults: &Faults) {
    let upkeep = Arc::clone(&stores.message_upkeep);
    let faulty = Faulty { upkeep, records: Arc::clone(&stores.conversations), faults: Arc::clone(faults) };
    let faulty = Arc::new(faulty);
    stores.message_upkeep = Arc::<Faulty>::clone(&faulty);
    stores.conversations = faulty;
}

impl Faulty {
    fn check(&self, fault: Fault) -> Result<(), StoreError> {
        if self.faults.lock().contains(&fault) { Err(away(Outcome::NotApplied)) } else { Ok(()) }
    }

    fn check_once(&self, fault: Fault, outcome: Outcome) -> Result<(), StoreError> {
        let mut faults = self.faults.lock();
        let Some(at) = faults.iter().position(|one| *one == fault) else { return Ok(()) };
        faults.remove(at);
        Err(away(outcome))
    }
}

#[async_trait]
impl MessageUpkeep for Faulty {
    async fn trim(&self, log: ConversationId, below: Seq, now: Timestamp) -> Result<TrimResult, StoreError> {
        self.check(Fault::Log(log))?;
        self.upkeep.trim(log, below, now).await
    }

    async fn aged(&self, highest: Range<Timestamp>, limit: usize) -> Result<Vec<AgedDocument>, StoreError> {
        self.check(Fault::SearchByAge)?;
        self.upkeep.aged(highest, limit).await
    }

    async fn settle_aged(&self, documents: &[AgedDocument]) -> Result<(), StoreError> {
        self.upkeep.settle_aged(documents).await
    }

    async fn complete_times(
        &self,
        from: Option<DocumentKey>,
        limit: usize,
    ) -> Result<CompletedTimes, StoreError> {
        self.upkeep.complete_times(from, limit).await
    }

    async fn documents_sent_by(
        &self,
        log: ConversationId,
        sender: UserId,
        from: Seq,
    ) -> Result<SentDocuments, StoreError> {
        self.upkeep.documents_sent_by(log, sender, from).await
    }

    async fn erase_document(
        &self,
        log: ConversationId,
        first: Seq,
        sender: UserId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.check(Fault::Log(log))?;
        let erased = self.upkeep.erase_document(log, first, sender, now).await?;
        self.check_once(Fault::AnswerOfAnErasure, Outcome::Unknown)?;
        Ok(erased)
    }
}

#[async_trait]
impl ConversationStore for Faulty {
    async fn conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError> {
        self.records.conversations(ids).await
    }

    async fn strong_conversations(&self, ids: &[ConversationId]) -> Result<Vec<Conversation>, StoreError> {
        self.records.strong_conversations(ids).await
    }

    async fn raise_min_seq(
        &self,
        id: ConversationId,
        min_seq: Seq,
        trim: bool,
    ) -> Result<Conversation, StoreError> {
        self.check(Fault::RecordOf(id))?;
        self.check_once(Fault::Record, Outcome::NotApplied)?;
        self.records.raise_min_seq(id, min_seq, trim).await
    }

    async fn untrimmed_conversations(
        &self,
        after: Option<ConversationId>,
        limit: usize,
    ) -> Result<Vec<Conversation>, StoreError> {
        self.records.untrimmed_conversations(after, limit).await
    }

    async fn end_trim(
        &self,
        id: ConversationId,
        version: Version,
    ) -> Result<Option<Conversation>, StoreError> {
        self.records.end_trim(id, version).await
    }
}
