//! A caller that writes on one node, and asks the other node as soon as the write is acknowledged.

use std::{fmt::Debug, sync::Arc, time::Duration};

use anyhow::Result;
use rand::{Rng as _, rngs::SmallRng};
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;

use super::{DECISIONS, LATER, PREVIOUS, UNACKNOWLEDGED, UNDECIDED, Workload};

/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a read from the store is attempted.
const TRIES: usize = 100;
/// How long a write with an unknown outcome may still take effect. Longer than a node or the store tries.
const LATE: Duration = Duration::from_secs(30);

/// Answers about places, each with its place; an error is a code.
pub(super) type PlaceAnswers<A> = Vec<(usize, Result<A, String>)>;

/// A caller writes a value at each of its places. No other caller writes there. An error is a code.
pub(super) trait StrictSubject: Debug + Send + Sync + 'static {
    type Value: Copy + Debug + Send + Sync;
    type Change: Copy + Send + Sync;
    /// A node's answer about a place.
    type Answer: Copy + Debug + Send + Sync;

    fn places(&self) -> usize;

    /// A change that has an effect where this value is known.
    fn change(&self, known: Option<Self::Value>, random: &mut SmallRng) -> Self::Change;

    /// Returns the value after the change.
    fn write(
        &self,
        node: Channel,
        place: usize,
        change: Self::Change,
        request_id: &str,
    ) -> impl Future<Output = Result<Self::Value, String>> + Send;

    /// Asks about this place, or about several, each with its answer.
    fn ask(
        &self,
        node: Channel,
        place: usize,
        random: &mut SmallRng,
    ) -> impl Future<Output = Result<PlaceAnswers<Self::Answer>, String>> + Send;

    /// The value in the store, by a strong read. `None`: no answer.
    fn stored(&self, node: Channel, place: usize) -> impl Future<Output = Option<Self::Value>> + Send;

    /// Judges an answer. `None`: a write with an unknown outcome may have taken effect later, which only the
    /// store shows.
    fn judge(known: &Known<Self::Value>, answer: Self::Answer) -> Option<UsedValue>;

    /// Whether the stored value explains an answer that [`Self::judge`] could not judge.
    fn explains(stored: Self::Value, known: Self::Value, answer: Self::Answer) -> bool;
}

/// The value by which a node decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsedValue {
    /// The acknowledged value.
    Current,
    /// The previous value.
    Stale,
    /// The value from a write with an unknown outcome that was applied later.
    Later,
}

/// The value that a caller has written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<T> {
    /// The last acknowledged value. `None`: no write was acknowledged, or a later write has an unknown
    /// outcome.
    pub(super) value: Option<T>,
    /// When the last write with an unknown outcome failed.
    pub(super) open: Option<Instant>,
}

impl<T> Known<T> {
    /// A write was not acknowledged: both values are correct until the next acknowledgement.
    fn forget(&mut self) {
        *self = Self { value: None, open: Some(Instant::now()) };
    }

    /// Whether a write with an unknown outcome may still take effect.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some_and(|since| since.elapsed() < LATE)
    }
}

/// A caller with its own places.
#[derive(Debug)]
pub(super) struct Caller<S: StrictSubject> {
    state: Arc<Workload>,
    subject: S,
    known: Vec<Known<S::Value>>,
    random: SmallRng,
    number: i64,
    /// One write in this many has a `request_id`.
    id_every: u32,
    sent: u64,
}

impl<S: StrictSubject> Caller<S> {
    pub(super) fn new(state: &Arc<Workload>, number: i64, id_every: u32, subject: S) -> Self {
        let known = (0..subject.places()).map(|_| Known { value: None, open: None }).collect();
        Self {
            state: Arc::clone(state),
            subject,
            known,
            random: state.random(number),
            number,
            id_every,
            sent: 0,
        }
    }

    /// Calls until enough writes are acknowledged.
    pub(super) async fn work(mut self) -> Result<()> {
        while !self.state.progress.is_over() {
            let place = self.random.random_range(0..self.known.len());
            self.sent += 1;
            let change = self.subject.change(self.known[place].value, &mut self.random);
            let has_id = self.random.random_ratio(1, self.id_every);
            let request_id = if has_id { format!("{}-{}", self.number, self.sent) } else { String::new() };
            if !self.write(place, 0, change, &request_id).await && has_id {
                // A client without an answer sends the same request again, on the other node.
                self.write(place, 1, change, &request_id).await;
            }
        }
        Ok(())
    }

    /// Writes on `node`, and reads from the other node. Returns whether the write was acknowledged.
    async fn write(&mut self, place: usize, node: usize, change: S::Change, request_id: &str) -> bool {
        match self.subject.write(self.state.nodes[node].clone(), place, change, request_id).await {
            Ok(value) => {
                self.known[place].value = Some(value);
                self.state.progress.add(1);
                self.ask(place, 1 - node).await;
                true
            }
            Err(code) => {
                self.known[place].forget();
                self.fail(UNACKNOWLEDGED, &code);
                sleep(PAUSE).await;
                false
            }
        }
    }

    /// Asks a node, and judges the answers, except those about places whose last write was not acknowledged.
    async fn ask(&mut self, place: usize, node: usize) {
        let answers = self.subject.ask(self.state.nodes[node].clone(), place, &mut self.random).await;
        match answers {
            Ok(answers) => {
                for (place, answer) in answers {
                    match answer {
                        Ok(answer) => self.judge(place, node, answer).await,
                        Err(code) => self.fail(UNDECIDED, &code),
                    }
                }
            }
            Err(code) => {
                self.fail(UNDECIDED, &code);
                sleep(PAUSE).await;
            }
        }
    }

    async fn judge(&self, place: usize, node: usize, answer: S::Answer) {
        let Some(known) = self.known[place].value else { return };
        let used = match S::judge(&self.known[place], answer) {
            Some(used) => used,
            None if self.is_explained(place, known, answer).await => UsedValue::Later,
            None => UsedValue::Stale,
        };
        self.state.count(DECISIONS, 1);
        match used {
            UsedValue::Current => {}
            UsedValue::Later => self.state.count(LATER, 1),
            UsedValue::Stale => self.state.add_violation(PREVIOUS, || {
                let subject = &self.subject;
                format!(
                    "{subject:?}, {place}: node {node} returned {answer:?} after {known:?} was acknowledged"
                )
            }),
        }
    }

    /// Whether a write with an unknown outcome, which is stored now, explains an answer.
    async fn is_explained(&self, place: usize, known: S::Value, answer: S::Answer) -> bool {
        for node in self.state.nodes.iter().cycle().take(TRIES) {
            if let Some(stored) = self.subject.stored(node.clone(), place).await {
                return S::explains(stored, known, answer);
            }
            sleep(PAUSE).await;
        }
        false
    }

    fn fail(&self, kind: &'static str, code: &str) {
        self.state.count(kind, 1);
        self.state.fail(code);
    }
}
