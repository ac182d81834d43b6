//! Sequences between wire and domain.

use kith_proto::sequence::v1 as wire;
use kith_store::{ABOVE_MAX, Outcome, Seq, SeqRange, SequenceName, StoreError};

use crate::error::{Error, valid};

/// The most numbers in one call.
const COUNT_MAX: u32 = 1_000;

pub(super) fn name(field: &'static str, text: &str) -> Result<SequenceName, Error> {
    valid(field, text.parse())
}

pub(super) fn count(count: i32) -> Result<u32, Error> {
    let count = u32::try_from(count).ok().filter(|count| (1..=COUNT_MAX).contains(count));
    count.ok_or_else(|| Error::invalid("count", &format!("must be from 1 to {COUNT_MAX}")))
}

pub(super) fn above(above: Seq) -> Result<Seq, Error> {
    if (0..=ABOVE_MAX).contains(&above) {
        Ok(above)
    } else {
        Err(Error::invalid("above", &format!("must be from 0 to {ABOVE_MAX}")))
    }
}

pub(super) fn range_to_wire(SeqRange { first, last }: SeqRange) -> wire::SeqRange {
    wire::SeqRange { first, last }
}

pub(super) fn max_to_wire(name: &SequenceName, max_seq: Seq) -> wire::MaxSeq {
    wire::MaxSeq { name: name.to_string(), max_seq }
}

/// A failed item reserved nothing: numbers that were taken from the store are never issued.
pub(super) fn not_reserved(error: StoreError) -> Error {
    let error = match error {
        StoreError::Unavailable { source, .. } => {
            StoreError::Unavailable { outcome: Outcome::NotApplied, source }
        }
        StoreError::Internal { source, .. } => StoreError::Internal { outcome: Outcome::NotApplied, source },
        error => error,
    };
    Error::store("sequence", &error)
}
