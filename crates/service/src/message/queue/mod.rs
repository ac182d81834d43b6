//! Appends messages, many at once: for each conversation on this node one step at a time, while the step
//! before is delivered.
//!
//! Both stages are in order. A step's window and fan-out begin when those of the step before have ended: a
//! window is dropped for a gap, and recipients without a receiver are entered by rising number. At most one
//! stored step waits.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::join_all};
use kith_cache::{Moment, spans::Step};
use kith_store::{Appended, ConversationId, NewMessage, Outcome, StoreError, Timestamp};
use prost::bytes::Bytes;
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use super::{
    Delivery, MessagesConfig,
    deliver::StepDelivery,
    logs::{LogAdditions, Logs},
    waiting::{AppendResult, AppendStep, AppendWaiter, SentWhen, WaitingAppends, answer},
};
use crate::{
    error::Error,
    metric::{
        MESSAGE_APPEND_RETRIES, MESSAGE_APPEND_SECONDS, MESSAGE_APPEND_SIZE, SIGNALS, as_f64, count_from_zero,
    },
    write::mutations::{Mutations, unknown},
};

/// How long a step is retried.
const TRIED_FOR: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A node's appends. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AppendQueue {
    pub(super) logs: Logs,
    pub(super) delivery: Delivery,
    mutations: Mutations,
    waiting: Arc<WaitingAppends>,
}

impl AppendQueue {
    /// Creates an empty queue that appends to these logs, and delivers its appends before it answers.
    #[must_use]
    pub fn new(logs: Logs, delivery: Delivery, mutations: Mutations, config: &MessagesConfig) -> Self {
        count_from_zero(MESSAGE_APPEND_RETRIES, &["unavailable", "overloaded"]);
        drop(metrics::histogram!(MESSAGE_APPEND_SECONDS.name));
        drop(metrics::histogram!(MESSAGE_APPEND_SIZE.name));
        let waiting = Arc::new(WaitingAppends::new(config));
        Self { logs, delivery, mutations, waiting }
    }

    /// Sends a signal to the users in a conversation who receive now, unless they are too many.
    pub(super) async fn signal(&self, conversation: ConversationId, signal: &Bytes) {
        match self.delivery.recipients(conversation).await {
            Ok(Some(users)) => {
                metrics::counter!(SIGNALS.name, "kind" => "reactions").increment(1);
                self.delivery.inboxes().signal(users.to_vec(), signal);
            }
            Ok(None) => {}
            Err(_) => tracing::debug!("a signal is lost: the users of its conversation cannot be read"),
        }
    }

    /// Queues a conversation's messages in their order, to be appended together with others that wait for
    /// it. Returns the times that they got, and the pending results in the same order. Once this returns,
    /// they are appended, also if the pending results are dropped. For messages that were sent elsewhere, no
    /// user without a receiver is notified.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: the queue is full, and none is appended.
    pub(super) fn enqueue(
        &self,
        conversation: ConversationId,
        messages: Vec<NewMessage>,
        when: SentWhen,
    ) -> Result<(Vec<Timestamp>, impl Future<Output = Vec<AppendResult>> + Send + use<>), Error> {
        let span = Step::Append.span("message", messages.len());
        let waiting = messages.into_iter().map(|message| AppendWaiter::new(message, when));
        let (waiters, answers): (Vec<_>, Vec<_>) = waiting.unzip();
        let queued = self.waiting.push(conversation, waiters)?;
        if queued.begins_turn {
            // Runs in its own task: others' messages must not depend on this call.
            tokio::spawn(self.clone().append_all(conversation));
        }
        Ok((queued.times, join_all(answers.into_iter().map(answer)).instrument(span)))
    }

    /// Appends a conversation's waiting messages and delivers them, until there are none. While a step is
    /// finished, the next one is stored, if a message for it is queued by then.
    async fn append_all(self, conversation: ConversationId) {
        let mut turn = self.waiting.turn(conversation);
        while let Some(step) = turn.next_step() {
            let mut finish = self.store(conversation, step).await;
            loop {
                let mut finished = pin!(finish);
                let Some(next) = turn.next_step_before(finished.as_mut()).await else { break };
                let count = next.messages.len();
                let store_next = async {
                    let stored = self.store(conversation, next).await;
                    (self.waiting.count_stored(count), stored)
                };
                let ((), (_counted, stored)) = tokio::join!(finished, store_next);
                finish = stored;
            }
        }
    }

