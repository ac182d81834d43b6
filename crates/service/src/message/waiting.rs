//! Messages that wait on this node for their append, and the steps in which they are appended.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use kith_store::{Appended, ConversationId, NewMessage, StoreError, Timestamp};
use metrics::Gauge;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use super::{MessagesConfig, send_times::LastTimes};
use crate::{
    error::{Error, Reason},
    metric::{MESSAGE_QUEUE, as_f64},
    write::mutations::unknown,
};

/// The most messages in a step, as in one store call.
pub(super) const STEP_MAX: usize = 100;
/// The most bytes in a step with more than one message.
pub(super) const STEP_BYTES: usize = 1 << 20;

const _: () = assert!(STEP_MAX == 100 && kith_store::DOCUMENT == 100);

/// A message's result.
pub(super) type AppendResult = Result<Appended, StoreError>;

/// Whether messages are sent now, or were sent elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentWhen {
    /// Their times are raised to the last message's time.
    Now,
    /// They keep their times, and no user is notified about them.
    Before,
}

/// A message that waits for its number.
#[derive(Debug)]
pub(super) struct AppendWaiter {
    message: NewMessage,
    callers: Callers,
    when: SentWhen,
}

/// Messages that are appended together.
#[derive(Debug)]
pub(super) struct AppendStep {
    pub(super) when: SentWhen,
    pub(super) messages: Arc<[NewMessage]>,
    pub(super) callers: Vec<Callers>,
}

/// Messages that were queued.
#[derive(Debug)]
pub(super) struct QueuedMessages {
    /// The times that they have.
    pub(super) times: Vec<Timestamp>,
    /// Whether the caller has to begin a turn for the conversation.
    pub(super) begins_turn: bool,
}

/// A caller that waits for a message's result. If it has gone away, the message is appended nevertheless.
#[derive(Debug)]
pub(super) struct Callers {
    first: oneshot::Sender<AppendResult>,
    /// Repeats of the same message before it was appended.
    repeats: Vec<oneshot::Sender<AppendResult>>,
    sent: Timestamp,
}

impl AppendWaiter {
    /// A message and its waiting caller.
    pub(super) fn new(message: NewMessage, when: SentWhen) -> (Self, oneshot::Receiver<AppendResult>) {
        let (first, answered) = oneshot::channel();
        let callers = Callers { first, repeats: Vec::new(), sent: message.sent };
        (Self { message, callers, when }, answered)
    }

    /// Whether this is the same message as another.
    fn repeats(&self, other: &Self) -> bool {
        self.message.key == other.message.key && self.message.hash == other.message.hash
    }
}

impl Callers {
    /// Answers all callers. Only the first has sent the message; for the others it is a replay.
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

/// Waits for a message's result.
pub(super) async fn answer(answered: oneshot::Receiver<AppendResult>) -> AppendResult {
    answered.await.unwrap_or_else(|_| Err(unknown("the step of the message was given up")))
}

/// All conversations' queues. A conversation is in the map as long as it has a turn.
#[derive(Debug)]
pub(super) struct WaitingAppends {
    queues: Mutex<Queues>,
    /// The most messages in all conversations together.
    most: usize,
    /// The most messages in one conversation.
    most_of_one: usize,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Queues {
    conversations: HashMap<ConversationId, ConversationQueue>,
    count: usize,
    /// The last messages' times, in the order of the queues.
    times: LastTimes,
}

#[derive(Debug, Default)]
struct ConversationQueue {
    waiters: VecDeque<AppendWaiter>,
    /// Notified when messages are queued.
    queued: Arc<Notify>,
}

/// Messages that are stored, and count as messages that wait until this is dropped.
#[derive(Debug)]
pub(super) struct StoredCount<'a> {
    waiting: &'a WaitingAppends,
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

    /// Queues messages in their order, all or none. Those that are sent now get times that do not fall.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub(super) fn push(
        &self,
        conversation: ConversationId,
        mut waiters: Vec<AppendWaiter>,
    ) -> Result<QueuedMessages, Error> {
        let added = waiters.len();
        let mut queues = self.queues.lock();
        let before = queues.conversations.get(&conversation).map(|queue| queue.waiters.len());
        if before.unwrap_or_default() + added > self.most_of_one {
            return Err(full("too many messages of the conversation wait to be stored"));
        }
        if queues.count + added > self.most {
            return Err(full("too many messages wait on the node to be stored"));
        }
        queues.count += added;
        let times = waiters.iter_mut().map(|waiter| queues.times.give(conversation, waiter)).collect();
        let queue = queues.conversations.entry(conversation).or_default();
        queue.waiters.extend(waiters);
        queue.queued.notify_one();
        self.gauge.increment(as_f64(added));
        Ok(QueuedMessages { times, begins_turn: before.is_none() })
    }

