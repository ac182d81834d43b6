//! What no query asks of a message, in one column: it is read as a whole.
//!
//! Four parts: the form (1 byte), the length of the head (4 bytes, little endian), the head as JSON, the body of the message.

use kith_store::{NewMessage, Seq, StoreError, Text, UserId};
use serde::{Deserialize, Serialize};

use crate::error::internal;

/// Rises with each change of the form. An older program refuses to read a newer one.
const FORM: u8 = 1;

/// The head: all but the body of the message. A field that has no value is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Packed {
    /// Length of the body. A column that was cut off does not have it.
    #[serde(rename = "b")]
    body_bytes: usize,
    #[serde(rename = "t", default, skip_serializing_if = "Text::is_empty")]
    pub(super) content_type: Text,
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) mentions: Vec<UserId>,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(super) reply_to: Option<Seq>,
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub(super) client_message_id: Option<Text>,
}

impl Packed {
    /// The head of a message.
    pub(super) fn of(new: &NewMessage) -> Self {
        Self {
            body_bytes: new.body.len(),
            content_type: new.content_type.clone(),
            mentions: new.mentions.clone(),
            reply_to: new.reply_to,
            client_message_id: new.client_message_id.clone(),
        }
    }

    /// The column: this head and the body of its message.
    ///
    /// # Errors
    /// When the head cannot be written down.
    pub(super) fn encode(&self, body: &[u8]) -> Result<Vec<u8>, StoreError> {
        let failed = || internal("a message cannot be written down");
        let head = serde_json::to_vec(self).map_err(|_| failed())?;
        let length = u32::try_from(head.len()).map_err(|_| failed())?;
        Ok([[FORM].as_slice(), &length.to_le_bytes(), &head, body].concat())
    }

    /// The head and the body that a column has; `None` if it is damaged or of a form that this program does not know.
    pub(super) fn decode(column: &[u8]) -> Option<(Self, &[u8])> {
        let (form, rest) = column.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (head, body) = rest.split_at_checked(length).filter(|_| *form == FORM)?;
        let packed: Self = serde_json::from_slice(head).ok()?;
        (packed.body_bytes == body.len()).then_some((packed, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(body: &[u8]) -> Packed {
        Packed {
            body_bytes: body.len(),
            content_type: "text/\"plain\"".into(),
            mentions: vec![UserId::new(8).unwrap(), UserId::new(i64::MAX).unwrap()],
            reply_to: Some(7),
            client_message_id: Some("c-1".into()),
        }
    }

    #[test]
    fn column_has_head_and_body() {
        for body in [&b""[..], b"{}", &[0, 255, 1]] {
            let column = packed(body).encode(body).unwrap();
            assert_eq!(Packed::decode(&column), Some((packed(body), body)));
        }
    }

    #[test]
    fn form_1_does_not_change() {
        let expected = b"\x01\x32\0\0\0{\"b\":2,\"t\":\"text/plain\",\"a\":[8,9],\"p\":7,\"i\":\"c-1\"}hi";
        let mentions = [8, 9].map(|user| UserId::new(user).unwrap()).to_vec();
        let packed = Packed { content_type: "text/plain".into(), mentions, ..packed(b"hi") };
        assert_eq!(packed.encode(b"hi").unwrap(), expected);
        assert_eq!(Packed::decode(expected), Some((packed, &b"hi"[..])));
    }

    #[test]
    fn head_without_values_is_short() {
        let bare = Packed {
            body_bytes: 0,
            content_type: "".into(),
            mentions: Vec::new(),
            reply_to: None,
            client_message_id: None,
        };
        assert_eq!(bare.encode(b"").unwrap(), b"\x01\x07\0\0\0{\"b\":0}");
    }

    #[test]
    fn damaged_column_is_refused() {
        let whole = packed(b"body").encode(b"body").unwrap();
        for cut in 0..whole.len() {
            assert_eq!(Packed::decode(&whole[..cut]), None, "{cut}");
        }
        let longer = [&whole[..], b"x"].concat();
        let newer = [&[FORM + 1][..], &whole[1..]].concat();
        let mut no_json = whole.clone();
        no_json[5] = b'[';
        for column in [longer, newer, no_json] {
            assert_eq!(Packed::decode(&column), None);
        }
    }
}
