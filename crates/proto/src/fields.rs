//! Writes a message field by field.

use prost::Message;

/// The wire types in a field's key: <https://protobuf.dev/programming-guides/encoding/>.
const NUMBER: u32 = 0;
const BYTES: u32 = 2;

/// Writes a message's fields one after the other. A field without presence is left out if it is 0, false or
/// empty, as in the usual encoding.
///
/// The usual encoding computes the length of each nested message beforehand, and with it the lengths of all
/// messages inside. Here a message's length is put before it once it is written: one byte is left for it, and
/// most lengths fit.
#[derive(Debug)]
pub struct Fields<'a>(&'a mut Vec<u8>);

impl<'a> Fields<'a> {
    /// Writes after the bytes that `buffer` already has.
    pub const fn after(buffer: &'a mut Vec<u8>) -> Self {
        Self(buffer)
    }

    /// Writes an integer of any kind except `sint` and `fixed`, which have another encoding.
    #[inline]
    pub fn number(&mut self, tag: u32, number: i64) {
        if number != 0 {
            self.key(tag, NUMBER);
            put_number(self.0, number.cast_unsigned());
        }
    }

    #[inline]
    pub fn bool(&mut self, tag: u32, is: bool) {
        self.number(tag, is.into());
    }

    #[inline]
    pub fn string(&mut self, tag: u32, text: &str) {
        if !text.is_empty() {
            self.key(tag, BYTES);
            put_number(self.0, text.len() as u64);
            self.0.extend_from_slice(text.as_bytes());
        }
    }

    /// Writes a nested message, even an empty one. The closure writes its fields.
    #[inline]
    pub fn message(&mut self, tag: u32, fields: impl FnOnce(&mut Fields<'_>)) {
        self.key(tag, BYTES);
        let at = self.0.len();
        self.0.push(0);
        fields(&mut Fields(self.0));
        let length = self.0.len() - at - 1;
        match u8::try_from(length).ok().filter(|length| *length < 0x80) {
            Some(length) => self.0[at] = length,
            None => put_long(self.0, at, length),
        }
    }

    /// Like [`Self::message`], but for a message that is encoded as usual.
    pub fn encoded(&mut self, tag: u32, message: &impl Message) {
        self.key(tag, BYTES);
        put_number(self.0, message.encoded_len() as u64);
        message.encode_raw(self.0);
    }

    #[inline]
    fn key(&mut self, tag: u32, kind: u32) {
        put_number(self.0, u64::from(tag << 3 | kind));
    }
}

/// Writes seven bits a byte, the lowest first; every byte except the last has its highest bit set.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lowest bits are meant")]
fn put_number(buffer: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        buffer.push(number as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number as u8);
}

/// Puts in the length of a message that begins after this place, where one byte was left for it.
#[cold]
fn put_long(buffer: &mut Vec<u8>, at: usize, length: usize) {
    let end = buffer.len();
    put_number(buffer, length as u64);
    let bytes = buffer.len() - end;
    // The length moves from behind the message to its front, where it replaces the byte that was left.
    buffer[at..].rotate_right(bytes);
    buffer.remove(at + bytes);
}

#[cfg(test)]
mod tests {
    use prost::encoding;

    use super::*;

    fn written(fields: impl FnOnce(&mut Fields<'_>)) -> Vec<u8> {
        let mut buffer = Vec::new();
        fields(&mut Fields::after(&mut buffer));
        buffer
    }

    fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut buffer = Vec::new();
        encode(&mut buffer);
        buffer
    }

    #[test]
    fn numbers_are_written_as_they_are_encoded() {
        for number in [1, 127, 128, 300, 16_384, i64::MAX, -1, i64::MIN] {
            for tag in [1, 15, 16, 2_047, 2_048] {
                let so = encoded(|buf| encoding::int64::encode(tag, &number, buf));
                assert_eq!(written(|fields| fields.number(tag, number)), so, "{tag} {number}");
            }
        }
        for number in [7, -7] {
            let so = encoded(|buf| encoding::int32::encode(1, &number, buf));
            assert_eq!(written(|fields| fields.number(1, number.into())), so);
        }
        let so = encoded(|buf| encoding::uint32::encode(1, &u32::MAX, buf));
        assert_eq!(written(|fields| fields.number(1, u32::MAX.into())), so);
    }

    #[test]
    fn strings_and_bools_are_written_as_encoded() {
        let text = "é".repeat(100);
        let so = encoded(|buf| {
            encoding::bool::encode(1, &true, buf);
            encoding::string::encode(2, &text, buf);
        });
        assert_eq!(
            written(|fields| {
                fields.bool(1, true);
                fields.string(2, &text);
            }),
            so
        );
    }

    #[test]
    fn default_values_are_left_out() {
        assert!(
            written(|fields| {
                fields.number(1, 0);
                fields.bool(2, false);
                fields.string(3, "");
            })
            .is_empty()
        );
    }

    #[test]
    fn message_of_any_length_is_written_as_encoded() {
        for length in [0, 1, 100, 125, 126, 127, 128, 200, 16_380, 16_384, 70_000] {
            let text = "x".repeat(length);
            let so = encoded(|buf| encoding::message::encode(3, &text, buf));
            assert_eq!(written(|fields| fields.message(3, |fields| fields.string(1, &text))), so, "{length}");
            assert_eq!(written(|fields| fields.encoded(3, &text)), so, "{length}");
        }
    }
}
