//! The messages that imports receive.

use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType, message, skip_field},
};

/// The most records that a message can be allowed to have.
pub const RECORDS_MAX: usize = 5_000;

/// The tag of `records`, the only field in the contract.
const TAG: u32 = 1;

/// Records in an import message: `message { repeated R records = 1; }`.
///
/// An empty record takes two bytes on the wire and hundreds in memory. So that a small message cannot cost
/// much, no more than [`RECORDS_MAX`] and one are decoded: enough for the receiver to see that they are too
/// many, and to refuse them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records<R> {
    /// The records in wire order.
    pub records: Vec<R>,
}

impl<R: Message + Default> Message for Records<R> {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        message::encode_repeated(TAG, &self.records, buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag == TAG && self.records.len() <= RECORDS_MAX {
            return message::merge_repeated(wire_type, &mut self.records, buf, context);
        }
        skip_field(wire_type, tag, buf, context)
    }

    fn encoded_len(&self) -> usize {
        message::encoded_len_repeated(TAG, &self.records)
    }

    fn clear(&mut self) {
        self.records.clear();
    }
}
