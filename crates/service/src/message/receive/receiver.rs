//! Runs one receiver's stream.

use std::{any::Any, collections::VecDeque, sync::Arc, time::Duration};

use futures::stream::{self, BoxStream, StreamExt as _};
use kith_delivery::{Entry, Generation, Note, Position, ReadFrom, ReadOutcome};
use kith_proto::message::v1::{self as wire, Live, Reset, delivery::What};
use kith_store::{ConversationId, Seq, Timestamp};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{
    ReceiversInner, convert,
    cursor::{self, SeqFloors},
    hub,
    range::{DueRange, Reader},
    response::Deliveries,
    tracked_logs::TrackedLogs,
    waker::{EntryOrder, ReceiverWork, WokenEntry},
};
use crate::{
    error::Error,
    metric::{RECEIVE_LAG_SECONDS, RECEIVE_RESETS},
    notice::TotalsWatches,
};

/// Entries that are read at once.
const READ_AT_ONCE: usize = 100;
/// The pause before a failed message read is retried.
const PAUSE: Duration = Duration::from_millis(500);
/// Attempts to read messages; then the stream ends with the error.
const TRIES: u32 = 10;

/// The stream to the caller.
pub(super) type ReceiveStream = BoxStream<'static, Result<wire::ReceiveResponse, Status>>;

/// A delivery, and the entry that it completes.
#[derive(Debug)]
pub(super) struct DueDelivery {
    pub(super) content: DueContent,
    /// The stream's position after it is sent; `None`: unchanged.
    pub(super) position: Option<Position>,
}

#[derive(Debug)]
pub(super) enum DueContent {
    Range(Box<DueRange>),
    Delivery(Box<What>),
    /// The backlog is sent: from now on there are cursors.
    Live,
    /// An entry without a delivery.
    Nothing,
    /// The stream ends. The text names the reason in a metric.
    Reset(&'static str),
}

impl DueDelivery {
    /// A delivery that is in no cursor.
    pub(super) fn delivery(what: What) -> Self {
        Self { content: DueContent::Delivery(Box::new(what)), position: None }
    }
}

/// A user's stream.
pub(super) struct Receiver {
    pub(super) parts: Arc<ReceiversInner>,
    pub(super) registration: hub::ReceiverRegistration,
    pub(super) reader: Reader,
    pub(super) generation: Generation,
    /// All entries up to this one are sent.
    pub(super) position: Position,
    /// The position of the last entry before the stream: users without a receiver were named for its
    /// messages.
    pub(super) backlog_end: Position,
    /// For each conversation, the number up to which no entry is sent: the client had these messages at the
    /// beginning.
    pub(super) floors: SeqFloors,
    /// The floors for messages that later entries may repeat. Part of cursors.
    pub(super) carried: SeqFloors,
    pub(super) due: VecDeque<DueDelivery>,
    /// The reads that remain before the stream is live; `None`: it is live.
    pub(super) live_at: Option<Position>,
    /// The conversations that it reads without the inbox.
    pub(super) logs: TrackedLogs,
    /// How many conversations the backlog does not have, because there are too many.
    pub(super) backlog_left_out: usize,
    /// Whether the backlog is skipped.
    pub(super) begins_now: bool,
    /// Whether it sends the backlog: there are no cursors, and floors end with it.
    pub(super) catches_up: bool,
    pub(super) ended: bool,
    /// Wakes the receiver for notice totals.
    pub(super) _watching: TotalsWatches,
    /// The user is online until the stream ends; `None`: the stream names no device.
    pub(super) _session: Option<Box<dyn Any + Send + Sync>>,
}

impl Receiver {
    pub(super) fn stream(self) -> ReceiveStream {
        stream::unfold(self, Self::next).boxed()
    }

    async fn next(mut self) -> Option<(Result<wire::ReceiveResponse, Status>, Self)> {
        let mut tries = 0;
        while !self.ended {
            if self.due.is_empty() {
                self.find_due().await;
                continue;
            }
            // A boxed future takes a stream's memory only while it runs.
            match Box::pin(self.send_due()).await {
                Ok(Some(response)) => return Some((Ok(response), self)),
                Ok(None) => tries = 0,
                Err(error) if tries < TRIES && is_transient(&error) => {
                    tries += 1;
                    sleep(PAUSE.mul_f64(rand::random_range(0.5..1.0))).await;
                }
                Err(error) => {
                    self.ended = true;
                    return Some((Err(error.into()), self));
                }
            }
        }
        None
    }

