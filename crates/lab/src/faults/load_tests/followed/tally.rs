//! Compares what writers had acknowledged with the changes that a reader got.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kith_proto::change::v1::{Change, ChangeKind};
use tokio::time::Instant;

use crate::faults::{
    Figure,
    load_tests::outcomes::{FailedCalls, Violations},
};

/// The last change of a record, or a message, was not read.
const MISSED: &str = "changes missed";
/// A page has a position that is not above the one before it in its feed.
const UNORDERED: &str = "positions out of order";
/// A change that was read again is about another record.
const OTHER_RECORD: &str = "positions with another change";
/// A reader's cursor ended, and nothing was restored.
const EXPIRED: &str = "cursors expired";

/// Identifies a record among all changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordKey {
    kind: ChangeKind,
    ids: [i64; 2],
    conversation: String,
}

/// A write that was acknowledged.
#[derive(Clone, Debug)]
pub(super) struct AcknowledgedWrite {
    pub(super) key: RecordKey,
    /// The record's version after it; 0: the answer has none. Of messages: their number.
    pub(super) version: i64,
    /// When its first call began: changes that were read earlier are not of this write.
    pub(super) began: Instant,
    pub(super) acknowledged: Instant,
}

/// A place in a feed: the entry's number, and the change in it.
type FeedPlace = (u64, u64);

/// Acknowledged writes, and changes that were read.
#[derive(Debug, Default)]
pub(super) struct ChangesTally {
    /// The last write to each record but messages.
    written: HashMap<RecordKey, AcknowledgedWrite>,
    /// Messages that were not read yet.
    unread: HashMap<(String, i64), AcknowledgedWrite>,
    /// Messages that were read before their sender had the answer.
    early: HashSet<(String, i64)>,
    /// When a record's latest change was read first, and its version.
    read: HashMap<RecordKey, (Instant, i64)>,
    /// The record at each position that was read.
    positions: HashMap<String, RecordKey>,
    pub(super) changes: u64,
    pub(super) repeated: u64,
    pub(super) failed: FailedCalls,
    violations: Violations,
}

impl RecordKey {
    pub(super) fn of_ids(kind: ChangeKind, ids: [i64; 2]) -> Self {
        Self { kind, ids, conversation: String::new() }
    }

    pub(super) fn of_conversation(kind: ChangeKind, conversation: &str, user_id: i64) -> Self {
        Self { kind, ids: [user_id, 0], conversation: conversation.to_owned() }
    }

    fn of(change: &Change) -> Self {
        let ids = match change.kind() {
            ChangeKind::Member => [change.group_id, change.user_id],
            ChangeKind::Group | ChangeKind::Roster => [change.group_id, 0],
            ChangeKind::Audience => [change.audience_id.into(), 0],
            ChangeKind::Notice => [change.notice_id, 0],
            _ => [change.user_id, change.other_user_id],
        };
        Self { kind: change.kind(), ids, conversation: change.conversation_id.clone() }
    }
}

impl ChangesTally {
    /// Notes a write after its answer.
    pub(super) fn add_write(&mut self, write: AcknowledgedWrite) {
        if write.key.kind != ChangeKind::Messages {
            self.written.insert(write.key.clone(), write);
            return;
        }
        let message = (write.key.conversation.clone(), write.version);
        if !self.early.remove(&message) {
            self.unread.insert(message, write);
        }
    }

    /// Notes the changes in a page that was read at this time.
    pub(super) fn add_page(&mut self, changes: &[Change], read: Instant) {
        let mut places: BTreeMap<String, FeedPlace> = BTreeMap::new();
        for change in changes {
            self.changes += 1;
            let Some((feed, place)) = feed_place(&change.position) else {
                self.violations.add(UNORDERED, || format!("no position: {}", change.position));
                continue;
            };
            if places.insert(feed, place).is_some_and(|before| before >= place) {
                self.violations.add(UNORDERED, || change.position.clone());
            }
            self.add_change(change, read);
        }
    }

    /// A cursor ended though nothing was restored.
    pub(super) fn add_expired(&mut self, text: &str) {
        self.violations.add(EXPIRED, || text.to_owned());
    }

    /// The reader begins again with a cursor that it asked for at this time: writes that were acknowledged
    /// before are not among the changes after it.
    pub(super) fn begin_again(&mut self, asked: Instant) {
        self.written.retain(|_, write| write.acknowledged >= asked);
        self.unread.retain(|_, write| write.acknowledged >= asked);
        self.early.clear();
    }

    /// Whether every acknowledged write was read.
    pub(super) fn is_complete(&self) -> bool {
        self.missed().next().is_none()
    }

    /// To be called at the end.
    pub(super) fn figures(&mut self) -> Vec<Figure> {
        let missed: Vec<_> = self.missed().cloned().collect();
        for kind in missed.iter().map(|write| write.key.kind).collect::<BTreeSet<_>>() {
            let count = missed.iter().filter(|write| write.key.kind == kind).count();
            eprintln!("{count} missed of {}", kind.as_str_name());
        }
        for write in missed {
            self.violations.add(MISSED, || format!("{write:?}"));
        }
        let mut figures = vec![
            Figure::at_least_count("changes read", self.changes, 1),
            Figure::count("changes read again", self.repeated),
        ];
        figures.extend(self.violations.figures([MISSED, UNORDERED, OTHER_RECORD, EXPIRED]));
        figures.extend(self.failed.figures());
        figures
    }