    /// Counts messages that are stored, and wait until the step before theirs is delivered.
    pub(super) fn count_stored(&self, count: usize) -> StoredCount<'_> {
        self.queues.lock().count += count;
        self.gauge.increment(as_f64(count));
        StoredCount { waiting: self, count }
    }

    /// Begins to append to a conversation.
    pub(super) const fn turn(&self, conversation: ConversationId) -> AppendTurn<'_> {
        AppendTurn { waiting: self, conversation, ended: false }
    }
}

/// One task's right to append to a conversation on this node, until nothing waits for it.
#[derive(Debug)]
pub(super) struct AppendTurn<'a> {
    waiting: &'a WaitingAppends,
    conversation: ConversationId,
    ended: bool,
}

impl AppendTurn<'_> {
    /// The next step, in the order in which its messages came; `None`: nothing waits, and the turn has ended.
    pub(super) fn next_step(&mut self) -> Option<AppendStep> {
        let mut queues = self.waiting.queues.lock();
        let step = self.waiting.take_step(&mut queues, self.conversation);
        if step.is_none() {
            queues.conversations.remove(&self.conversation);
            self.ended = true;
        }
        step
    }

    /// The next step, if a message for it is queued before this future ends; `None`: it has ended.
    pub(super) async fn next_step_before(&self, end: impl Future<Output = ()>) -> Option<AppendStep> {
        let queued = {
            let queues = self.waiting.queues.lock();
            Arc::clone(&queues.conversations.get(&self.conversation)?.queued)
        };
        let next = async {
            loop {
                let step = self.waiting.take_step(&mut self.waiting.queues.lock(), self.conversation);
                match step {
                    Some(step) => return step,
                    None => queued.notified().await,
                }
            }
        };
        tokio::select! {
            biased;
            step = next => Some(step),
            () = end => None,
        }
    }
}

impl Drop for AppendTurn<'_> {
    /// If the turn was cut short, waiting callers get an error, and the next message begins another turn.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut queues = self.waiting.queues.lock();
        let left = queues.conversations.remove(&self.conversation).unwrap_or_default().waiters;
        queues.count -= left.len();
        self.waiting.gauge.decrement(as_f64(left.len()));
    }
}

impl WaitingAppends {
    /// Takes a conversation's next step; `None`: nothing waits.
    fn take_step(&self, queues: &mut Queues, conversation: ConversationId) -> Option<AppendStep> {
        let step = step_of(&mut queues.conversations.get_mut(&conversation)?.waiters);
        let taken = step.iter().map(|waiter| 1 + waiter.callers.repeats.len()).sum();
        queues.count -= taken;
        self.gauge.decrement(as_f64(taken));
        let when = step.first()?.when;
        let (messages, callers): (Vec<NewMessage>, _) =
            step.into_iter().map(|AppendWaiter { message, callers, .. }| (message, callers)).unzip();
        Some(AppendStep { when, messages: messages.into(), callers })
    }
}

impl Drop for StoredCount<'_> {
    fn drop(&mut self) {
        self.waiting.queues.lock().count -= self.count;
        self.waiting.gauge.decrement(as_f64(self.count));
    }
}

impl LastTimes {
    /// A queued message's time.
    fn give(&mut self, conversation: ConversationId, waiter: &mut AppendWaiter) -> Timestamp {
        if waiter.when == SentWhen::Now {
            waiter.message.sent = self.raised(conversation, waiter.message.sent);
            waiter.callers.sent = waiter.message.sent;
        }
        self.note(conversation, waiter.message.sent);
        waiter.message.sent
    }
}

