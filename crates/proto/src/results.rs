//! The messages that answer batches.

use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType, message, skip_field},
};

use crate::Fields;

/// The tag of `results`, the only field in the contract.
const TAG: u32 = 1;

/// Answers in one message: `message { repeated R results = 1; }`.
///
/// A server may write results, see [`Fields`], instead of making messages: those are on the wire, and not
/// among `results`. A decoded value has no written results, so it is not equal to the value that was encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Results<R> {
    /// The results in wire order, after those that were written.
    pub results: Vec<R>,
    written: Vec<u8>,
}

impl<R> Results<R> {
    /// Makes an empty message with room for this many bytes.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { results: Vec::new(), written: Vec::with_capacity(bytes) }
    }

    /// Adds a result whose fields the closure writes.
    pub fn write(&mut self, fields: impl FnOnce(&mut Fields<'_>)) {
        Fields::after(&mut self.written).message(TAG, fields);
    }
}

impl<R> Default for Results<R> {
    fn default() -> Self {
        Self { results: Vec::new(), written: Vec::new() }
    }
}

impl<R: Message + Default> Message for Results<R> {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.written);
        message::encode_repeated(TAG, &self.results, buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            TAG => message::merge_repeated(wire_type, &mut self.results, buf, context),
            _ => skip_field(wire_type, tag, buf, context),
        }
    }

    fn encoded_len(&self) -> usize {
        self.written.len() + message::encoded_len_repeated(TAG, &self.results)
    }

    fn clear(&mut self) {
        self.results.clear();
        self.written.clear();
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn written_results_are_decoded_before_others() {
        let times: Vec<Timestamp> = (1..=3).map(|nanos| Timestamp { seconds: 1 << 40, nanos }).collect();
        let mut results = Results::with_room(16);
        for time in &times[..2] {
            results.write(|fields| {
                fields.number(1, time.seconds);
                fields.number(2, time.nanos.into());
            });
        }
        results.results.push(times[2]);
        let encoded = results.encode_to_vec();
        assert_eq!(encoded.len(), results.encoded_len());
        let decoded = Results::<Timestamp>::decode(&*encoded).unwrap();
        assert_eq!(decoded.results, times);
        assert_eq!(decoded.encode_to_vec(), encoded);
    }

    #[test]
    fn a_field_that_is_not_known_is_skipped() {
        let mut encoded = Vec::new();
        prost::encoding::int64::encode(9, &7, &mut encoded);
        assert_eq!(Results::<Timestamp>::decode(&*encoded).unwrap(), Results::default());
    }
}