    /// Notes and appends a step. Returns what finishes it.
    async fn store(&self, conversation: ConversationId, step: AppendStep) -> impl Future<Output = ()> {
        let began = self.logs.now();
        let append = self.append_step(conversation, Arc::clone(&step.messages));
        let (appended, delivery) = tokio::join!(append, self.delivery.begin(conversation));
        self.finish(conversation, step, began, appended, delivery)
    }

    /// Delivers a step, and answers its callers. `began`: when its append began, or earlier.
    async fn finish(
        &self,
        conversation: ConversationId,
        step: AppendStep,
        began: Moment,
        appended: Appends,
        delivery: StepDelivery,
    ) {
        match appended {
            Ok(appended) => {
                let added = LogAdditions::of(&step.messages, &appended).sent(step.when);
                let window = self.logs.appended(conversation, &added, began).shared();
                tokio::join!(window.clone(), delivery.appended(&added, window));
                step.callers.into_iter().zip(appended).for_each(|(callers, one)| callers.answer(&Ok(one)));
            }
            Err(error) => {
                if error.outcome() == Outcome::Unknown {
                    // They may have been appended; another node delivers them then.
                    drop(delivery);
                    self.logs.doubt(conversation).await;
                } else {
                    delivery.end();
                }
                step.callers.into_iter().for_each(|callers| callers.answer(&Err(error.clone())));
            }
        }
    }

    /// Appends a step, and retries while the store is not available. An append with keys may be repeated
    /// whatever its outcome was.
    async fn append_step(&self, conversation: ConversationId, messages: Arc<[NewMessage]>) -> Appends {
        let (began, mut pause, mut may_have_landed) = (Instant::now(), FIRST_PAUSE, false);
        loop {
            let error = match self.try_append(conversation, &messages).await {
                Ok(appended) => {
                    metrics::histogram!(MESSAGE_APPEND_SECONDS.name).record(began.elapsed());
                    metrics::histogram!(MESSAGE_APPEND_SIZE.name).record(as_f64(messages.len()));
                    return Ok(first_sends(&messages, appended, may_have_landed));
                }
                Err(error) => error,
            };
            may_have_landed |= error.outcome() == Outcome::Unknown;
            let why = retried(&error, may_have_landed).filter(|_| began.elapsed() + pause < TRIED_FOR);
            let Some(why) = why else { return Err(outcome_of_all(error, may_have_landed)) };
            metrics::counter!(MESSAGE_APPEND_RETRIES.name, "why" => why).increment(1);
            sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn try_append(&self, conversation: ConversationId, messages: &Arc<[NewMessage]>) -> Appends {
        let (store, messages) = (Arc::clone(&self.logs.store), Arc::clone(messages));
        self.mutations
            .run_uncached(Box::pin(async move { store.append(conversation, &messages).await }))
            .await
    }
}

type Appends = Result<Vec<Appended>, StoreError>;

/// Why a step is retried after this error; `None`: no retry. A node that is overloaded sheds the step, unless
/// an earlier attempt may have been applied: then only a retry can find out.
const fn retried(error: &StoreError, may_have_landed: bool) -> Option<&'static str> {
    match error {
        StoreError::Unavailable { .. } => Some("unavailable"),
        StoreError::Overloaded if may_have_landed => Some("overloaded"),
        _ => None,
    }
}

/// The error for a step whose last attempt ended with this error.
fn outcome_of_all(last: StoreError, may_have_landed: bool) -> StoreError {
    if may_have_landed && last.outcome() == Outcome::NotApplied {
        return unknown("the messages may have been appended by an earlier try");
    }
    last
}

/// After an earlier attempt that was applied, its messages exist already. They are not replays to their
/// senders. A replay by the same sender has another time.
fn first_sends(messages: &[NewMessage], appended: Vec<Appended>, may_have_landed: bool) -> Vec<Appended> {
    let first_send = |(message, one): (&NewMessage, Appended)| match one {
        Appended::Replayed { seq, sent } if may_have_landed && sent == message.sent => Appended::New(seq),
        one => one,
    };
    messages.iter().zip(appended).map(first_send).collect()
}

#[cfg(test)]
mod tests;
