//! The messages that answer batches.

use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType, encode_key, encode_varint, encoded_len_varint, message, skip_field},
};

/// The field `results` of the contract, the only one.
const TAG: u32 = 1;

/// Answers in one message: `message { repeated R results = 1; }`.
///
/// Whoever answers may write results instead of making messages of them. To encode a message takes the length of each
/// message in it, and that of all messages in that one; whoever writes them one after the other takes none. What is decoded
/// has results alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Results<R> {
    /// In the order of the wire, after those that were written.
    pub results: Vec<R>,
    written: Vec<u8>,
}

impl<R> Results<R> {
    /// None yet, with room for so many bytes.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { results: Vec::new(), written: Vec::with_capacity(bytes) }
    }

    /// Adds a result, whose fields `fields` writes.
    pub fn write(&mut self, fields: impl FnOnce(&mut Vec<u8>)) {
        write_message(TAG, &mut self.written, fields);
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

/// Writes a message as a field of another one. Its length is put before it afterwards: one byte is left for it, and most
/// messages that stand in others are short.
pub fn write_message(tag: u32, buf: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    encode_key(tag, WireType::LengthDelimited, buf);
    let at = buf.len();
    buf.push(0);
    fields(buf);
    let length = buf.len() - at - 1;
    match u8::try_from(length).ok().filter(|length| *length < 0x80) {
        Some(length) => buf[at] = length,
        None => {
            let mut head = Vec::with_capacity(encoded_len_varint(length as u64));
            encode_varint(length as u64, &mut head);
            buf.splice(at..=at, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    /// A message with a text of so many bytes: written, and encoded.
    fn nested(bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let text = "x".repeat(bytes);
        let mut written = Vec::new();
        write_message(3, &mut written, |buf| prost::encoding::string::encode(1, &text, buf));
        let mut encoded = Vec::new();
        message::encode(3, &text, &mut encoded);
        (written, encoded)
    }

    #[test]
    fn a_message_is_written_as_it_is_encoded_however_long_it_is() {
        for bytes in [1, 100, 125, 126, 127, 128, 200, 16_380, 16_384, 70_000] {
            let (written, encoded) = nested(bytes);
            assert!(written == encoded, "{bytes}");
        }
    }

    #[test]
    fn results_that_were_written_are_decoded_before_those_that_were_not() {
        let times: Vec<Timestamp> = (1..=3).map(|nanos| Timestamp { seconds: 1 << 40, nanos }).collect();
        let mut results = Results::with_room(16);
        times[..2].iter().for_each(|time| results.write(|buf| time.encode_raw(buf)));
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
