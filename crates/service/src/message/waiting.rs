//! Messages that wait on this node for their append, and the steps in which they are appended.

use std::collections::{HashMap, VecDeque};

use kith_store::{Appended, ConversationId, NewMessage, StoreError, Timestamp};
use metrics::Gauge;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::MessagesConfig;
use crate::{
    error::{Error, Reason},
    metric::{MESSAGE_QUEUE, as_f64},
    write::mutations::unknown,
};

/// Most messages of a step, as in one call of the store.
pub(super) const STEP_MAX: usize = 100;
/// Most bytes of a step with more than one message.
pub(super) const STEP_BYTES: usize = 1 << 20;

const _: () = assert!(STEP_MAX == 100 && kith_store::DOCUMENT == 100);

/// The result of a message.
pub(super) type AppendResult = Result<Appended, StoreError>;

/// A message that waits for its number.
#[derive(Debug)]
pub(super) struct AppendWaiter {
    pub(super) message: NewMessage,
    pub(super) callers: Callers,
    /// Whether no user is notified of it.
    pub(super) is_imported: bool,
}

/// A caller that waits for the result of a message. If it has gone away, the message is appended nevertheless.
#[derive(Debug)]
pub(super) struct Callers {
    first: oneshot::Sender<AppendResult>,
    /// Repeats of the same message before it was appended.
    repeats: Vec<oneshot::Sender<AppendResult>>,
    sent: Timestamp,
}

impl AppendWaiter {
    /// A message and its waiting caller.
    pub(super) fn new(message: NewMessage) -> (Self, oneshot::Receiver<AppendResult>) {
        let (first, answered) = oneshot::channel();
        let callers = Callers { first, repeats: Vec::new(), sent: message.sent };
        (Self { message, callers, is_imported: false }, answered)
    }

    /// A message that was sent elsewhere, and its waiting caller.
    pub(super) fn imported(message: NewMessage) -> (Self, oneshot::Receiver<AppendResult>) {
        let (waiter, answered) = Self::new(message);
        (Self { is_imported: true, ..waiter }, answered)
    }

    /// Whether this is the same message as another one.
    fn repeats(&self, other: &Self) -> bool {
        self.message.key == other.message.key && self.message.hash == other.message.hash
    }
}

impl Callers {
    /// Answers all callers. Only the first one has sent the message; for the others it is a replay.
    pub(super) fn answer(self, answer: &AppendResult) {
        for repeat in self.repeats {
            let of_repeat = match answer {
                Ok(Appended::New(seq)) => Ok(Appended::Replayed { seq: *seq, sent: self.sent }),
                other => other.clone(),
            };
            drop(repeat.send(of_repeat));
        }
        drop(self.first.send(answer.clone()));
    }
}

/// Waits for the result of a message.
pub(super) async fn answer(answered: oneshot::Receiver<AppendResult>) -> AppendResult {
    answered.await.unwrap_or_else(|_| Err(unknown("the step of the message was given up")))
}

/// The queues of all conversations. A conversation is in the map as long as it has a turn.
#[derive(Debug)]
pub(super) struct WaitingAppends {
    queues: Mutex<Queues>,
    /// Most messages of all conversations together.
    most: usize,
    /// Most messages of one conversation.
    most_of_one: usize,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Queues {
    conversations: HashMap<ConversationId, VecDeque<AppendWaiter>>,
    count: usize,
}

impl WaitingAppends {
    pub(super) fn new(config: &MessagesConfig) -> Self {
        Self {
            queues: Mutex::default(),
            most: config.queue,
            most_of_one: config.queue_of_one,
            gauge: metrics::gauge!(MESSAGE_QUEUE.name),
        }
    }

