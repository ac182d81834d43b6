//! What nodes tell each other: entries of the log, and the same bytes on the channel.

use crate::Version;

/// Form of a message.
const FORMAT: u8 = 1;
/// Most changes in one message; a reader refuses more.
pub const CHANGES_MAX: usize = 4_096;

/// One entry of the log, as read from it or heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its number: 1, 2, 3, ...
    pub number: u64,
    /// Its name, by chance.
    pub nonce: u64,
    /// The name of the entry before; 0 of the first.
    pub before: u64,
    /// What changed, see [`changes`].
    pub message: Vec<u8>,
}

/// A change of one record in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told<'a> {
    /// Namespace of the record.
    pub namespace: &'a str,
    /// Text of its key.
    pub key: &'a str,
    /// The version it has now; `None`: not known.
    pub version: Option<Version>,
}

impl Frame {
    /// Reads what was heard on the channel; `None` for bytes of others.
    #[must_use]
    pub fn heard(bytes: &[u8]) -> Option<Self> {
        let (number, entry) = number(bytes)?;
        Self::logged(number, entry)
    }

    /// As it is told on the channel.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.number.to_be_bytes()[..], &self.nonce.to_be_bytes(), &self.before.to_be_bytes(), &self.message]
            .concat()
    }

    /// Reads an entry of the log; `None` for bytes of others.
    #[must_use]
    pub fn logged(at: u64, entry: &[u8]) -> Option<Self> {
        let (nonce, rest) = number(entry)?;
        let (before, message) = number(rest)?;
        Some(Self { number: at, nonce, before, message: message.to_vec() })
    }
}

/// A message of these changes, at most [`CHANGES_MAX`] of them, in their order. Names and keys longer than
/// 65,535 bytes are left out and `false` returned beside: the reader must then be told to flush.
#[must_use]
pub fn message(changes: &[Told<'_>]) -> (Vec<u8>, bool) {
    let mut bytes = vec![FORMAT];
    let mut whole = changes.len() <= CHANGES_MAX;
    for change in changes.iter().take(CHANGES_MAX) {
        let (Ok(namespace), Ok(key)) =
            (u16::try_from(change.namespace.len()), u16::try_from(change.key.len()))
        else {
            whole = false;
            continue;
        };
        bytes.extend(namespace.to_be_bytes());
        bytes.extend(change.namespace.as_bytes());
        bytes.extend(key.to_be_bytes());
        bytes.extend(change.key.as_bytes());
        bytes.extend(change.version.unwrap_or_default().get().to_be_bytes());
    }
    (bytes, whole)
}

/// The changes in a message; `None` when it is not one, or of a newer form.
#[must_use]
pub fn changes(message: &[u8]) -> Option<Vec<Told<'_>>> {
    let (format, mut rest) = message.split_first()?;
    if *format != FORMAT {
        return None;
    }
    let mut changes = Vec::new();
    while !rest.is_empty() {
        let (namespace, after) = text(rest)?;
        let (key, after) = text(after)?;
        let (version, after) = number(after)?;
        let version = Some(Version::new(version)).filter(|version| version.is_versioned());
        changes.push(Told { namespace, key, version });
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
        fn changes_are_read_back_as_they_were_told(
            told in proptest::collection::vec((".{0,20}", ".{0,40}", any::<u64>()), 0..20),
        ) {
            let told: Vec<Told<'_>> = told
                .iter()
                .map(|(namespace, key, version)| Told {
                    namespace,
                    key,
                    version: Some(Version::new(*version)).filter(|version| version.is_versioned()),
                })
                .collect();
            let (bytes, whole) = message(&told);
            prop_assert!(whole);
            prop_assert_eq!(changes(&bytes), Some(told));
        }

        #[test]
        fn bytes_of_others_are_refused_and_never_a_panic(bytes in any::<Vec<u8>>()) {
            let _read = (changes(&bytes), Frame::heard(&bytes));
        }

        #[test]
        fn a_message_cut_short_is_refused(cut in 1..30_usize) {
            let told = [Told { namespace: "user", key: "7", version: Some(Version::new(9)) }; 2];
            let (bytes, _) = message(&told);
            let cut = bytes.len() - cut.min(bytes.len() - 2);
            let read = changes(&bytes[..cut]);
            prop_assert!(read.is_none_or(|read| read.len() < told.len()));
        }
    }

    #[test]
    fn what_cannot_be_told_is_said() {
        let long = "x".repeat(70_000);
        assert!(!message(&[Told { namespace: "user", key: &long, version: None }]).1);
        let many = vec![Told { namespace: "user", key: "7", version: None }; CHANGES_MAX + 1];
        assert!(!message(&many).1);
    }
}
