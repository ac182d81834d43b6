//! Makes many read marks at once: one store command writes all marks that wait on this node.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_cache::Consistency;
use kith_store::{
    BATCH_MAX, ConversationId, Dialog, DialogKey, LogHead, MarkKind, MemberKey, MessageStore, ReadMark, Seq,
    SeqRange, Timestamp,
};
use tokio::sync::oneshot;

use super::{
    DialogRecords, HeadAfter, HeadReader, MarkListener,
    mark_command::MarkCommand,
    mark_listener::seen_by_others,
    records::store_error,
    waiting_marks::{MarkResult, MarkStep, MarkWaiter, WaitingMarks},
};
use crate::{
    domain_context::DomainContext,
    error::{Error, Reason},
    group::member::{KnownStays, Members},
    metric::{DIALOG_MARKS_SIZE, as_f64},
    write::mutations::unknown,
};

pub(crate) use super::waiting_marks::MarkRequest;

/// The most ends that are read again at the same time.
const READ_AT_ONCE: usize = 16;

/// Makes all of a node's read marks. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct MarkQueue {
    records: DialogRecords,
    messages: Arc<dyn MessageStore>,
    heads: Arc<dyn HeadReader>,
    members: Members,
    waiting: Arc<WaitingMarks>,
    marked: Arc<dyn MarkListener>,
}

/// The data by which a step decides its marks.
struct MarkStepState {
    dialogs: HashMap<DialogKey, Arc<Dialog>>,
    ends: HashMap<ConversationId, Seq>,
    stays: HashMap<MemberKey, KnownStays>,
}

impl MarkQueue {
    /// Creates it. `marked` is notified about read messages.
    pub(crate) fn new(
        context: DomainContext<'_>,
        records: DialogRecords,
        heads: Arc<dyn HeadReader>,
        members: Members,
        marked: Arc<dyn MarkListener>,
    ) -> Self {
        drop(metrics::histogram!(DIALOG_MARKS_SIZE.name));
        let messages = Arc::clone(&context.stores.messages);
        Self { records, messages, heads, members, waiting: Arc::default(), marked }
    }

    /// Makes a mark, together with other waiting marks. Returns when it is durable. A queued mark is made
    /// even if this future is dropped.
    ///
    /// # Errors
    /// OUT_OF_RANGE, RESOURCE_EXHAUSTED, or errors of the store.
    pub(crate) async fn mark(&self, request: MarkRequest) -> Result<MarkResult, Error> {
        let (answer, answered) = oneshot::channel();
        if self.waiting.push(MarkWaiter { request, answer })? {
            // The task is separate, because other callers' marks must not depend on this call.
            tokio::spawn(self.clone().gather());
        }
        answered.await.unwrap_or_else(|_| Err(store_error(unknown("the step of the mark was given up"))))
    }

    async fn gather(self) {
        loop {
            let MarkStep { waiters, others_wait, running } = self.waiting.step().await;
            let this = self.clone();
            // Marks commute: the next step need not wait for this step.
            tokio::spawn(async move {
                this.run_step(waiters).await;
                drop(running);
            });
            if !others_wait {
                return;
            }
        }
    }

    /// Makes the marks of a step.
    async fn run_step(&self, step: Vec<MarkWaiter>) {
        let requests: Vec<&MarkRequest> = step.iter().map(|waiter| &waiter.request).collect();
        let known = match self.known(&requests).await {
            Ok(known) => known,
            Err(error) => return answer_all(step, &error),
        };
        let mut writes = Vec::with_capacity(step.len());
        for waiter in step {
            match known.decide(&waiter.request) {
                Ok(MarkDecision::Write(mark)) => writes.push((waiter, mark)),
                Ok(MarkDecision::AlreadyMarked(dialog)) => {
                    let end = known.end(&waiter.request);
                    answer(waiter, Ok(MarkResult { dialog, token: None, end, head: None }));
                }
                Err(error) => answer(waiter, Err(error)),
            }
        }
        if !writes.is_empty() {
            self.write(writes, known).await;
        }
    }