/// Takes the messages that are appended at once: all sent now or all elsewhere, without repeated keys,
/// because a store does not compare the messages in one append with each other.
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
        let is_full = step.len() >= STEP_MAX || bytes > STEP_BYTES;
        if step.first().is_some_and(|first| is_full || first.when != next.when) {
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

    /// Messages with these ids and bodies this large.
    fn some<'a>(ids: impl IntoIterator<Item = &'a str>, bytes: usize) -> Vec<AppendWaiter> {
        ids.into_iter().map(|id| AppendWaiter::new(message(id, bytes), SentWhen::Now).0).collect()
    }

    fn many(count: usize, bytes: usize) -> Vec<AppendWaiter> {
        let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        some(ids.iter().map(String::as_str), bytes)
    }

    fn steps(waiting: &WaitingAppends) -> Vec<Vec<String>> {
        let mut turn = waiting.turn(group(9));
        let id = |message: &NewMessage| message.client_message_id.as_deref().unwrap().to_owned();
        std::iter::from_fn(|| turn.next_step()).map(|step| step.messages.iter().map(id).collect()).collect()
    }

    /// Queues messages; whether a turn has to begin.
    fn begins(waiting: &WaitingAppends, conversation: i64, waiters: Vec<AppendWaiter>) -> bool {
        waiting.push(group(conversation), waiters).unwrap().begins_turn
    }

    #[test]
    fn one_task_has_the_turn_until_nothing_waits() {
        let waiting = waiting(100, 100);
        assert!(begins(&waiting, 9, some(["a"], 1)));
        assert!(!begins(&waiting, 9, some(["b"], 1)), "it has a turn");
        assert!(begins(&waiting, 8, some(["a"], 1)), "another conversation");
        assert_eq!(steps(&waiting), [["a", "b"]]);
        assert!(begins(&waiting, 9, some(["c"], 1)), "the turn has ended");
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
        waiters.push(AppendWaiter::new(other, SentWhen::Now).0);
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

    #[test]
    fn stored_step_counts_while_it_waits() {
        let waiting = waiting(100, 100);
        let stored = waiting.count_stored(60);
        assert_eq!(waiting.push(group(9), many(41, 1)).unwrap_err().reason(), Reason::Overloaded);
        drop(stored);
        assert!(waiting.push(group(9), many(100, 1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn next_step_is_taken_before_the_end() {
        let waiting = waiting(100, 100);
        waiting.push(group(9), many(1, 1)).unwrap();
        let mut turn = waiting.turn(group(9));
        assert!(turn.next_step().is_some());
        let end = || tokio::time::sleep(std::time::Duration::from_secs(1));
        assert!(turn.next_step_before(end()).await.is_none());
        let (step, begins) = tokio::join!(turn.next_step_before(end()), async {
            tokio::task::yield_now().await;
            begins(&waiting, 9, some(["a", "b"], 1))
        });
        assert_eq!(step.unwrap().messages.len(), 2);
        assert!(!begins, "the turn goes on");
        assert!(turn.next_step().is_none());
        assert!(begins_again(&waiting), "it has ended");
    }

    fn begins_again(waiting: &WaitingAppends) -> bool {
        begins(waiting, 9, some(["c"], 1))
    }

    #[tokio::test]
    async fn turn_cut_short_leaves_the_outcome_unknown() {
        let waiting = waiting(100, 100);
        let (waiter, answered) = AppendWaiter::new(message("a", 1), SentWhen::Now);
        waiting.push(group(9), vec![waiter]).unwrap();
        drop(waiting.turn(group(9)));
        assert_eq!(answer(answered).await.unwrap_err().outcome(), Outcome::Unknown);
        assert!(begins(&waiting, 9, many(100, 1)), "nothing waits, and the turn is free");
    }

    #[test]
    fn imported_messages_have_steps_of_their_own() {
        let waiting = waiting(1_000, 1_000);
        for (id, when) in [("a", SentWhen::Now), ("b", SentWhen::Before), ("c", SentWhen::Before)] {
            waiting.push(group(9), vec![AppendWaiter::new(message(id, 1), when).0]).unwrap();
        }
        waiting.push(group(9), some(["d"], 1)).unwrap();
        assert_eq!(steps(&waiting), [vec!["a"], vec!["b", "c"], vec!["d"]]);
    }

    #[test]
    fn times_rise_in_the_order_of_the_queue() {
        let waiting = waiting(1_000, 1_000);
        let queued = |sent, when| {
            let message = NewMessage { sent: Timestamp(sent), ..message(&sent.to_string(), 1) };
            waiting.push(group(9), vec![AppendWaiter::new(message, when).0]).unwrap().times
        };
        let raised = [8, 5, 9].map(|sent| queued(sent, SentWhen::Now));
        assert_eq!(raised, [[8], [8], [9]].map(|sent| sent.map(Timestamp)));
        assert_eq!(queued(7, SentWhen::Before), [Timestamp(7)]);
        let mut turn = waiting.turn(group(9));
        let stored: Vec<i64> = std::iter::from_fn(|| turn.next_step())
            .flat_map(|step| step.messages.to_vec())
            .map(|new| new.sent.0)
            .collect();
        assert_eq!(stored, [8, 8, 9, 7], "as they were answered");
        drop(turn);
        assert_eq!(queued(6, SentWhen::Now), [Timestamp(7)], "also after the turn");
    }
}
