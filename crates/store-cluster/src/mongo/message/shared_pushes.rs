//! Pushes into documents that share a command.
//!
//! A command costs MongoDB and the driver several times what a push costs. So while some commands are under
//! way further pushes wait, and those that wait become one `update` command. Its reply says which pushes were
//! refused, and not where the others are: a read after it finds them by their keys. A push that waits alone
//! is a `findAndModify` command, whose reply says all.
//!
//! A push may have to wait for a transaction on its document, and those that share its command with it. A
//! caller whose push was not seen shares no command for its next attempt (see `append.rs`).

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use kith_store::{ConversationId, MessageKey, NewMessage, Outcome, StoreError, millis};
use mongodb::{
    Collection, Database,
    bson::{Document, RawDocument, RawDocumentBuf, doc},
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};

use super::{
    super::{
        command::{durable_document, run_unless_absent, run_write},
        document::number_in,
        error::{is_duplicate, out_of_time, read_failed, write_failed},
    },
    documents::{
        Highest, PushOutcome, conversation_in, document_in, highest_of, id, push_outcome, push_update,
        reply_size, room_in, size_and_highest,
    },
    element,
};

/// The most commands under way, but for slow ones.
const COMMANDS: usize = 2;
/// The most pushes in a command.
const SHARED_MAX: usize = 50;
/// The most bytes in a push that shares a command.
const SHARED_BYTES: usize = 64 << 10;
/// A command that takes longer does not keep others waiting.
const SLOW: Duration = Duration::from_millis(100);
/// An id that no document can have. A statement without a document to push into would make one: this id makes
/// it fail, so that the reply says which statements had none.
const NOTHING: i32 = 0;
/// The server's time limit for a command that is shared: how long a push can delay others.
const SHARED_LIMIT: Duration = Duration::from_secs(1);

/// A node's pushes. Cheap to clone.
#[derive(Clone)]
pub(in crate::mongo) struct SharedPushes {
    database: Database,
    messages: Collection<RawDocumentBuf>,
    command: Duration,
    write_majority: Duration,
    queue: Arc<Mutex<PushQueue>>,
}

#[derive(Debug, Default)]
struct PushQueue {
    waiting: VecDeque<WaitingPush>,
    /// Commands under way that are not slow.
    commands: usize,
}

/// Messages for a document, and the caller that waits for the result.
#[derive(Debug)]
struct WaitingPush {
    push: Push,
    answer: oneshot::Sender<Result<PushOutcome, StoreError>>,
}

/// Messages for a document.
#[derive(Debug)]
pub(super) struct Push {
    conversation: ConversationId,
    document: i64,
    /// The first message's key.
    first: Option<MessageKey>,
    bytes: usize,
    query: Document,
    update: Document,
}

impl Push {
    pub(super) fn new(conversation: ConversationId, document: i64, messages: &[&NewMessage]) -> Self {
        Self {
            conversation,
            document,
            first: messages.first().map(|new| new.key),
            bytes: messages.iter().map(|new| new.weight()).sum(),
            query: room_in(conversation, document, messages),
            update: push_update(messages),
        }
    }
}

impl SharedPushes {
    /// Pushes into this collection. `command`, `write_majority`: the time limits for a command, and for its
    /// write concern.
    pub(in crate::mongo) fn new(
        database: &Database,
        messages: &'static str,
        command: Duration,
        write_majority: Duration,
    ) -> Self {
        let (database, messages, queue) = (database.clone(), database.collection(messages), Arc::default());
        Self { database, messages, command, write_majority, queue }
    }

    /// Makes a push that may share its command with others.
    pub(super) async fn push(&self, push: Push) -> Result<PushOutcome, StoreError> {
        if push.bytes > SHARED_BYTES {
            return self.push_alone(push).await;
        }
        let (answer, answered) = oneshot::channel();
        if self.queue.lock().add(WaitingPush { push, answer }) {
            // Runs in its own task: others' pushes must not depend on this call.
            tokio::spawn(self.clone().run_commands());
        }
        answered.await.unwrap_or_else(|_| Err(out_of_time(Outcome::Unknown)))
    }

    /// Makes a push by its own command, whose reply tells its result.
    pub(super) async fn push_alone(&self, push: Push) -> Result<PushOutcome, StoreError> {
        // A raw command: for the typed command, which the driver may retry, the server would keep an image of
        // the whole document.
        let command = doc! {
            "findAndModify": self.messages.name(),
            "query": push.query,
            "update": push.update,
            "fields": size_and_highest(),
            "new": false,
            "maxTimeMS": millis(self.command),
            "writeConcern": durable_document(self.write_majority),
        };
        match run_write(&self.database, command).await {
            Ok(reply) => push_outcome(&reply),
            Err(error) if is_duplicate(&error) => Ok(PushOutcome::Duplicate),
            Err(error) => Err(write_failed(error)),
        }
    }

    /// Runs commands until no push waits.
    async fn run_commands(self) {
        loop {
            let pushes = self.queue.lock().take();
            if pushes.is_empty() {
                return;
            }
            let this = self.clone();
            let running = tokio::spawn(async move { this.run(pushes).await });
            timeout(SLOW, running).await.ok();
        }
    }