    async fn write(&self, writes: Vec<(MarkWaiter, ReadMark)>, mut known: MarkStepState) {
        metrics::histogram!(DIALOG_MARKS_SIZE.name).record(as_f64(writes.len()));
        let (waiters, marks): (Vec<MarkWaiter>, Vec<ReadMark>) = writes.into_iter().unzip();
        let keyed = waiters.iter().zip(&marks).map(|(waiter, mark)| (waiter.request.key, mark.clone()));
        let command = MarkCommand::new(keyed.collect(), &known.dialogs);
        let written = match self.records.mark(command).await {
            Ok(written) => written,
            Err(error) => return answer_all(waiters, &store_error(error)),
        };
        let heads = self.heads_after(&waiters, &known).await;
        for ((waiter, mark), made) in waiters.into_iter().zip(&marks).zip(written.record.iter()) {
            let (key, end) = (waiter.request.key, known.end(&waiter.request));
            let head = heads.get(&key.conversation).cloned();
            let dialog = known.dialogs.entry(key).or_insert_with(|| Arc::new(Dialog::absent(key)));
            let made = made.clone().map_err(store_error).map(|_| {
                if let Some(seqs) = seen_by_others(dialog, mark, waiter.request.exists) {
                    self.marked.marked(key.conversation, seqs, waiter.request.imported);
                }
                if let Ok(Some(marked)) = dialog.marked(mark, Timestamp::now()) {
                    *dialog = Arc::new(marked);
                }
                MarkResult { dialog: Dialog::clone(dialog), token: Some(written.token.clone()), end, head }
            });
            answer(waiter, made);
        }
    }

    /// Returns the heads of the logs with messages above a mark, from which each waiting caller counts its
    /// unread messages. The whole step costs one read. Empty if the heads cannot be read; then each caller
    /// reads the head of its own log.
    async fn heads_after(
        &self,
        waiters: &[MarkWaiter],
        known: &MarkStepState,
    ) -> HashMap<ConversationId, HeadAfter> {
        let mut asked: HashMap<ConversationId, Seq> = HashMap::new();
        for request in waiters.iter().map(|waiter| &waiter.request) {
            if !request.exists && request.highest() < known.end(request) {
                let after = asked.entry(request.key.conversation).or_insert(Seq::MAX);
                *after = request.read_up_to().min(*after);
            }
        }
        if asked.is_empty() {
            return HashMap::new();
        }
        let asked: Vec<(ConversationId, Seq)> = asked.into_iter().collect();
        let heads = self.heads.heads(&asked).await.unwrap_or_default();
        let with_head = |((log, after), head): ((ConversationId, Seq), LogHead)| {
            (log, HeadAfter { after, head: Arc::new(head) })
        };
        asked.into_iter().zip(heads).map(with_head).collect()
    }

    /// Reads the data that decide the marks: dialogs through the tiers, and the ends and stays that are not
    /// known yet.
    async fn known(&self, requests: &[&MarkRequest]) -> Result<MarkStepState, Error> {
        let keys: HashSet<DialogKey> = requests.iter().map(|request| request.key).collect();
        let keys: Vec<DialogKey> = keys.into_iter().collect();
        let (dialogs, ends) =
            tokio::try_join!(self.records.get_many(&keys, &Consistency::Cached), self.ends(requests))?;
        let dialogs: HashMap<DialogKey, Arc<Dialog>> = keys.into_iter().zip(dialogs).collect();
        let needs_stays = |request: &&&MarkRequest| request.needs_stays(&dialogs);
        let stays: HashSet<MemberKey> =
            requests.iter().filter(needs_stays).filter_map(|request| request.member()).collect();
        let stays = self.members.stays(&stays.into_iter().collect::<Vec<_>>()).await?;
        Ok(MarkStepState { dialogs, ends, stays })
    }

