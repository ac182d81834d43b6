//! Records what the log holds and what was acknowledged, and derives what a reader must see.

use std::collections::BTreeMap;

use kith_delivery::{RecentMessages, Span};
use kith_store::{LogHead, Message, MessageKind, Seq, Timestamp, UserId};

/// How long a reader may miss messages from a writer that died, in milliseconds.
const BOUND_MS: u64 = 10_000;

/// One conversation's log.
#[derive(Debug, Default)]
pub(super) struct Truth {
    messages: Vec<Stored>,
    changes: Vec<Changed>,
    /// In each epoch: the highest number that is known to be in, or not above, every window.
    acknowledged: BTreeMap<u64, Seq>,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    version: i64,
    is_event: bool,
    committed: u64,
}

/// A changed message.
#[derive(Clone, Copy, Debug)]
struct Changed {
    seq: Seq,
    version: i64,
    event: Seq,
    committed: u64,
    /// No reader may see the message as it was before.
    is_final: bool,
}

/// The state that a reader that begins now must see.
#[derive(Debug)]
pub(super) struct Floor {
    end: Seq,
    versions: BTreeMap<Seq, i64>,
    /// Where the log ends now.
    log_end: Seq,
    acknowledged: (u64, Seq),
}

impl Truth {
    pub(super) fn end(&self) -> Seq {
        Seq::try_from(self.messages.len()).unwrap()
    }

    /// How many messages have an event that is not final: a replay may append it again.
    pub(super) fn open_events(&self) -> Vec<Seq> {
        self.changes.iter().filter(|change| !change.is_final).map(|change| change.event).collect()
    }

    pub(super) fn append(&mut self, count: usize, now: u64) -> Vec<Message> {
        let first = self.end() + 1;
        let stored = Stored { version: 0, is_event: false, committed: now };
        self.messages.extend(std::iter::repeat_n(stored, count));
        self.read(first, self.end())
    }

    /// Changes a message and appends the event, as one. Returns the change's index, and the event.
    pub(super) fn change(&mut self, seq: Seq, now: u64, is_final: bool) -> (usize, Message) {
        let stored = &mut self.messages[index_of(seq)];
        stored.version += 1;
        let version = stored.version;
        self.messages.push(Stored { version: 0, is_event: true, committed: now });
        let event = self.end();
        self.changes.push(Changed { seq, version, event, committed: now, is_final });
        (self.changes.len() - 1, self.message(event))
    }

    pub(super) fn acknowledge_change(&mut self, change: usize) {
        self.changes[change].is_final = true;
    }

    pub(super) fn acknowledge(&mut self, last: Seq, epoch: u64) {
        let known = self.acknowledged.entry(epoch).or_default();
        *known = last.max(*known);
    }

    /// This epoch's windows are filled after its begin, so what was acknowledged before it is in them.
    pub(super) fn raise(&mut self, epoch: u64) {
        let known = self.acknowledged.values().copied().max().unwrap_or_default();
        self.acknowledged.insert(epoch, known);
    }

    pub(super) fn read(&self, first: Seq, last: Seq) -> Vec<Message> {
        (first..=last.min(self.end())).map(|seq| self.message(seq)).collect()
    }

    pub(super) fn message(&self, seq: Seq) -> Message {
        let stored = self.messages[index_of(seq)];
        message(seq, stored.version, stored.is_event)
    }

    pub(super) fn floor(&self, epoch: u64, now: u64) -> Floor {
        let is_old = |committed: u64| committed + BOUND_MS < now;
        let end =
            (1..).zip(&self.messages).filter(|(_, one)| is_old(one.committed)).map(|(seq, _)| seq).max();
        let mut versions = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.is_final || is_old(change.committed)) {
            versions.insert(change.seq, change.version);
        }
        let acknowledged = (epoch, self.acknowledged.get(&epoch).copied().unwrap_or_default());
        Floor { end: end.unwrap_or(0), versions, log_end: self.end(), acknowledged }
    }

    /// Checks what a reader got, and returns what is wrong. `epoch`: its node's epoch now.
    pub(super) fn check(
        &self,
        floor: &Floor,
        epoch: u64,
        asked: Span,
        at_least: Seq,
        recent: &RecentMessages,
    ) -> Result<(), String> {
        self.check_end(floor, epoch, at_least, recent.span.last)?;
        if !(1..=recent.span.last + 1).contains(&recent.span.first) {
            return Err(format!("the numbers {:?}", recent.span));
        }
        let expected = asked.overlap(recent.span);
        let found: Vec<Seq> = recent.messages.iter().map(|message| message.seq).collect();
        if found != (expected.first..=expected.last).collect::<Vec<_>>() {
            return Err(format!("{found:?} instead of {expected:?}"));
        }
        recent.messages.iter().try_for_each(|message| self.check_message(floor, message))
    }

    /// Checks a window's head likewise.
    pub(super) fn check_head(
        &self,
        floor: &Floor,
        epoch: u64,
        after: Seq,
        at_least: Seq,
        head: &LogHead,
    ) -> Result<(), String> {
        let end = head.last.as_ref().map_or(0, |last| last.seq);
        self.check_end(floor, epoch, at_least, end)?;
        let found: Vec<Seq> = head.headers.iter().map(|header| header.seq).collect();
        if found != ((after + 1).max(end - 99)..=end).collect::<Vec<_>>() {
            return Err(format!("headers {found:?} above {after} up to {end}"));
        }
        for header in &head.headers {
            let version = header.mentions.first().map_or(0, |user| user.get()) - 1;
            self.check_version(floor, header.seq, version)?;
        }
        head.last.as_ref().map_or(Ok(()), |last| self.check_message(floor, last))
    }

    fn check_end(&self, floor: &Floor, epoch: u64, at_least: Seq, end: Seq) -> Result<(), String> {
        let mut least = floor.end;
        if floor.acknowledged.0 == epoch {
            least = least.max(floor.acknowledged.1);
        }
        if at_least <= floor.log_end {
            least = least.max(at_least);
        }
        if (least..=self.end()).contains(&end) {
            return Ok(());
        }
        Err(format!("the end is {end}, not within {least}..={}; {floor:?}", self.end()))
    }

    fn check_message(&self, floor: &Floor, found: &Message) -> Result<(), String> {
        let version = found.mentions.first().map_or(0, |user| user.get()) - 1;
        self.check_version(floor, found.seq, version)?;
        let expected = message(found.seq, version, self.messages[index_of(found.seq)].is_event);
        if *found == expected { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
    }

    fn check_version(&self, floor: &Floor, seq: Seq, version: i64) -> Result<(), String> {
        let least = floor.versions.get(&seq).copied().unwrap_or(0);
        if (least..=self.messages[index_of(seq)].version).contains(&version) {
            return Ok(());
        }
        let changes: Vec<_> = self.changes.iter().filter(|change| change.seq == seq).collect();
        Err(format!("message {seq} as of version {version}, not at least {least}: {changes:?}"))
    }
}

fn index_of(seq: Seq) -> usize {
    usize::try_from(seq - 1).unwrap()
}

/// A message whose body and header say its number and version.
fn message(seq: Seq, version: i64, is_event: bool) -> Message {
    Message {
        seq,
        sender: UserId::new(seq).ok(),
        sent: Timestamp(seq),
        kind: if is_event { MessageKind::Event } else { MessageKind::Message },
        content_type: "".into(),
        body: format!("{seq}.{version}").into(),
        mentions: vec![UserId::new(version + 1).unwrap()],
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: None,
        edited: None,
        recalled: None,
    }
}
