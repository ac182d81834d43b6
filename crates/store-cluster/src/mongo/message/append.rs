//! The append: a message's position in a document is its number, so that one command gives place, number and
//! durability.
//!
//! Nothing is checked before it is written. The command's filter and the unique indexes decide; when they
//! refuse, the keys are looked up.

use std::{collections::HashSet, sync::Arc, time::Duration};

use kith_store::{
    Appended, ContentHash, ConversationId, DOCUMENT, MessageKey, NewMessage, Outcome, SUCCESSOR_AGE,
    StoreError,
};
use tokio::time::Instant;

use super::{
    super::{document::count, error::out_of_time},
    documents::{BEFORE_ALL, DocumentInsert, Documents, EarlierSend, Highest, PushOutcome},
    hints::Hints,
};

/// How long the fact that a document is full permits this node to create the next document, from the time of
/// its request. Upkeep deletes a document no sooner than an hour after the next document was made, so that
/// none is made where others were deleted.
const PERMITTED: Duration = Duration::from_secs(60);
const _: () = assert!(PERMITTED.as_secs() * 10 <= SUCCESSOR_AGE.as_secs());

/// The log to which it appends.
#[derive(Debug)]
pub(super) struct Log<'a, D> {
    pub(super) documents: &'a D,
    pub(super) hints: &'a Hints,
    pub(super) conversation: ConversationId,
}

/// Appends a batch, and returns each message's result, in its order. Retries for this time while others
/// append.
///
/// # Errors
/// [`StoreError::Overloaded`] for more messages than a document has, or a repeated key. Otherwise with an
/// unknown outcome if a part of the batch is in the log.
pub(super) async fn append<D: Documents>(
    log: Log<'_, D>,
    batch: &[NewMessage],
    within: Duration,
) -> Result<Vec<Appended>, StoreError> {
    // The index does not look within a document: if one push had two elements with the same key, both would
    // be taken.
    let keys: HashSet<MessageKey> = batch.iter().map(|new| new.key).collect();
    if keys.len() < batch.len() || count(batch.len()) > DOCUMENT {
        return Err(StoreError::Overloaded);
    }
    let give_up = Instant::now() + within;
    let mut append = Append::new(log, batch);
    match append.run(give_up).await {
        Ok(()) => Ok(append.results.into_iter().flatten().collect()),
        Err(error) => Err(append.failed(error)),
    }
}

/// A batch that is being appended.
struct Append<'a, D> {
    log: Log<'a, D>,
    batch: &'a [NewMessage],
    results: Vec<Option<Appended>>,
    /// Indexes in the batch, in its order, of the messages that have no result.
    rest: Vec<usize>,
    /// Whether a push whose result is not known may have been applied.
    may_have_landed: bool,
}

/// The append's next step.
#[derive(Clone, Copy, Debug)]
enum AppendStep {
    /// Find the last document.
    FindTail,
    /// Push into this document, or into the next one if nothing matches.
    Push(i64),
    /// Push into this document, after nothing matched in the document before.
    PushAfter(i64),
    Make(Permission),
    /// Look the keys up.
    Resolve,
}

/// The permission to create a document. Only an append that has found the previous document full has it, and
/// it ends with the append.
#[derive(Clone, Copy, Debug)]
struct Permission {
    document: i64,
    until: Instant,
    /// The highest time among the messages before the document.
    before: Highest,
}

impl Permission {
    /// `asked`: when the command was sent whose answer permits it. A node that is suspended before it reads
    /// the answer must not treat it as new.
    fn new(document: i64, asked: Instant, before: Highest) -> Self {
        Self { document, until: asked + PERMITTED, before }
    }
}

impl<'a, D: Documents> Append<'a, D> {
    fn new(log: Log<'a, D>, batch: &'a [NewMessage]) -> Self {
        Self {
            log,
            batch,
            results: vec![None; batch.len()],
            rest: (0..batch.len()).collect(),
            may_have_landed: false,
        }
    }

    async fn run(&mut self, give_up: Instant) -> Result<(), StoreError> {
        let hint = self.log.hints.get(self.log.conversation);
        let mut next = hint.map_or(AppendStep::FindTail, AppendStep::Push);
        while !self.rest.is_empty() {
            if Instant::now() >= give_up {
                return Err(out_of_time(Outcome::NotApplied));
            }
            next = self.step(next).await?;
        }
        Ok(())
    }

    async fn step(&mut self, next: AppendStep) -> Result<AppendStep, StoreError> {
        match next {
            AppendStep::FindTail => self.find_tail().await,
            AppendStep::Push(document) => self.push(document, AppendStep::PushAfter(document + 1)).await,
            AppendStep::PushAfter(document) => self.push(document, AppendStep::Resolve).await,
            AppendStep::Make(permission) => self.make(permission).await,
            AppendStep::Resolve => self.resolve().await,
        }
    }