    /// Returns the ends of the logs whose numbers are not known to exist. An end that seems to be below a
    /// mark is read again: for some seconds after a store failover, a log may seem to lack messages that its
    /// readers have.
    async fn ends(&self, requests: &[&MarkRequest]) -> Result<HashMap<ConversationId, Seq>, Error> {
        let mut highest: HashMap<ConversationId, Seq> = HashMap::new();
        for request in requests.iter().filter(|request| !request.exists) {
            let seq = highest.entry(request.key.conversation).or_default();
            *seq = request.highest().max(*seq);
        }
        let asked: Vec<ConversationId> = highest.keys().copied().collect();
        let mut ends = HashMap::with_capacity(asked.len());
        for some in asked.chunks(BATCH_MAX) {
            let found = self.messages.ends(some).await.map_err(store_error)?;
            ends.extend(some.iter().copied().zip(found.into_iter().map(|end| end.seq)));
        }
        let below: Vec<_> = asked.into_iter().filter(|asked| ends[asked] < highest[asked]).collect();
        let again = below.into_iter().map(async |log| Ok((log, self.messages.strong_end(log).await?)));
        let again = stream::iter(again.collect::<Vec<_>>()).buffer_unordered(READ_AT_ONCE);
        ends.extend(again.try_collect::<Vec<_>>().await.map_err(store_error)?);
        Ok(ends)
    }
}

/// The outcome of a mark.
enum MarkDecision {
    /// The mark must be written.
    Write(ReadMark),
    /// Everything is marked already. Marks only grow, so a copy of any age is sufficient to decide this.
    AlreadyMarked(Dialog),
}

impl MarkStepState {
    fn decide(&self, request: &MarkRequest) -> Result<MarkDecision, Error> {
        if !request.exists && request.highest() > self.end(request) {
            return Err(out_of_range());
        }
        let mark = self.mark(request)?;
        let Some(dialog) = self.dialogs.get(&request.key) else { return Ok(MarkDecision::Write(mark)) };
        match dialog.marked(&mark, Timestamp::now()) {
            Ok(None) => Ok(MarkDecision::AlreadyMarked(Dialog::clone(dialog))),
            // The store decides by the stored dialog.
            Ok(Some(_)) | Err(_) => Ok(MarkDecision::Write(mark)),
        }
    }

    /// The end of the log, as far as it was read.
    fn end(&self, request: &MarkRequest) -> Seq {
        self.ends.get(&request.key.conversation).copied().unwrap_or_default()
    }

    fn mark(&self, request: &MarkRequest) -> Result<ReadMark, Error> {
        let stays = request.member().and_then(|member| self.stays.get(&member));
        let joined = request.joined.or_else(|| stays.map(|stays| stays.joined));
        let joined = joined.ok_or_else(|| Error::not_found("conversation"))?;
        // A member may have left and joined again since its row was read: only stays below the begin at that
        // time count.
        let earlier = stays.map(|stays| stays.below(joined)).unwrap_or_default();
        Ok(ReadMark { joined, earlier, kind: request.clipped() })
    }
}

impl MarkRequest {
    /// Whether the mark depends on earlier stays. A former member's mark also depends on the begin of the
    /// last stay.
    fn needs_stays(&self, dialogs: &HashMap<DialogKey, Arc<Dialog>>) -> bool {
        let read_seq = dialogs.get(&self.key).map_or(0, |dialog| dialog.read.read_seq());
        self.joined.is_none_or(|joined| read_seq < joined - 1)
    }

    fn member(&self) -> Option<MemberKey> {
        match self.key.conversation {
            ConversationId::Group(group) => Some(MemberKey { group, user: self.key.user }),
            ConversationId::Direct(..) | ConversationId::Offline(_) => None,
        }
    }

    /// The highest marked number that the user may read.
    fn highest(&self) -> Seq {
        let highest = match &self.kind {
            MarkKind::UpTo(last) | MarkKind::Hidden(last) => *last,
            MarkKind::Ranges(ranges) => ranges.iter().map(|range| range.last).max().unwrap_or_default(),
        };
        self.last.map_or(highest, |last| last.min(highest))
    }

    /// A number up to which everything is read after the mark, as far as the mark alone shows.
    fn read_up_to(&self) -> Seq {
        match &self.kind {
            MarkKind::UpTo(last) | MarkKind::Hidden(last) => *last,
            MarkKind::Ranges(_) => 0,
        }
    }

