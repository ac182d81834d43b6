//! Every sender has read its own messages. The senders' marks are gathered for a second, so that a user's
//! burst is one mark, and are repeated until they are stored. A node that dies loses the marks of its last
//! second.

use std::{collections::HashMap, time::Duration};

use futures::{StreamExt as _, stream};
use kith_store::{ConversationId, DialogKey, MARKS_AT_ONCE, MarkKind, Seq, UserId};
use metrics::Gauge;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Messages,
    sending::{MessageDraft, SendOutcome},
};
use crate::{
    dialog::MarkRequest,
    error::{Error, Reason},
    metric::{OWN_MARKS_WAITING, as_f64},
};

/// How long marks are gathered, and the pause after a failure.
const GATHERED_FOR: Duration = Duration::from_secs(1);
/// The deadline until a mark begins. A mark that has begun runs to its end.
const MARKED_WITHIN: Duration = Duration::from_secs(10);
/// How long a node's last marks may take when it stops.
const STORED_AT_STOP_WITHIN: Duration = Duration::from_secs(5);
/// The most marks that wait: some 10 MB. More would only wait while the store fails, and then sends fail as
/// well.
const WAITING_MAX: usize = 100_000;

/// The senders' marks that are not stored yet.
#[derive(Debug)]
pub(crate) struct OwnMarks {
    state: Mutex<OwnMarksState>,
    count: Gauge,
}

#[derive(Debug, Default)]
struct OwnMarksState {
    waiting: HashMap<DialogKey, OwnMark>,
    /// Whether a task is storing the marks.
    has_task: bool,
    /// Whether the node is stopping. No task begins then.
    stopped: bool,
}

/// A mark of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnMark {
    /// The number of the last own message.
    seq: Seq,
    /// Whether all own messages that it covers were imported.
    imported: bool,
}

impl OwnMarks {
    pub(super) fn new() -> Self {
        let count = metrics::gauge!(OWN_MARKS_WAITING.name);
        count.set(0.0);
        Self { state: Mutex::default(), count }
    }

    /// Adds a mark. Returns whether the caller must start the task that stores marks.
    fn add(&self, key: DialogKey, mark: OwnMark) -> bool {
        let mut state = self.state.lock();
        if state.waiting.len() >= WAITING_MAX && !state.waiting.contains_key(&key) {
            tracing::warn!("a message is not marked as read by its sender: too many marks wait");
            return false;
        }
        let waiting = state.waiting.entry(key).or_insert(mark);
        waiting.seq = mark.seq.max(waiting.seq);
        waiting.imported &= mark.imported;
        self.count.set(as_f64(state.waiting.len()));
        !state.stopped && !std::mem::replace(&mut state.has_task, true)
    }

    fn take(&self) -> HashMap<DialogKey, OwnMark> {
        let mut state = self.state.lock();
        // The gauge is set under the lock, so that it does not keep a value from before a concurrent change.
        self.count.set(0.0);
        std::mem::take(&mut state.waiting)
    }

    /// Whether the task that stores marks goes on. Otherwise the next mark starts a new task.
    fn goes_on(&self) -> bool {
        let mut state = self.state.lock();
        state.has_task = !state.stopped && !state.waiting.is_empty();
        state.has_task
    }

    fn stop(&self) {
        self.state.lock().stopped = true;
    }
}

impl MessageDraft {
    /// The user who has read up to the message when it is sent; `None`: there is no such user.
    pub(super) fn marker(&self) -> Option<UserId> {
        self.message.sender.filter(|_| !self.keeps_unread)
    }
}

impl Messages {
    /// Marks sent messages as read by their senders, in the background. `imported`: without signals to other
    /// users.
    pub(super) fn mark_own<'a>(
        &self,
        conversation: ConversationId,
        sent: impl Iterator<Item = (Option<UserId>, &'a Result<SendOutcome, Error>)>,
        imported: bool,
    ) {
        let mut starts = false;
        for (user, sent) in sent {
            if let (Some(user), Ok(sent)) = (user, sent) {
                let mark = OwnMark { seq: sent.seq, imported };
                starts |= self.own_marks.add(DialogKey { user, conversation }, mark);
            }
        }
        if starts {
            tokio::spawn(self.clone().gather_own_marks());
        }
    }

    async fn gather_own_marks(self) {
        loop {
            sleep(GATHERED_FOR).await;
            self.store_own_marks().await;
            if !self.own_marks.goes_on() {
                return;
            }
        }
    }

    /// Stores the waiting marks when the node stops. Must be called before writes are refused.
    pub async fn stop_own_marks(&self) {
        self.own_marks.stop();
        if timeout(STORED_AT_STOP_WITHIN, self.store_own_marks()).await.is_err() {
            tracing::warn!(
                "the last messages are not marked as read by their senders: the store did not answer"
            );
        }
    }

    /// Stores the waiting marks. Marks that the store did not take wait again.
    async fn store_own_marks(&self) {
        let marks = self.own_marks.take().into_iter().map(async |(key, mark)| {
            let this = self.clone();
            let work = async move { this.mark_one(key, mark).await };
            let marked = self.mutations.run(Instant::now() + MARKED_WITHIN, work).await;
            let Err(error) = marked else { return };
            if error.reason().retry_after().is_some() {
                self.own_marks.add(key, mark);
            } else {
                tracing::warn!(%error, "a message could not be marked as read by its sender");
            }
        });
        let marks: Vec<_> = marks.collect();
        stream::iter(marks).buffer_unordered(2 * MARKS_AT_ONCE).collect::<()>().await;
    }

    async fn mark_one(&self, key: DialogKey, OwnMark { seq, imported }: OwnMark) -> Result<(), Error> {
        let bounds = self.bounds(Some(key.user), &[key.conversation]).await?.into_iter().next();
        let bounds = match bounds {
            Some(Ok(bounds)) => bounds,
            // The user left the group meanwhile, and may read nothing in it.
            Some(Err(error)) if error.reason() == Reason::NotFound => return Ok(()),
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        };
        let (joined, last) = (bounds.joined(), bounds.left());
        if joined.is_some_and(|joined| seq < joined) {
            // The user left and joined again meanwhile: a mark in this stay would read messages that it
            // skipped.
            return Ok(());
        }
        let kind = MarkKind::UpTo(seq);
        let request = MarkRequest { key, kind, joined, last, exists: true, imported };
        self.marks.mark(request).await.map(drop)
    }
}