    /// Sends as many due deliveries as fit into a response; `None`: nothing to send.
    ///
    /// # Errors
    /// The store's errors. Earlier deliveries are sent first.
    async fn send_due(&mut self) -> Result<Option<wire::ReceiveResponse>, Error> {
        let mut out = Deliveries::default();
        while let Some(due) = self.due.pop_front() {
            match self.send(&due, &mut out).await {
                Ok(None) => self.advance(due.position),
                Ok(Some(rest)) => {
                    self.due.push_front(DueDelivery { content: DueContent::Range(Box::new(rest)), ..due })
                }
                Err(error) => {
                    self.due.push_front(due);
                    if out.is_empty() {
                        return Err(error);
                    }
                    break;
                }
            }
            if out.is_full() || self.ended {
                break;
            }
        }
        Ok(out.response(|| self.cursor()))
    }

    /// All entries up to this one are sent.
    fn advance(&mut self, position: Option<Position>) {
        self.position = position.unwrap_or(self.position);
        self.registration.waker.liveness().sent_up_to(self.position);
    }

    /// Sends a delivery. Returns its rest.
    async fn send(&mut self, due: &DueDelivery, out: &mut Deliveries) -> Result<Option<DueRange>, Error> {
        match &due.content {
            DueContent::Range(range) => {
                let is_entry = due.position.is_some();
                let is_new = due.position.is_some_and(|position| position > self.backlog_end)
                    || (range.from_log && self.live_at.is_none());
                let before = out.ranges();
                let rest = self.send_range(range, self.floor(range, is_entry), out).await?;
                if range.from_log || is_entry {
                    self.note_sent(range, rest.as_ref());
                }
                if is_new {
                    let liveness = self.registration.waker.liveness();
                    let new = out.ranges_after(before);
                    new.iter().for_each(|(conversation, seqs)| liveness.sent(*conversation, *seqs));
                }
                return Ok(rest);
            }
            DueContent::Delivery(what) => out.push(What::clone(what)),
            DueContent::Live => {
                if self.catches_up {
                    (self.catches_up, self.floors) = (false, SeqFloors::new());
                }
                out.push(What::Live(Live { left_out: self.left_out() }));
            }
            DueContent::Nothing => {}
            DueContent::Reset(why) => {
                metrics::counter!(RECEIVE_RESETS.name, "why" => *why).increment(1);
                out.push(What::Reset(Reset {}));
                self.ended = true;
            }
        }
        Ok(None)
    }

    /// How many conversations this stream does not show to the client.
    fn left_out(&self) -> i64 {
        i64::try_from(self.backlog_left_out.saturating_add(self.logs.named.left_out)).unwrap_or(i64::MAX)
    }

    /// The number up to which nothing in a range is sent. The backlog is below the entries' floors.
    fn floor(&self, range: &DueRange, is_entry: bool) -> Seq {
        let conversation = range.conversation;
        if range.from_log {
            return self.logs.end(conversation);
        }
        if !is_entry {
            return 0;
        }
        let floors = [&self.floors, &self.carried].map(|floors| floors.get(&conversation).copied());
        let floor = floors.into_iter().flatten().max();
        floor.unwrap_or_default().max(self.logs.sent_up_to(conversation))
    }

    /// Records that a range was sent, except the rest.
    fn note_sent(&mut self, range: &DueRange, rest: Option<&DueRange>) {
        let conversation = range.conversation;
        let up_to = rest.and_then(|rest| Some(rest.first? - 1)).unwrap_or(range.last);
        self.logs.sent(conversation, up_to);
        // Later entries are above this number.
        if self.carried.get(&conversation).is_some_and(|floor| *floor <= up_to) && !range.from_log {
            self.carried.remove(&conversation);
        }
    }

    async fn send_range(
        &self,
        due: &DueRange,
        floor: Seq,
        out: &mut Deliveries,
    ) -> Result<Option<DueRange>, Error> {
        let hub = &self.parts.hub;
        // A wake's messages need only the rights, which are nearly always in memory.
        let permit = if due.fresh.is_some() { hub.delivery_permit().await } else { hub.read_permit().await };
        let done_up_to = self.reader.deliver(due, floor, out).await?;
        drop(permit);
        if let Some(fresh) = &due.fresh {
            let lag = Timestamp::now().0.saturating_sub(fresh.sent.sent.0);
            let lag = Duration::from_millis(u64::try_from(lag).unwrap_or_default());
            metrics::histogram!(RECEIVE_LAG_SECONDS.name).record(lag);
        }
        let rest = |seq| DueRange { first: Some(seq + 1), pull_only: false, fresh: None, ..due.clone() };
        Ok(done_up_to.map(rest))
    }

    /// Resumes after what was sent; empty while the backlog is sent or the account is not known, and after a
    /// reset.
    fn cursor(&self) -> String {
        if self.catches_up || self.ended {
            return String::new();
        }
        let Some(account) = self.reader.account() else { return String::new() };
        let mut floors = self.carried.clone();
        for (conversation, sent) in self.logs.all_sent() {
            let floor = floors.entry(conversation).or_default();
            *floor = sent.max(*floor);
        }
        if let Some(DueDelivery { content: DueContent::Range(rest), position: Some(_) }) = self.due.front()
            && let Some(first) = rest.first
        {
            let floor = floors.entry(rest.conversation).or_default();
            *floor = (first - 1).max(*floor);
        }
        let point = cursor::ResumePoint { generation: self.generation, position: self.position, floors };
        self.parts.cursors.issue(self.reader.user, account, &point)
    }