    /// Queues messages in their order, all or none. Returns whether the caller has to begin a turn of the conversation.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(super) fn push(
        &self,
        conversation: ConversationId,
        waiters: Vec<AppendWaiter>,
    ) -> Result<bool, Error> {
        let added = waiters.len();
        let mut queues = self.queues.lock();
        let before = queues.conversations.get(&conversation).map(VecDeque::len);
        if before.unwrap_or_default() + added > self.most_of_one {
            return Err(full("too many messages of the conversation wait to be stored"));
        }
        if queues.count + added > self.most {
            return Err(full("too many messages wait on the node to be stored"));
        }
        queues.count += added;
        queues.conversations.entry(conversation).or_default().extend(waiters);
        self.gauge.increment(as_f64(added));
        Ok(before.is_none())
    }

    /// Begins to append to a conversation.
    pub(super) const fn turn(&self, conversation: ConversationId) -> AppendTurn<'_> {
        AppendTurn { waiting: self, conversation, ended: false }
    }
}

/// The right of one task to append to a conversation on this node, until nothing waits for it.
#[derive(Debug)]
pub(super) struct AppendTurn<'a> {
    waiting: &'a WaitingAppends,
    conversation: ConversationId,
    ended: bool,
}

impl AppendTurn<'_> {
    /// The next step, in the order in which its messages came; `None`: nothing waits, and the turn has ended.
    pub(super) fn next_step(&mut self) -> Option<Vec<AppendWaiter>> {
        let mut queues = self.waiting.queues.lock();
        let step = queues.conversations.get_mut(&self.conversation).map(step_of).unwrap_or_default();
        let taken = step.iter().map(|waiter| 1 + waiter.callers.repeats.len()).sum();
        queues.count -= taken;
        self.waiting.gauge.decrement(as_f64(taken));
        if step.is_empty() {
            queues.conversations.remove(&self.conversation);
            self.ended = true;
            return None;
        }
        Some(step)
    }
}

impl Drop for AppendTurn<'_> {
    /// If the turn was cut short, waiting callers get an error, and the next message begins another turn.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut queues = self.waiting.queues.lock();
        let left = queues.conversations.remove(&self.conversation).unwrap_or_default();
        queues.count -= left.len();
        self.waiting.gauge.decrement(as_f64(left.len()));
    }
}

/// As many messages as are appended at once, without repeated keys: a store does not compare the messages of one append
/// with each other.
fn step_of(queue: &mut VecDeque<AppendWaiter>) -> Vec<AppendWaiter> {
    let (mut step, mut bytes, mut positions) = (Vec::<AppendWaiter>::new(), 0, HashMap::new());
    while let Some(next) = queue.front() {
        let first = positions.get(&next.message.key).map(|at: &usize| &mut step[*at]);
        match first {
            Some(first) if next.repeats(first) => {
                first.callers.repeats.extend(queue.pop_front().map(|next| next.callers.first));
                continue;
            }
            // The store compares the contents.
            Some(_) => break,
            None => bytes += next.message.weight(),
        }
        if !step.is_empty() && (step.len() >= STEP_MAX || bytes > STEP_BYTES) {
            break;
        }
        positions.insert(next.message.key, step.len());
        step.extend(queue.pop_front());
    }
    step
}

fn full(why: &'static str) -> Error {
    Error::new(Reason::Overloaded, why)
}

#[cfg(test)]
mod tests {
    use kith_store::{ContentHash, Outcome};

    use super::{
        super::sample::{group, message},
        *,
    };

    fn waiting(most: usize, most_of_one: usize) -> WaitingAppends {
        WaitingAppends::new(&MessagesConfig {
            queue: most,
            queue_of_one: most_of_one,
            ..MessagesConfig::default()
        })
    }

