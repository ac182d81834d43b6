//! Notes for steps whose messages may not be in all inboxes yet: in Redis, or in the store if Redis does not
//! take them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kith_delivery::FanOutNotes;
use kith_store::{ConversationId, DueNote, FanOutNote, FanOutNoteStore, NodeName};
use tokio::time::{Instant, sleep};

use super::{
    gathered_notes::{BegunNotes, EndedNote, EndedNotes},
    inboxes_unavailable,
};
use crate::{error::Error, message::store_error};

/// The most step notes that are removed together; further notes are left to the node that looks for notes.
const KEPT_MAX: usize = 100;
/// How long notes for ended steps are gathered. With a step they must take less than the time after which a
/// note is due.
const ENDED_FOR: Duration = Duration::from_secs(1);
/// How long a note in the store counts for later messages in its conversation. It is removed 15 s after it
/// was made, when the conversation has been delivered up to its end.
const IN_STORE_COUNTS_FOR: Duration = Duration::from_secs(5);

/// This node's notes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StepNotes {
    keeper: Arc<dyn FanOutNotes>,
    store: Arc<dyn FanOutNoteStore>,
    node: NodeName,
    next: Arc<AtomicU64>,
    begun: Arc<BegunNotes>,
    ended: Arc<EndedNotes>,
}

/// The place where notes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoteStorage {
    Redis,
    Store,
}

/// Steps that are noted. Their notes are removed when their messages are delivered.
#[derive(Debug, Default)]
#[must_use = "the notes are removed when the messages are delivered"]
pub(in crate::message) struct NotedSteps {
    notes: Vec<FanOutNote>,
    /// Whether Redis has not taken a note.
    is_missing: bool,
    /// When the last note was written into the store.
    in_store: Option<Instant>,
}

impl StepNotes {
    /// Notes in `keeper`, or in `store` while that does not answer. `node`: this node's name, new for each
    /// start.
    #[must_use]
    pub fn new(keeper: Arc<dyn FanOutNotes>, store: Arc<dyn FanOutNoteStore>, node: NodeName) -> Self {
        let (next, begun, ended) = (Arc::default(), Arc::default(), Arc::default());
        Self { keeper, store, node, next, begun, ended }
    }

    /// Notes a step. If Redis does not answer, the step goes on without a note.
    pub(super) async fn begin(&self, conversation: ConversationId) -> NotedSteps {
        let step = self.next.fetch_add(1, Ordering::Relaxed);
        let note = FanOutNote { conversation, node: self.node.clone(), step };
        let is_missing = !self.begun.write(&*self.keeper, note.clone()).await;
        NotedSteps { notes: vec![note], is_missing, in_store: None }
    }

    /// Writes notes that Redis has not taken into the store. If it does not answer either, there is none.
    pub(super) async fn keep(&self, steps: &mut NotedSteps) {
        steps.in_store = Some(Instant::now());
        for note in &steps.notes {
            self.store.keep_fan_out_note(note).await.ok();
        }
    }

    /// Removes step notes, within a second or so. A note that is left is found later, and its conversation is
    /// delivered again.
    pub(super) fn end(&self, steps: NotedSteps) {
        let is_in_store = steps.in_store.is_some();
        self.ended.add(steps.notes.into_iter().map(|note| EndedNote { note, is_in_store }));
    }

    /// Removes notes for ended steps, once a second while there are any.
    pub(super) async fn remove_as_they_end(&self) {
        loop {
            self.ended.added().await;
            sleep(ENDED_FOR).await;
            self.remove_ended().await;
        }
    }

    /// Removes notes for ended steps. If Redis does not answer they wait again.
    pub(super) async fn remove_ended(&self) {
        loop {
            let ended = self.ended.take();
            if ended.is_empty() {
                return;
            }
            let notes: Vec<FanOutNote> = ended.iter().map(|ended| ended.note.clone()).collect();
            let in_store = ended.iter().filter(|ended| ended.is_in_store).map(|ended| ended.note.clone());
            let in_store: Vec<FanOutNote> = in_store.collect();
            if !in_store.is_empty() {
                self.remove(NoteStorage::Store, &in_store).await.ok();
            }
            if self.remove(NoteStorage::Redis, &notes).await.is_err() {
                self.ended.add(ended);
                return;
            }
        }
    }

    /// Returns notes from all nodes that are older than this.
    ///
    /// # Errors
    /// If Redis or the store does not answer.
    pub(super) async fn due(
        &self,
        storage: NoteStorage,
        age: Duration,
        most: usize,
    ) -> Result<Vec<DueNote>, Error> {
        match storage {
            NoteStorage::Redis => self.keeper.due(age, most).await.map_err(|_| inboxes_unavailable()),
            NoteStorage::Store => self.store.due_fan_out_notes(age, most).await.map_err(store_error),
        }
    }

    /// Removes notes from any node.
    ///
    /// # Errors
    /// If Redis or the store does not answer.
    pub(super) async fn remove(&self, storage: NoteStorage, notes: &[FanOutNote]) -> Result<(), Error> {
        match storage {
            NoteStorage::Redis => self.keeper.end(notes).await.map_err(|_| inboxes_unavailable()),
            NoteStorage::Store => self.store.remove_fan_out_notes(notes).await.map_err(store_error),
        }
    }
}

impl NotedSteps {
    /// Whether notes are missing in both.
    pub(super) const fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Whether a note in the store counts for a message that is appended now.
    pub(super) fn counts_in_store(&self) -> bool {
        self.in_store.is_some_and(|at| at.elapsed() < IN_STORE_COUNTS_FOR)
    }

    /// Adds other steps.
    pub(super) fn merge(&mut self, other: Self) {
        let room = KEPT_MAX.saturating_sub(self.notes.len());
        self.notes.extend(other.notes.into_iter().take(room));
        self.is_missing |= other.is_missing;
        self.in_store = self.in_store.max(other.in_store);
    }
}

impl NoteStorage {
    pub(super) const ALL: [Self; 2] = [Self::Redis, Self::Store];

    /// Its name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Store => "store",
        }
    }
}