    /// Searches for due deliveries: waits until there may be some, unless the stream is not live yet.
    async fn find_due(&mut self) {
        if self.logs.must_track {
            Box::pin(self.track_large_groups()).await;
        } else if self.live_at.is_some_and(|live_at| live_at <= self.position) {
            self.live_at = None;
            self.due.push_back(DueDelivery { content: DueContent::Live, position: None });
        } else if self.live_at.is_none() && self.logs.has_new_ends() {
            Box::pin(self.queue_log_ranges()).await;
        } else if self.live_at.is_none() || !Box::pin(self.read()).await {
            // If Redis does not answer, it is asked again after the next sweep.
            self.wait().await;
        }
    }

    async fn wait(&mut self) {
        let ReceiverWork { entry, read, lost, generation, signals, logs, totals } =
            self.registration.waker.next_work().await;
        self.logs.add_ends(&logs);
        // Groups may have grown, and the wakes about it may be lost.
        self.logs.must_track |= generation.is_some();
        for signal in &signals {
            self.due.extend(convert::signal(signal).map(DueDelivery::delivery));
        }
        self.due.extend(totals.into_iter().map(|totals| DueDelivery::delivery(convert::totals(totals))));
        if lost || generation.is_some_and(|generation| generation != self.generation) {
            return self.reset("lost");
        }
        let must_read = entry.is_some_and(|entry| !self.accept_next_entry(entry));
        // An entry that could not be read is read after the next sweep.
        if read || must_read {
            Box::pin(self.read()).await;
        }
    }

    /// Takes a wake's entry, if the stream has all entries before it. False: the inbox must be read.
    fn accept_next_entry(&mut self, entry: WokenEntry) -> bool {
        match entry.order(self.generation, self.position) {
            EntryOrder::Beyond => return false,
            EntryOrder::Before => {}
            EntryOrder::Next => {
                let WokenEntry { position, first, fresh, .. } = entry;
                let (conversation, last) = (fresh.sent.conversation, fresh.sent.last);
                let range = DueRange { fresh: Some(fresh), ..range_of_entry(conversation, first, last) };
                self.due.push_back(DueDelivery {
                    content: DueContent::Range(Box::new(range)),
                    position: Some(position),
                });
            }
        }
        true
    }

    /// Reads the entries after the position. False: Redis does not answer.
    pub(super) async fn read(&mut self) -> bool {
        let from = ReadFrom { user: self.reader.user, generation: self.generation, after: self.position };
        let permit = self.parts.hub.read_permit().await;
        let read = self.parts.keeper().read(&[from], READ_AT_ONCE).await.pop();
        drop(permit);
        match read {
            Some(Ok(ReadOutcome::Entries(entries))) => {
                // An inbox that has no entry after the position has none up to where the stream is live
                // either.
                if entries.is_empty() {
                    self.live_at = self.live_at.map(|_| self.position);
                }
                self.logs.must_track |= entries.iter().any(|(_, entry)| is_join(entry));
                if entries.len() >= READ_AT_ONCE {
                    // There may be more, for which no further wake comes.
                    self.registration.waker.request_read();
                }
                self.due.extend(entries.into_iter().map(|(position, entry)| due_entry(position, entry)));
                true
            }
            Some(Ok(ReadOutcome::Reset)) => {
                self.reset("behind");
                true
            }
            Some(Err(_)) | None => false,
        }
    }

    pub(super) fn reset(&mut self, why: &'static str) {
        self.due.push_back(DueDelivery { content: DueContent::Reset(why), position: None });
    }
}

/// Whether a retry a moment later may succeed.
fn is_transient(error: &Error) -> bool {
    matches!(error.reason().entry().code, Code::Unavailable | Code::ResourceExhausted)
}

/// The messages in an inbox entry.
const fn range_of_entry(conversation: ConversationId, first: Option<Seq>, last: Seq) -> DueRange {
    DueRange { conversation, first, last, from_log: false, pull_only: false, fresh: None }
}

/// A user may have joined a large group.
const fn is_join(entry: &Entry) -> bool {
    matches!(entry, Entry::Note(Note::GroupJoined { .. }))
}

fn due_entry(position: Position, entry: Entry) -> DueDelivery {
    let content = match entry {
        Entry::Range { conversation, first, last } => {
            DueContent::Range(Box::new(range_of_entry(conversation, first, last)))
        }
        Entry::Note(note) => convert::note(note)
            .map_or(DueContent::Nothing, |note| DueContent::Delivery(Box::new(What::Note(note)))),
        Entry::Unknown => DueContent::Nothing,
    };
    DueDelivery { content, position: Some(position) }
}
