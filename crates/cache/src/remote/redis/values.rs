//! Requests and answers in the types of the client.

use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;

use crate::{
    Version,
    api::clock::milliseconds,
    remote::shared::{
        Acquired, Cell, CellWrite, FillResult, HEADER_BYTES, Header, Peer, PeerPosition, SharedError,
    },
};

impl Cell {
    /// The bytes that Redis stores.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        bytes.extend_from_slice(&self.header.encode());
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The cell in these bytes; `None` for bytes of other programs.
    #[must_use]
    pub fn from_bytes(bytes: &Bytes) -> Option<Self> {
        let (header, _) = Header::decode(bytes)?;
        Some(Self { header, payload: bytes.slice(HEADER_BYTES..), ttl_max: None })
    }
}

pub(super) fn bytes(bytes: impl Into<Bytes>) -> Value {
    Value::Bytes(bytes.into())
}

pub(super) fn number(number: u64) -> Value {
    bytes(number.to_be_bytes().to_vec())
}

pub(super) fn duration(time: Duration) -> Value {
    Value::from(i64::try_from(milliseconds(time)).unwrap_or(i64::MAX))
}

/// `ttl`: how long a copy is kept.
pub(super) fn cell_write(write: &CellWrite, ttl: Duration) -> Value {
    match write {
        CellWrite::Invalidate(version) => {
            bytes([b"I".as_slice(), &version.unwrap_or_default().get().to_be_bytes()].concat())
        }
        CellWrite::Put(cell) => {
            let ttl = u32::try_from(milliseconds(cell.ttl(ttl))).unwrap_or(u32::MAX);
            bytes([b"P".as_slice(), &ttl.to_be_bytes(), &cell.header.encode(), &cell.payload].concat())
        }
    }
}

/// The result for a GET, or for one key in an MGET.
pub(super) fn cell(value: Value) -> Option<Cell> {
    Cell::from_bytes(&value.into_bytes()?)
}

pub(super) fn acquired(value: Value) -> Result<Acquired, SharedError> {
    let (code, answer) = pair(value).ok_or(SharedError::Unexpected)?;
    let acquired = match code {
        0 => cell(answer).map(Acquired::Hit),
        1 => read_number(&answer).map(|floor| Acquired::Leased { floor: Version::new(floor) }),
        2 => unsigned(&answer).map(|left| Acquired::Wait(Duration::from_millis(left))),
        _ => None,
    };
    acquired.ok_or(SharedError::Unexpected)
}

pub(super) fn filled(value: &Value) -> Result<FillResult, SharedError> {
    match value.as_i64() {
        Some(0) => Ok(FillResult::Stored),
        Some(1) => Ok(FillResult::Gone),
        Some(2) => Ok(FillResult::Lost),
        Some(3) => Ok(FillResult::Old),
        Some(4) => Ok(FillResult::Newer),
        _ => Err(SharedError::Unexpected),
    }
}

/// A registry's nodes, and in the same order what each says about itself.
pub(super) fn peers(value: Value) -> Result<Vec<Peer>, SharedError> {
    let [found, texts] = <[Value; 2]>::try_from(array(value)?).map_err(|_| SharedError::Unexpected)?;
    let (positions, texts) = (peer_positions(found)?, array(texts)?);
    let about = |text: &Value| Some(String::from_utf8_lossy(text.as_bytes()?).into_owned());
    let peers = positions.into_iter().zip(&texts).map(|(position, text)| {
        let PeerPosition { node, applied, silent } = position;
        Some(Peer { node, applied, silent, about: about(text)? })
    });
    peers.collect::<Option<_>>().ok_or(SharedError::Unexpected)
}

/// The nodes of a registry: three values each.
pub(super) fn peer_positions(value: Value) -> Result<Vec<PeerPosition>, SharedError> {
    let values = array(value)?;
    values.chunks(3).map(peer_position).collect::<Option<_>>().ok_or(SharedError::Unexpected)
}

fn peer_position(values: &[Value]) -> Option<PeerPosition> {
    let [node, applied, silent] = values else { return None };
    Some(PeerPosition {
        node: read_number(node)?,
        applied: read_number(applied)?,
        silent: Duration::from_millis(unsigned(silent)?),
    })
}

pub(super) fn array(value: Value) -> Result<Vec<Value>, SharedError> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(SharedError::Unexpected),
    }
}

fn pair(value: Value) -> Option<(i64, Value)> {
    let [code, answer] = <[Value; 2]>::try_from(array(value).ok()?).ok()?;
    Some((code.as_i64()?, answer))
}

/// Reads eight bytes in big endian.
pub(super) fn read_number(value: &Value) -> Option<u64> {
    Some(u64::from_be_bytes(value.as_bytes()?.try_into().ok()?))
}

/// An integer of Redis.
pub(super) fn unsigned(value: &Value) -> Option<u64> {
    value.as_i64().and_then(|number| u64::try_from(number).ok())
}
