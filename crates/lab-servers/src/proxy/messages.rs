//! What was published, found among the answers of Redis, and what becomes of it.

use std::time::Duration;

use rand::Rng as _;

use super::Link;
use crate::resp;

/// What happens to published messages, each at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    /// Nothing.
    Nothing,
    /// One in so many is lost.
    Lose(u32),
    /// Each comes so many times.
    Repeat(u32),
    /// One in so many is held back by up to this time, and others overtake it.
    Reorder(u32, Duration),
}

/// What becomes of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Passes,
    Lost,
    Comes(u32),
    Waits(Duration),
}

/// A part of the answers.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// It is one published message, whole.
    pub(super) message: bool,
}

/// Cuts answers into pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    begun: Vec<u8>,
    /// The answers are of another protocol: all goes through as it comes.
    strange: bool,
}

impl Pieces {
    /// The pieces that are whole with these bytes, in order.
    pub(super) fn split(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.begun.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while !self.strange {
            match resp::parse(&self.begun) {
                Ok(Some((value, length))) => {
                    let rest = self.begun.split_off(length);
                    let bytes = std::mem::replace(&mut self.begun, rest);
                    pieces.push(Piece { bytes, message: value.is_message() });
                }
                Ok(None) => return pieces,
                Err(resp::Malformed) => self.strange = true,
            }
        }
        pieces.push(Piece { bytes: std::mem::take(&mut self.begun), message: false });
        pieces
    }
}

impl Link {
    pub(super) fn fate(&self) -> Fate {
        let tampering = *self.tampering.lock();
        let chosen = |one_in: u32| self.random.lock().random_ratio(1, one_in.max(1));
        match tampering {
            Some(Tampering::Lose(one_in)) if chosen(one_in) => Fate::Lost,
            Some(Tampering::Repeat(times)) => Fate::Comes(times),
            Some(Tampering::Reorder(one_in, by)) if chosen(one_in) => {
                Fate::Waits(self.by_chance(Duration::ZERO..by))
            }
            Some(Tampering::Nothing | Tampering::Lose(_) | Tampering::Reorder(..)) | None => Fate::Passes,
        }
    }
}