    /// Returns the marked numbers that the user may read.
    fn clipped(&self) -> MarkKind {
        let Some(last) = self.last else { return self.kind.clone() };
        let readable = SeqRange { first: 1, last };
        match &self.kind {
            MarkKind::UpTo(to) => MarkKind::UpTo(last.min(*to)),
            MarkKind::Hidden(to) => MarkKind::Hidden(last.min(*to)),
            MarkKind::Ranges(ranges) => {
                MarkKind::Ranges(ranges.iter().filter_map(|range| range.common(readable)).collect())
            }
        }
    }
}

pub(crate) fn out_of_range() -> Error {
    Error::new(Reason::SeqOutOfRange, "a number is above that of the last message of the conversation")
}

fn answer(waiter: MarkWaiter, result: Result<MarkResult, Error>) {
    // A caller that has gone away gets no answer, but its mark is made.
    drop(waiter.answer.send(result));
}

fn answer_all(waiters: Vec<MarkWaiter>, error: &Error) {
    waiters.into_iter().for_each(|waiter| answer(waiter, Err(error.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: MarkKind, joined: Option<Seq>, last: Option<Seq>) -> MarkRequest {
        MarkRequest { key: "7,g9".parse().unwrap(), kind, joined, last, exists: false, imported: false }
    }

    fn range(first: Seq, last: Seq) -> SeqRange {
        SeqRange { first, last }
    }

    /// The log ends at 90; the user was in the group from 3 to 5, and from 8 on.
    fn known() -> MarkStepState {
        let key: DialogKey = "7,g9".parse().unwrap();
        let member = request(MarkKind::UpTo(1), None, None).member().unwrap();
        MarkStepState {
            dialogs: HashMap::from([(key, Arc::new(Dialog::absent(key)))]),
            ends: HashMap::from([(key.conversation, 90)]),
            stays: HashMap::from([(member, KnownStays { joined: 8, earlier: vec![range(3, 5)] })]),
        }
    }

    fn written(request: &MarkRequest) -> ReadMark {
        match known().decide(request) {
            Ok(MarkDecision::Write(mark)) => mark,
            Ok(MarkDecision::AlreadyMarked(dialog)) => panic!("{dialog:?}"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn earlier_stays_are_below_the_current_one() {
        let marks = [(8, vec![range(3, 5)]), (5, vec![]), (3, vec![])];
        for (joined, earlier) in marks {
            assert_eq!(written(&request(MarkKind::UpTo(9), Some(joined), None)).earlier, earlier, "{joined}");
        }
    }

    #[test]
    fn stays_are_read_where_a_mark_may_skip_some() {
        let dialogs = |read_seq| {
            let key: DialogKey = "7,g9".parse().unwrap();
            let read = kith_store::ReadRanges::new(read_seq, Vec::new()).unwrap();
            HashMap::from([(key, Arc::new(Dialog { read, ..Dialog::absent(key) }))])
        };
        let needs =
            |joined, read_seq| request(MarkKind::UpTo(9), joined, None).needs_stays(&dialogs(read_seq));
        assert_eq!([needs(Some(1), 0), needs(Some(8), 6), needs(Some(8), 7)], [false, true, false]);
        assert!(needs(None, 90), "of a former member the begin is not known");
    }

    #[test]
    fn headers_are_needed_above_what_a_mark_reads() {
        let above = |kind| request(kind, Some(8), None).read_up_to();
        assert_eq!([above(MarkKind::UpTo(9)), above(MarkKind::Hidden(9))], [9, 9]);
        assert_eq!(above(MarkKind::Ranges(vec![range(8, 9)])), 0, "what is below the range may be unread");
    }

    #[test]
    fn what_is_marked_already_is_not_written() {
        let mut known = known();
        let key: DialogKey = "7,g9".parse().unwrap();
        let read = kith_store::ReadRanges::new(9, Vec::new()).unwrap();
        let dialog = Dialog { read, ..Dialog::new(key, Timestamp(1)) };
        known.dialogs.insert(key, Arc::new(dialog));
        let decided = |kind| known.decide(&request(kind, Some(8), None)).ok().unwrap();
        assert!(matches!(decided(MarkKind::UpTo(9)), MarkDecision::AlreadyMarked(_)));
        assert!(matches!(decided(MarkKind::UpTo(10)), MarkDecision::Write(_)));
    }
}