    async fn run(&self, mut waiting: Vec<WaitingPush>) {
        if let [_] = waiting[..]
            && let Some(WaitingPush { push, answer }) = waiting.pop()
        {
            answer.send(self.push_alone(push).await).ok();
            return;
        }
        let (pushes, answers): (Vec<Push>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.push, waiting.answer)).unzip();
        let mut outcomes = vec![PushOutcome::Unseen; pushes.len()];
        if let Err(error) = self.push_shared(pushes, &mut outcomes).await {
            tracing::debug!(%error, "pushes that shared a command are looked up one by one");
        }
        for (answer, outcome) in answers.into_iter().zip(outcomes) {
            answer.send(Ok(outcome)).ok();
        }
    }

    /// Makes pushes by one command, and sets their outcomes as far as they are known.
    async fn push_shared(&self, pushes: Vec<Push>, outcomes: &mut [PushOutcome]) -> Result<(), StoreError> {
        let (mut targets, mut statements) = (Vec::new(), Vec::new());
        for Push { conversation, document, first, query, mut update, .. } in pushes {
            targets.push((conversation, document, first));
            update.insert("$setOnInsert", doc! { "_id": NOTHING });
            statements.push(doc! { "q": query, "u": update, "upsert": true });
        }
        let command = doc! {
            "update": self.messages.name(),
            "updates": statements,
            "ordered": false,
            "writeConcern": durable_document(self.write_majority),
            "maxTimeMS": millis(self.command.min(SHARED_LIMIT)),
        };
        for refused in run_unless_absent(&self.database, command).await.map_err(write_failed)? {
            if let Some(outcome) = outcomes.get_mut(refused) {
                *outcome = PushOutcome::Unmatched;
            }
        }
        self.find_pushed(&targets, outcomes).await
    }

    /// Finds messages in the documents into which they were pushed.
    async fn find_pushed(
        &self,
        targets: &[(ConversationId, i64, Option<MessageKey>)],
        outcomes: &mut [PushOutcome],
    ) -> Result<(), StoreError> {
        let mut pushed: HashMap<_, Vec<_>> = HashMap::with_capacity(targets.len());
        for ((log, document, first), outcome) in targets.iter().zip(outcomes) {
            if let (Some(first), PushOutcome::Unseen) = (first, *outcome) {
                pushed.entry((*log, *document)).or_default().push((*first, outcome));
            }
        }
        let find = pushed.keys().map(|(log, document)| id(*log, *document)).collect::<Vec<_>>();
        let find = self.messages.find(doc! { "_id": { "$in": find } });
        let find = find.projection(doc! { "hi": 1, "m.k": 1, "m.t": 1 });
        let find = find.batch_size(reply_size(targets.len())).max_time(self.command);
        let mut cursor = find.await.map_err(read_failed)?;
        while cursor.advance().await.map_err(read_failed)? {
            let found = cursor.current();
            let Some(pushed) = pushed.get_mut(&(conversation_in(found)?, document_in(found)?)) else {
                continue;
            };
            for_each_place(found, |key, before, highest| {
                for (_, outcome) in pushed.iter_mut().filter(|(first, _)| *first == key) {
                    **outcome = PushOutcome::After(before, highest);
                }
            })?;
        }
        Ok(())
    }
}

impl fmt::Debug for SharedPushes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPushes").finish_non_exhaustive()
    }
}

impl PushQueue {
    /// Adds a push. Returns whether the caller must start a task that runs commands.
    fn add(&mut self, push: WaitingPush) -> bool {
        self.waiting.push_back(push);
        let starts = self.commands < COMMANDS;
        self.commands += usize::from(starts);
        starts
    }

    /// Takes the pushes for a command. If there are none, the task that asks has ended.
    fn take(&mut self) -> Vec<WaitingPush> {
        let count = self.waiting.len().min(SHARED_MAX);
        if count == 0 {
            self.commands -= 1;
        }
        self.waiting.drain(..count).collect()
    }
}

/// Names the key of each message in a document, how many are before it, and the highest time up to these.
fn for_each_place(
    found: &RawDocument,
    mut place: impl FnMut(MessageKey, i64, Highest),
) -> Result<(), StoreError> {
    let (hi, mut latest) = (number_in(found, "hi")?, None);
    for (before, element) in (0..).zip(element::elements_in(found)?) {
        let (key, sent) = element::key_and_time(element?)?;
        place(key, before, highest_of(hi, latest));
        latest = latest.max(Some(sent.0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kith_store::conformance::message_sample::{log_of, message};

    use super::*;

    fn waiting(id: &str) -> (WaitingPush, oneshot::Receiver<Result<PushOutcome, StoreError>>) {
        let (answer, answered) = oneshot::channel();
        (WaitingPush { push: Push::new(log_of(9), 0, &[&message(id)]), answer }, answered)
    }

    #[test]
    fn pushes_wait_while_commands_are_under_way() {
        let mut queue = PushQueue::default();
        let add = |queue: &mut PushQueue| queue.add(waiting("a").0);
        assert_eq!([(); 4].map(|()| add(&mut queue)), [true, true, false, false]);
        assert_eq!((queue.take().len(), queue.take().len()), (4, 0));
        assert!(add(&mut queue), "a command has ended");
        assert!(!add(&mut queue), "another is still under way");
    }

    #[test]
    fn command_is_bounded() {
        let mut queue = PushQueue::default();
        for _ in 0..=SHARED_MAX {
            queue.add(waiting("a").0);
        }
        assert_eq!((queue.take().len(), queue.take().len()), (SHARED_MAX, 1));
    }

    #[test]
    fn message_is_found_by_its_key() {
        let [a, b, c] = ["a", "b", "c"].map(message);
        let element = |new: &NewMessage, sent: i64| doc! { "k": element::key(new.key), "t": sent };
        let stored = doc! { "hi": 3_i64, "m": [element(&a, 5), element(&b, 2), element(&c, 9)] };
        let stored = RawDocumentBuf::try_from(&stored).unwrap();
        let mut places = Vec::new();
        for_each_place(&stored, |key, before, highest| places.push((key, before, highest))).unwrap();
        let highest = |time| Some(kith_store::Timestamp(time));
        assert_eq!(places, [(a.key, 0, highest(3)), (b.key, 1, highest(5)), (c.key, 2, highest(5))]);
    }
}
