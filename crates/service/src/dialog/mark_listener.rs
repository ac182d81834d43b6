//! Notifies listeners about read marks.

use std::fmt;

use kith_store::{ConversationId, Dialog, MarkKind, ReadMark, SeqRange};

/// Notified about the read marks that this node makes.
pub trait MarkListener: Send + Sync + fmt::Debug + 'static {
    /// Called when a mark that others may see is durable: messages in this range may have another reader.
    /// Must not wait. `imported`: no user is to be notified.
    fn marked(&self, conversation: ConversationId, seqs: SeqRange, imported: bool);
}

/// Returns the messages that a mark has newly read, from the dialog before it; `None`: no other user sees the
/// mark. `is_own`: the user sent the last message, and is not its reader.
pub(super) fn seen_by_others(before: &Dialog, mark: &ReadMark, is_own: bool) -> Option<SeqRange> {
    let last = match &mark.kind {
        MarkKind::UpTo(last) => *last,
        MarkKind::Ranges(ranges) => ranges.iter().map(|range| range.last).max()?,
        MarkKind::Hidden(_) => return None,
    };
    let last = if is_own { last - 1 } else { last };
    let first = (before.read.shown_seq() + 1).max(mark.joined);
    (first <= last).then_some(SeqRange { first, last })
}

#[cfg(test)]
mod tests {
    use kith_store::{ReadRanges, Timestamp};

    use super::*;

    fn seen(kind: MarkKind) -> Option<(i64, i64)> {
        seen_of(kind, false)
    }

    fn seen_of(kind: MarkKind, is_own: bool) -> Option<(i64, i64)> {
        let read = ReadRanges::new(20, vec![SeqRange { first: 11, last: 12 }]).unwrap();
        let before = Dialog { read, ..Dialog::new("7,g9".parse().unwrap(), Timestamp(1)) };
        let mark = ReadMark { joined: 5, earlier: Vec::new(), kind };
        seen_by_others(&before, &mark, is_own).map(|range| (range.first, range.last))
    }

    #[test]
    fn others_see_what_was_unread() {
        assert_eq!(seen(MarkKind::UpTo(30)), Some((11, 30)));
        assert_eq!(seen(MarkKind::UpTo(10)), None);
        let range = |first, last| SeqRange { first, last };
        assert_eq!(seen(MarkKind::Ranges(vec![range(30, 31), range(11, 11)])), Some((11, 31)));
        assert_eq!(seen(MarkKind::Ranges(Vec::new())), None);
    }

    #[test]
    fn sender_is_no_reader_of_its_message() {
        assert_eq!(seen_of(MarkKind::UpTo(30), true), Some((11, 29)));
        assert_eq!(seen_of(MarkKind::UpTo(11), true), None);
    }

    #[test]
    fn others_see_no_hidden_mark() {
        assert_eq!(seen(MarkKind::Hidden(30)), None);
    }
}