    /// Messages with these ids and bodies of this size.
    fn some<'a>(ids: impl IntoIterator<Item = &'a str>, bytes: usize) -> Vec<AppendWaiter> {
        ids.into_iter().map(|id| AppendWaiter::new(message(id, bytes)).0).collect()
    }

    fn many(count: usize, bytes: usize) -> Vec<AppendWaiter> {
        let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        some(ids.iter().map(String::as_str), bytes)
    }

    fn steps(waiting: &WaitingAppends) -> Vec<Vec<String>> {
        let mut turn = waiting.turn(group(9));
        let id = |waiter: &AppendWaiter| waiter.message.client_message_id.as_deref().unwrap().to_owned();
        std::iter::from_fn(|| turn.next_step()).map(|step| step.iter().map(id).collect()).collect()
    }

    #[test]
    fn one_task_has_the_turn_until_nothing_waits() {
        let waiting = waiting(100, 100);
        assert!(waiting.push(group(9), some(["a"], 1)).unwrap());
        assert!(!waiting.push(group(9), some(["b"], 1)).unwrap(), "it has a turn");
        assert!(waiting.push(group(8), some(["a"], 1)).unwrap(), "another conversation");
        assert_eq!(steps(&waiting), [["a", "b"]]);
        assert!(waiting.push(group(9), some(["c"], 1)).unwrap(), "the turn has ended");
    }

    #[test]
    fn step_has_100_messages_in_their_order() {
        let waiting = waiting(1_000, 1_000);
        waiting.push(group(9), many(250, 1)).unwrap();
        let steps = steps(&waiting);
        assert_eq!(steps.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100, 50]);
        assert!(steps.concat().iter().enumerate().all(|(at, id)| *id == at.to_string()));
    }

    #[test]
    fn step_has_1_mib() {
        let waiting = waiting(1_000, 1_000);
        let third = STEP_BYTES / 3;
        waiting.push(group(9), many(4, third)).unwrap();
        assert_eq!(steps(&waiting).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn larger_message_has_a_step_of_its_own() {
        let waiting = waiting(1_000, 1_000);
        waiting.push(group(9), many(2, STEP_BYTES + 1)).unwrap();
        assert_eq!(steps(&waiting).len(), 2);
    }

    #[test]
    fn message_that_is_sent_again_is_in_a_step_once() {
        let waiting = waiting(1_000, 1_000);
        waiting.push(group(9), some(["a", "b", "a", "c"], 1)).unwrap();
        assert_eq!(steps(&waiting), [["a", "b", "c"]]);
        assert!(waiting.push(group(9), many(1_000, 1)).is_ok(), "a repeat that was taken waits no longer");
    }

    #[test]
    fn same_key_other_content_takes_its_own_step() {
        let waiting = waiting(1_000, 1_000);
        let other = NewMessage { hash: ContentHash::of("", b"other"), ..message("a", 1) };
        let mut waiters = some(["a", "b"], 1);
        waiters.push(AppendWaiter::new(other).0);
        waiting.push(group(9), waiters).unwrap();
        waiting.push(group(9), some(["c"], 1)).unwrap();
        assert_eq!(steps(&waiting), [["a", "b"], ["a", "c"]]);
    }

    #[test]
    fn full_queue_refuses_all_of_a_batch() {
        let waiting = waiting(250, 200);
        waiting.push(group(9), many(150, 1)).unwrap();
        let refused = |of, count| waiting.push(group(of), many(count, 1)).unwrap_err().reason();
        assert_eq!(refused(9, 51), Reason::Overloaded, "200 of one conversation");
        assert_eq!(refused(8, 101), Reason::Overloaded, "250 of all");
        assert!(waiting.push(group(9), many(50, 1)).is_ok());
        assert!(waiting.push(group(8), many(50, 1)).is_ok());
        assert_eq!(refused(7, 1), Reason::Overloaded);
        assert_eq!(steps(&waiting).concat().len(), 200);
        assert!(waiting.push(group(7), many(200, 1)).is_ok(), "what was taken waits no longer");
    }

    #[tokio::test]
    async fn turn_cut_short_leaves_the_outcome_unknown() {
        let waiting = waiting(100, 100);
        let (waiter, answered) = AppendWaiter::new(message("a", 1));
        waiting.push(group(9), vec![waiter]).unwrap();
        drop(waiting.turn(group(9)));
        assert_eq!(answer(answered).await.unwrap_err().outcome(), Outcome::Unknown);
        assert!(waiting.push(group(9), many(100, 1)).unwrap(), "nothing waits, and the turn is free");
    }
}
