//! The rules as Lua, run by Redis: each call is one step that nothing comes between.

use std::time::Duration;

use bytes::Bytes;
use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    types::{Key, Value, scripts::Script},
};

use super::{Acquired, Cell, Entry, Filled, Header, Kept, Order};
use crate::{Version, clock::milliseconds};

/// Where a change is logged and told.
#[derive(Clone, Debug)]
pub struct Channel<'a> {
    /// Key of the log.
    pub log: &'a str,
    /// Channel of the broadcast.
    pub channel: &'a str,
    /// What is logged.
    pub entry: Entry<'a>,
}

/// The scripts. Redis is asked by their hash and given the text when it does not know it.
#[derive(Clone, Debug)]
pub struct Scripts {
    acquire: Script,
    fill: Script,
    release: Script,
    change: Script,
    kept: Kept,
}

macro_rules! script {
    ($name:literal) => {
        Script::from_lua(concat!(include_str!("lua/cell.lua"), include_str!(concat!("lua/", $name, ".lua"))))
    };
}

impl Scripts {
    /// Scripts that keep what they write so long.
    #[must_use]
    pub fn new(kept: Kept) -> Self {
        Self {
            acquire: script!("acquire"),
            fill: script!("fill"),
            release: script!("release"),
            change: script!("change"),
            kept,
        }
    }

    /// See [`Cell::acquire`]. Idempotent.
    ///
    /// # Errors
    /// When Redis does not answer; the lease may be taken.
    pub async fn acquire(&self, client: &Client, key: &str, token: u64) -> Result<Acquired, Error> {
        let arguments = vec![number(token), duration(self.kept.leases)];
        let (code, answer): (i64, Value) = self.acquire.evalsha_with_reload(client, key, arguments).await?;
        let bytes = answer.as_bytes();
        match (code, bytes) {
            (0, Some(bytes)) => cell(bytes).map(Acquired::Hit).ok_or_else(unexpected),
            (1, Some(bytes)) => Ok(Acquired::Leased { floor: version(bytes).ok_or_else(unexpected)? }),
            (2, _) => Ok(Acquired::Wait),
            _ => Err(unexpected()),
        }
    }

    /// See [`Cell::fill`]. Idempotent.
    ///
    /// # Errors
    /// When Redis does not answer; the value may stand there.
    pub async fn fill(&self, client: &Client, key: &str, filling: &Cell) -> Result<Filled, Error> {
        let arguments = vec![filling.to_value(), duration(self.kept.copies)];
        match self.fill.evalsha_with_reload::<i64, _, _>(client, key, arguments).await? {
            0 => Ok(Filled::Stored),
            1 => Ok(Filled::Gone),
            2 => Ok(Filled::Lost),
            3 => Ok(Filled::Old),
            4 => Ok(Filled::Newer),
            _ => Err(unexpected()),
        }
    }

    /// See [`Cell::release`]. Idempotent.
    ///
    /// # Errors
    /// When Redis does not answer; the lease runs out by itself.
    pub async fn release(&self, client: &Client, key: &str, token: u64) -> Result<(), Error> {
        let arguments = vec![number(token), duration(self.kept.tombs)];
        self.release.evalsha_with_reload(client, key, arguments).await
    }

    /// Changes the keys, logs it and tells it, in one step. Returns the number of the change. Sent twice, it
    /// is logged twice under one nonce.
    ///
    /// # Errors
    /// When Redis does not answer; the change may be made.
    pub async fn change(
        &self,
        client: &Client,
        orders: &[(&str, Order)],
        told: &Channel<'_>,
    ) -> Result<u64, Error> {
        let keys: Vec<Key> = orders.iter().map(|(key, _)| *key).chain([told.log]).map(Key::from).collect();
        let mut arguments = vec![
            Value::from(told.channel),
            number(told.entry.nonce),
            Value::Bytes(Bytes::copy_from_slice(told.entry.message)),
            Value::from(i64::from(self.kept.log_max)),
            duration(self.kept.copies),
            duration(self.kept.tombs),
        ];
        arguments.extend(orders.iter().map(|(_, order)| order.to_value()));
        self.change.evalsha_with_reload(client, keys, arguments).await
    }
}

impl Order {
    fn to_value(&self) -> Value {
        let bytes = match self {
            Self::Invalidate(version) => {
                [b"I".as_slice(), &version.unwrap_or_default().get().to_be_bytes()].concat()
            }
            Self::Put(cell) => [b"P".as_slice(), &cell.to_bytes()].concat(),
        };
        Value::Bytes(bytes.into())
    }
}

impl Cell {
    /// As Redis holds it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.header.encode()[..], &self.payload].concat()
    }

    fn to_value(&self) -> Value {
        Value::Bytes(self.to_bytes().into())
    }
}

fn cell(bytes: &[u8]) -> Option<Cell> {
    let (header, payload) = Header::decode(bytes)?;
    Some(Cell { header, payload: payload.to_vec() })
}

fn version(bytes: &[u8]) -> Option<Version> {
    Some(Version::new(u64::from_be_bytes(bytes.try_into().ok()?)))
}

fn number(number: u64) -> Value {
    Value::Bytes(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn duration(time: Duration) -> Value {
    Value::from(i64::try_from(milliseconds(time)).unwrap_or(i64::MAX))
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, "a script answered what it never does")
}