    async fn find_tail(&mut self) -> Result<AppendStep, StoreError> {
        let asked = Instant::now();
        Ok(match self.log.documents.tail(self.log.conversation).await? {
            None => AppendStep::Make(Permission::new(0, asked, BEFORE_ALL)),
            Some(tail) if tail.is_full() => {
                AppendStep::Make(Permission::new(tail.document + 1, asked, tail.highest))
            }
            Some(tail) => AppendStep::Push(tail.document),
        })
    }

    async fn push(&mut self, document: i64, unmatched: AppendStep) -> Result<AppendStep, StoreError> {
        let asked = Instant::now();
        let pushed = self.log.documents.push(self.log.conversation, document, &self.messages()).await?;
        Ok(match pushed {
            PushOutcome::After(before, highest) => self.placed(document, before, highest, asked),
            PushOutcome::Unmatched => unmatched,
            PushOutcome::Duplicate => AppendStep::Resolve,
            PushOutcome::Unseen => {
                self.may_have_landed = true;
                AppendStep::Resolve
            }
        })
    }

    async fn make(&mut self, permission: Permission) -> Result<AppendStep, StoreError> {
        let asked = Instant::now();
        if asked >= permission.until {
            return Ok(AppendStep::FindTail);
        }
        let Permission { document, before, .. } = permission;
        let made = self.log.documents.make(self.log.conversation, document, &self.messages(), before).await?;
        Ok(match made {
            DocumentInsert::Inserted => self.placed(document, 0, before, asked),
            // Another node made it, or a key is in an earlier document: then this document does not exist,
            // and the keys are looked up.
            DocumentInsert::Duplicate => AppendStep::Push(document),
        })
    }

    /// Numbers the messages that a document took, which had `before` messages, with the highest time up to
    /// them.
    fn placed(&mut self, document: i64, before: i64, mut highest: Highest, asked: Instant) -> AppendStep {
        let after = before + count(self.rest.len());
        let first = document * DOCUMENT + before + 1;
        let taken = self.rest.len().min(usize::try_from(DOCUMENT - before).unwrap_or(0));
        for (at, seq) in self.rest.drain(..taken).zip(first..) {
            self.results[at] = Some(Appended::New(seq));
            highest = highest.map(|highest| highest.max(self.batch[at].sent));
        }
        if after >= DOCUMENT {
            // The next append would match nothing there.
            self.log.hints.forget(self.log.conversation);
            return AppendStep::Make(Permission::new(document + 1, asked, highest));
        }
        self.log.hints.set(self.log.conversation, document);
        AppendStep::Push(document)
    }

    /// Settles the messages that are in the log already. The others are retried, from its tail.
    async fn resolve(&mut self) -> Result<AppendStep, StoreError> {
        self.log.hints.forget(self.log.conversation);
        let keys: Vec<MessageKey> = self.messages().iter().map(|new| new.key).collect();
        let sent = self.log.documents.find_sent(self.log.conversation, &keys).await?;
        for at in std::mem::take(&mut self.rest) {
            let new = &self.batch[at];
            match sent.get(&new.key) {
                Some(sent) if self.may_have_landed && sent.is_of(new) => {
                    self.results[at] = Some(Appended::New(sent.seq));
                }
                Some(sent) => self.results[at] = Some(sent.compared_with(new.hash)),
                None => self.rest.push(at),
            }
        }
        Ok(AppendStep::FindTail)
    }

    fn messages(&self) -> Vec<&'a NewMessage> {
        self.rest.iter().map(|at| &self.batch[*at]).collect()
    }

    /// The whole append's error: a part of the batch may be in the log, regardless of the last command.
    fn failed(&self, error: StoreError) -> StoreError {
        // The next attempt shares no command with others.
        self.log.hints.forget(self.log.conversation);
        if self.results.iter().all(Option::is_none) && !self.may_have_landed {
            return error;
        }
        let outcome = Outcome::Unknown;
        match error {
            StoreError::Unavailable { source, .. } => StoreError::Unavailable { outcome, source },
            StoreError::Internal { source, .. } => StoreError::Internal { outcome, source },
            other => StoreError::Unavailable { outcome, source: Arc::new(other) },
        }
    }
}

impl EarlierSend {
    /// Whether it is this message, and not an earlier send with its key.
    fn is_of(&self, new: &NewMessage) -> bool {
        self.hash == Some(new.hash) && self.sent == new.sent
    }

    pub(super) fn compared_with(&self, hash: ContentHash) -> Appended {
        // An erased message has no hash.
        if self.hash.is_none_or(|kept| kept == hash) {
            Appended::Replayed { seq: self.seq, sent: self.sent }
        } else {
            Appended::OtherContent
        }
    }
}