    fn add_change(&mut self, change: &Change, read: Instant) {
        let key = RecordKey::of(change);
        if let Some(before) = self.positions.insert(change.position.clone(), key.clone()) {
            self.repeated += 1;
            if before != key {
                self.violations.add(OTHER_RECORD, || change.position.clone());
            }
            return;
        }
        if key.kind == ChangeKind::Messages {
            for seq in change.first_seq..=change.last_seq {
                let message = (key.conversation.clone(), seq);
                if self.unread.remove(&message).is_none() {
                    self.early.insert(message);
                }
            }
        }
        self.read.insert(key, (read, change.version));
    }

    fn missed(&self) -> impl Iterator<Item = &AcknowledgedWrite> {
        let is_read = |write: &AcknowledgedWrite| {
            self.read.get(&write.key).is_some_and(|(at, version)| {
                *at >= write.began && (*version == 0 || *version >= write.version)
            })
        };
        self.written.values().filter(move |write| !is_read(write)).chain(self.unread.values())
    }
}

/// The feed in a position, with its generation, and the place in it.
fn feed_place(position: &str) -> Option<(String, FeedPlace)> {
    let mut parts = position.rsplitn(3, '.');
    let index = parts.next()?.parse().ok()?;
    let number = parts.next()?.parse().ok()?;
    Some((parts.next()?.to_owned(), (number, index)))
}

#[cfg(test)]
mod tests {
    use std::{sync::LazyLock, time::Duration};

    use super::*;

    fn change(position: &str, kind: ChangeKind, version: i64) -> Change {
        Change { position: position.into(), kind: kind.into(), user_id: 7, version, ..Change::default() }
    }

    fn messages(position: &str, first_seq: i64, last_seq: i64) -> Change {
        let kind = ChangeKind::Messages.into();
        let conversation_id = "d1-2".to_owned();
        Change { position: position.into(), kind, conversation_id, first_seq, last_seq, ..Change::default() }
    }

    fn write(key: RecordKey, version: i64) -> AcknowledgedWrite {
        AcknowledgedWrite { key, version, began: at(10), acknowledged: at(11) }
    }

    /// The time this many milliseconds after the begin of all tests.
    fn at(millis: u64) -> Instant {
        static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
        *BEGIN + Duration::from_millis(millis)
    }

    fn user(version: i64) -> AcknowledgedWrite {
        write(RecordKey::of_ids(ChangeKind::User, [7, 0]), version)
    }

    fn sent(seq: i64) -> AcknowledgedWrite {
        write(RecordKey::of_conversation(ChangeKind::Messages, "d1-2", 0), seq)
    }

    fn count(tally: &mut ChangesTally, name: &str) -> usize {
        tally.figures().iter().filter(|figure| figure.name == name && !figure.holds).count()
    }

    #[test]
    fn change_from_before_a_write_is_not_its_change() {
        let mut tally = ChangesTally::default();
        tally.add_page(&[change("a.file.1.0", ChangeKind::User, 0)], at(9));
        tally.add_write(user(0));
        assert!(!tally.is_complete());
        tally.add_page(&[change("a.file.1.0", ChangeKind::User, 0)], at(12));
        assert!(!tally.is_complete(), "it was only read again");
        tally.add_page(&[change("a.file.2.0", ChangeKind::User, 0)], at(12));
        assert!(tally.is_complete() && tally.repeated == 1);
    }

    #[test]
    fn change_with_an_earlier_version_is_earlier() {
        let mut tally = ChangesTally::default();
        tally.add_write(user(5));
        tally.add_page(&[change("a.file.1.0", ChangeKind::User, 4)], at(12));
        assert_eq!((tally.is_complete(), count(&mut tally, MISSED)), (false, 1));
        tally.add_page(&[change("a.file.2.0", ChangeKind::User, 5)], at(12));
        assert!(tally.is_complete());
    }

    #[test]
    fn every_message_has_to_be_read() {
        let mut tally = ChangesTally::default();
        tally.add_page(&[messages("a.file.1.0", 1, 2)], at(12));
        (1..=4).for_each(|seq| tally.add_write(sent(seq)));
        tally.add_page(&[messages("a.file.2.0", 4, 4)], at(12));
        assert_eq!(tally.unread.len(), 1, "the third one");
        assert_eq!(count(&mut tally, MISSED), 1);
        tally.begin_again(at(11));
        assert!(!tally.is_complete());
        tally.begin_again(at(12));
        assert!(tally.is_complete());
    }

    #[test]
    fn positions_rise_and_stay_with_their_record() {
        let mut tally = ChangesTally::default();
        let user = |position| change(position, ChangeKind::User, 1);
        tally.add_page(&[user("a.b.9.10"), user("a.b.10.0"), user("a.c.1.0")], at(12));
        assert_eq!(count(&mut tally, UNORDERED), 0);
        tally.add_page(&[user("a.b.11.1"), user("a.b.11.0")], at(12));
        tally.add_page(&[messages("a.c.1.0", 1, 1)], at(12));
        assert_eq!((count(&mut tally, UNORDERED), count(&mut tally, OTHER_RECORD)), (1, 1));
    }
}
