//! How far a table scan has come.

use kith_store::{Edge, StoreError, UserId};

use crate::cql::client::error::malformed;

const BEGINNING: &[u8] = b"kith-edges-1";

/// Where a table scan is: after a row, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cql) enum ScanCursor {
    /// Starts at the beginning of the follows, or of another scan.
    Beginning,
    /// Continues after this follow.
    Follow(Edge),
    /// Starts at the beginning of the list entries.
    Entries,
    /// Continues after this entry: owner, list, bucket, placed, other.
    Entry([i64; 5]),
    /// Continues after this list part: owner, list, bucket.
    Part([i64; 3]),
}

impl ScanCursor {
    /// Reads what [`Self::written`] wrote; none is the beginning.
    pub(in crate::cql) fn read(mark: Option<&[u8]>) -> Result<Self, StoreError> {
        let Some(mark) = mark else { return Ok(Self::Beginning) };
        let rest = mark.strip_prefix(BEGINNING).ok_or_else(Self::invalid)?;
        let (kind, rest) = rest.split_first().ok_or_else(Self::invalid)?;
        let (numbers, []) = rest.as_chunks::<8>() else { return Err(Self::invalid()) };
        let numbers: Vec<i64> = numbers.iter().map(|number| i64::from_be_bytes(*number)).collect();
        let mark = match kind {
            0 => follow(&numbers).map(Self::Follow),
            1 if numbers.is_empty() => Some(Self::Entries),
            2 => numbers.try_into().ok().map(Self::Entry),
            3 => numbers.try_into().ok().map(Self::Part),
            _ => None,
        };
        mark.ok_or_else(Self::invalid)
    }

    pub(in crate::cql) fn written(self) -> Vec<u8> {
        let (kind, numbers) = match self {
            Self::Beginning | Self::Entries => (1, Vec::new()),
            Self::Follow(edge) => (0, vec![edge.from.get(), edge.to.get()]),
            Self::Entry(numbers) => (2, numbers.to_vec()),
            Self::Part(numbers) => (3, numbers.to_vec()),
        };
        let mut written = [BEGINNING, &[kind]].concat();
        written.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
        written
    }

    /// A number for a narrower column.
    pub(in crate::cql) fn small(number: i64) -> Result<i32, StoreError> {
        i32::try_from(number).map_err(|_| Self::invalid())
    }

    /// The error for an invalid mark.
    pub(in crate::cql) fn invalid() -> StoreError {
        malformed("mark")
    }
}

fn follow(numbers: &[i64]) -> Option<Edge> {
    let &[from, to] = numbers else { return None };
    Some(Edge { from: UserId::new(from).ok()?, to: UserId::new(to).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back_and_others_are_refused() {
        let marks = [
            ScanCursor::Follow(Edge { from: UserId::new(7).unwrap(), to: UserId::new(i64::MAX).unwrap() }),
            ScanCursor::Entries,
            ScanCursor::Entry([1, 0, 2, -3, 4]),
            ScanCursor::Part([1, 1, 0]),
        ];
        for mark in marks {
            assert_eq!(ScanCursor::read(Some(&mark.written())).unwrap(), mark);
            assert!(ScanCursor::read(Some(&mark.written()[1..])).is_err());
            assert!(ScanCursor::read(Some(&[mark.written(), vec![0]].concat())).is_err());
        }
        assert_eq!(ScanCursor::read(None).unwrap(), ScanCursor::Beginning);
    }
}
