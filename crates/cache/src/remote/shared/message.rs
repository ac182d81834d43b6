//! The messages that nodes publish to each other: log entries, and the same bytes on the channel.

use super::wire_version::wire_format;
use crate::{Invalidation, Version};

/// Format of a message.
const FORMAT: u8 = 1;
/// Maximum changes in one message; a reader refuses more.
pub const CHANGES_MAX: usize = 4_096;

/// One entry of the log, as read from it or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number: 1, 2, 3, ...
    pub number: u64,
    /// Its name, at random.
    pub nonce: u64,
    /// The previous entry's name; 0 for the first entry.
    pub before: u64,
    /// The changes, authenticated: see [`Message`] and [`MessageMac`](super::MessageMac).
    pub message: Vec<u8>,
}

/// A change of one record in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedChange<'a> {
    /// Namespace of the record.
    pub namespace: &'a str,
    /// Text of its key.
    pub key: &'a str,
    /// Its new version; `None`: not known.
    pub version: Option<Version>,
}

impl<'a> PublishedChange<'a> {
    /// The published part of a change: all but its copy.
    #[must_use]
    pub fn of(change: &'a Invalidation) -> Self {
        Self { namespace: change.namespace, key: &change.key, version: change.version }
    }
}

impl Frame {
    /// Reads a message from the channel; `None` if another program wrote the bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, entry) = number(bytes)?;
        Self::from_log(number, entry)
    }

    /// The bytes on the channel.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.number.to_be_bytes()[..], &self.nonce.to_be_bytes(), &self.before.to_be_bytes(), &self.message]
            .concat()
    }

    /// Reads a log entry; `None` if another program wrote the bytes.
    #[must_use]
    pub fn from_log(at: u64, entry: &[u8]) -> Option<Self> {
        let (nonce, rest) = number(entry)?;
        let (before, message) = number(rest)?;
        Some(Self { number: at, nonce, before, message: message.to_vec() })
    }
}

/// The content of a log entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// The node that published it.
    pub origin: u64,
    /// The origin waits until every node has confirmed it.
    pub strict: bool,
    /// When it was published, in milliseconds since 1970 by the origin's clock. For measurement, never for
    /// order.
    pub sent_ms: u64,
    /// The changes in the order in which they happened.
    pub changes: Vec<PublishedChange<'a>>,
}

impl<'a> Message<'a> {
    /// The bytes. `None`: it contains more than [`CHANGES_MAX`] changes, or a name or key of more than 65,535
    /// bytes, so that it cannot be published.
    #[must_use]
    pub fn encode(&self) -> Option<Vec<u8>> {
        if self.changes.len() > CHANGES_MAX {
            return None;
        }
        let mut bytes = vec![wire_format(FORMAT), u8::from(self.strict)];
        bytes.extend(self.origin.to_be_bytes());
        bytes.extend(self.sent_ms.to_be_bytes());
        for change in &self.changes {
            bytes.extend(u16::try_from(change.namespace.len()).ok()?.to_be_bytes());
            bytes.extend(change.namespace.as_bytes());
            bytes.extend(u16::try_from(change.key.len()).ok()?.to_be_bytes());
            bytes.extend(change.key.as_bytes());
            bytes.extend(change.version.unwrap_or_default().get().to_be_bytes());
        }
        Some(bytes)
    }

    /// Reads the bytes; `None` if they are no message, or a message in a newer format.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let ([format, strict], rest) = bytes.split_first_chunk::<2>()?;
        if *format != wire_format(FORMAT) {
            return None;
        }
        let (origin, rest) = number(rest)?;
        let (sent_ms, rest) = number(rest)?;
        Some(Self { origin, strict: *strict == 1, sent_ms, changes: changes(rest)? })
    }
}

fn changes(mut rest: &[u8]) -> Option<Vec<PublishedChange<'_>>> {
    let mut changes = Vec::new();
    while !rest.is_empty() {
        let (namespace, after) = text(rest)?;
        let (key, after) = text(after)?;
        let (version, after) = number(after)?;
        let version = Some(Version::new(version)).filter(|version| version.is_versioned());
        changes.push(PublishedChange { namespace, key, version });
        if changes.len() > CHANGES_MAX {
            return None;
        }
        rest = after;
    }
    Some(changes)
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*head), rest))
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoded_message_equals_the_encoded_one(
            changes in proptest::collection::vec((".{0,20}", ".{0,40}", any::<u64>()), 0..20),
        ) {
            let changes: Vec<PublishedChange<'_>> = changes
                .iter()
                .map(|(namespace, key, version)| PublishedChange {
                    namespace,
                    key,
                    version: Some(Version::new(*version)).filter(|version| version.is_versioned()),
                })
                .collect();
            let message = Message { origin: 7, strict: changes.len().is_multiple_of(2), sent_ms: 9, changes };
            let bytes = message.encode().unwrap();
            prop_assert_eq!(Message::decode(&bytes), Some(message));
        }

        #[test]
        fn bytes_of_others_are_refused_and_never_a_panic(bytes in any::<Vec<u8>>()) {
            let _read = (Message::decode(&bytes), Frame::from_bytes(&bytes));
        }

        #[test]
        fn a_message_cut_short_is_refused(cut in 1..40_usize) {
            let change = PublishedChange { namespace: "user", key: "7", version: Some(Version::new(9)) };
            let bytes = Message { changes: vec![change; 2], ..Message::default() }.encode().unwrap();
            let cut = bytes.len() - cut.min(bytes.len() - 2);
            let read = Message::decode(&bytes[..cut]);
            prop_assert!(read.is_none_or(|read| read.changes.len() < 2));
        }
    }

    #[test]
    fn message_over_a_limit_is_not_encoded() {
        let long = "x".repeat(70_000);
        let change = PublishedChange { namespace: "user", key: &long, version: None };
        assert_eq!(Message { changes: vec![change], ..Message::default() }.encode(), None);
        let many = vec![PublishedChange { key: "7", ..change }; CHANGES_MAX + 1];
        assert_eq!(Message { changes: many, ..Message::default() }.encode(), None);
    }
}
