//! Consistency tokens: positions in the log of changes, encoded as text for clients. Clients send the text
//! back, so decoding validates it.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// First byte of the binary form.
const FORMAT: u8 = 1;
/// Most positions in one token.
const POSITIONS_MAX: usize = 64;
/// The partition that marks the authentication code, which is its epoch and number. It is the last position.
const CODE: u16 = u16::MAX;
/// The partition that marks the time of issue, which is its number. It precedes the code.
const ISSUED: u16 = u16::MAX - 1;
/// Longest text that a token may have: format byte and positions with at most 3 + 10 + 10 bytes each, in
/// base64.
const TEXT_MAX: usize = (1 + POSITIONS_MAX * 23).div_ceil(3) * 4;

/// The number of a change that is not published yet. No log reaches it.
pub const UNPUBLISHED: u64 = u64::MAX;

/// The number of a message that its window may not have yet. No log reaches it.
pub const UNSEEN: u64 = u64::MAX - 1;

/// How far the changes of one partition had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the partition, from 0.
    pub partition: u16,
    /// Numbers of different epochs do not compare.
    pub epoch: u64,
    /// Number of the change, from 1; 0 before the first.
    pub number: u64,
}

/// When a token was issued, and the code that shows that a node issued it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proof {
    /// When it was issued, in seconds since 1970.
    pub(super) issued: u64,
    pub(super) code: u128,
}

/// The position that a write reached: a read that carries the token sees that write.
///
/// Written as unpadded base64url: a format byte and, for each position, partition, epoch and number as
/// LEB128. Opaque to clients. Time and code follow as positions whose partitions no node has, so that nodes
/// with the previous version, which know neither, read the text as a token and ask the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Token {
    positions: Vec<Position>,
    proof: Option<Proof>,
}

impl Token {
    /// Creates a token with one position for reads within this process. It has no code:
    /// [`TokenIssuer`](crate::TokenIssuer) issues those that clients get.
    #[must_use]
    pub fn new(position: Position) -> Self {
        Self { positions: vec![position], proof: None }
    }

    pub(super) fn proven(position: Position, proof: Proof) -> Self {
        Self { positions: vec![position], proof: Some(proof) }
    }

    /// The positions that the token demands, in the order of the text.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// When it was issued, in seconds since 1970. `None` if it has no code: anyone can have made it.
    #[must_use]
    pub fn issued(&self) -> Option<u64> {
        self.proof.map(|proof| proof.issued)
    }

    /// Whether it demands a number that no log reaches.
    pub(super) fn is_of(&self, number: u64) -> bool {
        self.positions.iter().any(|position| position.number == number)
    }

    pub(super) const fn proof(&self) -> Option<Proof> {
        self.proof
    }

    /// The token of a text. Its code is not verified.
    pub(super) fn parse(text: &str) -> Result<Self, TokenError> {
        if text.len() > TEXT_MAX {
            return Err(TokenError::TooLong);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Encoding)?;
        let (format, mut rest) = bytes.split_first().ok_or(TokenError::Format)?;
        if *format != FORMAT {
            return Err(TokenError::Format);
        }
        let mut positions = Vec::new();
        while !rest.is_empty() {
            positions.push(position(&mut rest)?);
        }
        if positions.len() > POSITIONS_MAX {
            return Err(TokenError::TooLong);
        }
        let proof = split_proof(&mut positions);
        Ok(Self { positions, proof })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![FORMAT];
        let proof = self.proof.map(Proof::positions);
        for position in self.positions.iter().chain(proof.iter().flatten()) {
            encode(u64::from(position.partition), &mut bytes);
            encode(position.epoch, &mut bytes);
            encode(position.number, &mut bytes);
        }
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// Why a text is not a token. Does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The text is longer than any token.
    #[error("the consistency token is too long")]
    TooLong,
    /// The text is not base64url without padding.
    #[error("the consistency token is not base64url")]
    Encoding,
    /// Made by another version of the product.
    #[error("the consistency token has an unknown format")]
    Format,
    /// Cut short, or a number outside its range.
    #[error("the consistency token is damaged")]
    Damaged,
    /// Changed, or issued over another database.
    #[error("the consistency token was not issued here")]
    Foreign,
}

impl Proof {
    /// The two positions that represent it in the text.
    fn positions(self) -> [Position; 2] {
        let [high, low] = halves(self.code);
        let issued = Position { partition: ISSUED, epoch: 0, number: self.issued };
        [issued, Position { partition: CODE, epoch: high, number: low }]
    }
}

/// Takes the proof, if there is one, off the end of a text's positions.
fn split_proof(positions: &mut Vec<Position>) -> Option<Proof> {
    let [.., issued, code] = **positions else { return None };
    if (issued.partition, issued.epoch, code.partition) != (ISSUED, 0, CODE) {
        return None;
    }
    positions.truncate(positions.len() - 2);
    let code = u128::from(code.epoch) << 64 | u128::from(code.number);
    Some(Proof { issued: issued.number, code })
}

/// The high and the low 64 bits.
fn halves(code: u128) -> [u64; 2] {
    let bytes = code.to_be_bytes();
    let (halves, _) = bytes.as_chunks::<8>();
    [0, 1].map(|half| halves.get(half).map_or(0, |half| u64::from_be_bytes(*half)))
}

fn position(rest: &mut &[u8]) -> Result<Position, TokenError> {
    let partition = u16::try_from(decode(rest)?).map_err(|_| TokenError::Damaged)?;
    Ok(Position { partition, epoch: decode(rest)?, number: decode(rest)? })
}

fn encode(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(0x80 | low_seven(number));
        number >>= 7;
    }
    bytes.push(low_seven(number));
}

const fn low_seven(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

fn decode(rest: &mut &[u8]) -> Result<u64, TokenError> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, tail) = rest.split_first().ok_or(TokenError::Damaged)?;
        *rest = tail;
        let part = u64::from(byte & 0x7f);
        let shifted = part << shift;
        if shifted >> shift != part {
            return Err(TokenError::Damaged);
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(TokenError::Damaged)
}
