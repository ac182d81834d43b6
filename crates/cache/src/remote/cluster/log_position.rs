//! A node's position in the log, and whether a received entry is the next entry.

use std::collections::VecDeque;

use crate::remote::shared::Frame;

/// Number of remembered nonces: most repeated entries are recent.
const REMEMBERED: usize = 1_024;

/// The position of a node in the log: the last entry that it has applied.
#[derive(Clone, Debug)]
pub struct LogPosition {
    number: u64,
    /// Nonces of the last applied entries, the newest last. At a new position: only its entry's nonce.
    nonces: VecDeque<u64>,
}

/// How a frame relates to a node's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOrder {
    /// It follows the last applied entry: apply it.
    Next,
    /// It was applied before.
    Repeated,
    /// Entries may be missing: read the log from [`LogPosition::number`] on.
    Gap,
    /// It belongs to another log, or to another history of this log, which must not be followed.
    Fork,
}

impl LogPosition {
    /// The position after this entry. `number` and `nonce` are 0 if the log is empty.
    #[must_use]
    pub fn at(number: u64, nonce: u64) -> Self {
        Self { number, nonces: VecDeque::from([nonce]) }
    }

    /// Number of the last applied entry.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Compares a frame with the position. An older frame whose nonce is not remembered is a gap: only the
    /// log can distinguish a repetition from a fork.
    #[must_use]
    pub fn classify(&self, frame: &Frame) -> FrameOrder {
        if frame.number == self.number + 1 {
            return if self.nonces.back() == Some(&frame.before) {
                FrameOrder::Next
            } else {
                FrameOrder::Fork
            };
        }
        if frame.number > self.number {
            return FrameOrder::Gap;
        }
        match self.nonce(frame.number) {
            Some(nonce) if nonce == frame.nonce => FrameOrder::Repeated,
            Some(_) => FrameOrder::Fork,
            None => FrameOrder::Gap,
        }
    }

    /// Moves on to an applied frame, which must be [`FrameOrder::Next`].
    pub fn advance(&mut self, frame: &Frame) {
        self.number = frame.number;
        self.nonces.push_back(frame.nonce);
        if self.nonces.len() > REMEMBERED {
            self.nonces.pop_front();
        }
    }

    /// Whether the log is the log that was followed. `first` is the log's first entry from [`Self::number`]
    /// on: the last applied entry, or the entry after it. An empty log continues number 0. `None`: the log
    /// was trimmed beyond the last applied entry, which proves nothing; the node needs a new baseline.
    #[must_use]
    pub fn continues(&self, first: Option<&Frame>) -> Option<bool> {
        match first {
            Some(frame) if frame.number == self.number => Some(self.nonces.back() == Some(&frame.nonce)),
            Some(frame) if frame.number == self.number + 1 => Some(self.nonces.back() == Some(&frame.before)),
            Some(_) => None,
            None => Some(self.number == 0),
        }
    }

    /// Whether the applied entry of this number has this nonce. `None`: it is not applied yet, or no longer
    /// remembered.
    #[must_use]
    pub fn knows(&self, number: u64, nonce: u64) -> Option<bool> {
        if number > self.number { None } else { self.nonce(number).map(|known| known == nonce) }
    }

    fn nonce(&self, number: u64) -> Option<u64> {
        let back = usize::try_from(self.number - number).ok()?;
        let at = self.nonces.len().checked_sub(back + 1)?;
        self.nonces.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, nonce: u64, before: u64) -> Frame {
        Frame { number, nonce, before, message: Vec::new() }
    }

    fn followed(to: u64) -> LogPosition {
        let mut position = LogPosition::at(0, 0);
        for number in 1..=to {
            let next = frame(number, 100 + number, if number == 1 { 0 } else { 99 + number });
            assert_eq!(position.classify(&next), FrameOrder::Next);
            position.advance(&next);
        }
        position
    }

    #[test]
    fn next_entry_must_name_the_last_applied_one() {
        let position = followed(5);
        assert_eq!(position.classify(&frame(6, 106, 105)), FrameOrder::Next);
        assert_eq!(position.classify(&frame(6, 106, 104)), FrameOrder::Fork, "right number, other history");
        assert_eq!(position.classify(&frame(7, 107, 106)), FrameOrder::Gap);
    }

    #[test]
    fn applied_entry_is_recognized_by_its_nonce() {
        let position = followed(5);
        assert_eq!(position.classify(&frame(5, 105, 104)), FrameOrder::Repeated);
        assert_eq!(position.classify(&frame(2, 102, 101)), FrameOrder::Repeated);
        assert_eq!(
            position.classify(&frame(2, 7, 101)),
            FrameOrder::Fork,
            "a promoted replica that lacked the last writes"
        );
        assert_eq!(
            LogPosition::at(5, 105).classify(&frame(3, 103, 102)),
            FrameOrder::Gap,
            "not remembered: the log decides"
        );
    }

    #[test]
    fn remembered_nonces_are_bounded() {
        let position = followed(REMEMBERED as u64 + 10);
        assert_eq!(position.nonces.len(), REMEMBERED);
        assert_eq!(position.classify(&frame(3, 103, 102)), FrameOrder::Gap);
    }

    #[test]
    fn log_is_recognized_by_the_last_applied_entry() {
        let position = followed(5);
        assert_eq!(position.continues(Some(&frame(5, 105, 104))), Some(true));
        assert_eq!(position.continues(Some(&frame(6, 106, 105))), Some(true));
        assert_eq!(position.continues(Some(&frame(5, 9, 104))), Some(false));
        assert_eq!(position.continues(Some(&frame(9, 109, 108))), None, "trimmed");
        assert_eq!(position.continues(None), Some(false), "an emptied log");
        assert_eq!(LogPosition::at(0, 0).continues(None), Some(true));
    }
}
