//! Finds published messages among the answers from Redis, and tampers with them.

use std::time::Duration;

use rand::Rng as _;

use super::Link;
use crate::resp;

/// How published messages are tampered with, each at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tampering {
    /// Messages pass unchanged.
    Nothing,
    /// One message in this many is lost.
    Lose(u32),
    /// Each message is delivered this many times.
    Repeat(u32),
    /// One message in this many is held back by up to this time, and others overtake it.
    Reorder(u32, Duration),
}

/// The action for one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageAction {
    Pass,
    Drop,
    Repeat(u32),
    Delay(Duration),
}

/// A part of an answer.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// Whether the piece is exactly one published message.
    pub(super) message: bool,
}

/// Cuts answers into pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    incomplete: Vec<u8>,
    /// The answers belong to another protocol: everything passes through unchanged.
    is_opaque: bool,
}

impl Pieces {
    /// The pieces that are whole with these bytes, in order.
    pub(super) fn split(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.incomplete.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        while !self.is_opaque {
            match resp::parse(&self.incomplete) {
                Ok(Some((value, length))) => {
                    let rest = self.incomplete.split_off(length);
                    let bytes = std::mem::replace(&mut self.incomplete, rest);
                    pieces.push(Piece { bytes, message: value.is_message() });
                }
                Ok(None) => return pieces,
                Err(resp::Malformed) => self.is_opaque = true,
            }
        }
        pieces.push(Piece { bytes: std::mem::take(&mut self.incomplete), message: false });
        pieces
    }
}

impl Link {
    pub(super) fn choose_action(&self) -> MessageAction {
        let tampering = *self.tampering.lock();
        let chosen = |one_in: u32| self.random.lock().random_ratio(1, one_in.max(1));
        match tampering {
            Some(Tampering::Lose(one_in)) if chosen(one_in) => MessageAction::Drop,
            Some(Tampering::Repeat(times)) => MessageAction::Repeat(times),
            Some(Tampering::Reorder(one_in, by)) if chosen(one_in) => {
                MessageAction::Delay(self.random_delay(Duration::ZERO..by))
            }
            Some(Tampering::Nothing | Tampering::Lose(_) | Tampering::Reorder(..)) | None => {
                MessageAction::Pass
            }
        }
    }
}
