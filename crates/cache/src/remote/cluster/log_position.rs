//! The position of a node in the log, and whether the next received entry continues it.

use std::collections::VecDeque;

use crate::remote::shared::Frame;

/// Number of entry names that are remembered: repetitions are mostly of recent entries.
const REMEMBERED: usize = 1_024;

/// The last entry that a node has applied.
#[derive(Clone, Debug)]
pub struct LogPosition {
    number: u64,
    /// Names of the last entries applied, the newest last. Empty at a baseline of 0.
    nonces: VecDeque<u64>,
}

/// The relation of a frame to a node's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameOrder {
    /// The next one: apply it.
    Next,
    /// It was applied before.
    Twice,
    /// Entries in between are missing: read the log from [`LogPosition::number`] on.
    Gap,
    /// It belongs to another log, or to another history of this one: none of it can be trusted.
    Fork,
}

impl LogPosition {
    /// A chain that begins after this entry; its nonce is 0 if the log is empty.
    #[must_use]
    pub fn at(number: u64, nonce: u64) -> Self {
        Self { number, nonces: VecDeque::from([nonce]) }
    }

    /// Number of the last entry applied.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Classifies the frame. An older one that is not remembered is a gap: the log shows what it is.
    #[must_use]
    pub fn hear(&self, frame: &Frame) -> FrameOrder {
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
            Some(nonce) if nonce == frame.nonce => FrameOrder::Twice,
            Some(_) => FrameOrder::Fork,
            None => FrameOrder::Gap,
        }
    }

    /// Applied the frame, which was [`FrameOrder::Next`].
    pub fn applied(&mut self, frame: &Frame) {
        self.number = frame.number;
        self.nonces.push_back(frame.nonce);
        if self.nonces.len() > REMEMBERED {
            self.nonces.pop_front();
        }
    }

    /// Whether the log, read from [`Self::number`] on, is the one that was followed: its first entry is the last one
    /// applied. An empty log at number 0 is the beginning. `None`: the log was trimmed beyond this entry, which proves
    /// nothing; the node needs a new baseline.
    #[must_use]
    pub fn continues(&self, first: Option<&Frame>) -> Option<bool> {
        match first {
            Some(frame) if frame.number == self.number => Some(self.nonces.back() == Some(&frame.nonce)),
            Some(frame) if frame.number == self.number + 1 => Some(self.nonces.back() == Some(&frame.before)),
            Some(_) => None,
            None => Some(self.number == 0),
        }
    }

    /// Whether the entry of this number was applied under this name. `None`: it is ahead, or too long ago.
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
        let mut chain = LogPosition::at(0, 0);
        for number in 1..=to {
            let next = frame(number, 100 + number, if number == 1 { 0 } else { 99 + number });
            assert_eq!(chain.hear(&next), FrameOrder::Next);
            chain.applied(&next);
        }
        chain
    }

    #[test]
    fn the_next_entry_names_the_last_one_applied() {
        let chain = followed(5);
        assert_eq!(chain.hear(&frame(6, 106, 105)), FrameOrder::Next);
        assert_eq!(chain.hear(&frame(6, 106, 104)), FrameOrder::Fork, "a right number over another past");
        assert_eq!(chain.hear(&frame(7, 107, 106)), FrameOrder::Gap);
    }

    #[test]
    fn what_came_before_is_known_by_its_name() {
        let chain = followed(5);
        assert_eq!(chain.hear(&frame(5, 105, 104)), FrameOrder::Twice);
        assert_eq!(chain.hear(&frame(2, 102, 101)), FrameOrder::Twice);
        assert_eq!(
            chain.hear(&frame(2, 7, 101)),
            FrameOrder::Fork,
            "a promoted replica that lacked the last writes"
        );
        assert_eq!(
            LogPosition::at(5, 105).hear(&frame(3, 103, 102)),
            FrameOrder::Gap,
            "not remembered: the log tells"
        );
    }

    #[test]
    fn names_are_remembered_within_a_bound() {
        let chain = followed(REMEMBERED as u64 + 10);
        assert_eq!(chain.nonces.len(), REMEMBERED);
        assert_eq!(chain.hear(&frame(3, 103, 102)), FrameOrder::Gap);
    }

    #[test]
    fn a_log_is_recognised_by_the_last_entry_applied() {
        let chain = followed(5);
        assert_eq!(chain.continues(Some(&frame(5, 105, 104))), Some(true));
        assert_eq!(chain.continues(Some(&frame(6, 106, 105))), Some(true));
        assert_eq!(chain.continues(Some(&frame(5, 9, 104))), Some(false));
        assert_eq!(chain.continues(Some(&frame(9, 109, 108))), None, "trimmed");
        assert_eq!(chain.continues(None), Some(false), "an emptied log");
        assert_eq!(LogPosition::at(0, 0).continues(None), Some(true));
    }
}
