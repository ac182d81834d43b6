//! Message fields that no query needs, packed in one column, which is read as a whole.
//!
//! Four parts: the format (1 byte), the head's length (4 bytes, little endian), the head as JSON, the message
//! body.

use kith_store::{
    Edited, NewContent, NewMessage, Recalled, RecalledBy, Seq, StoreError, Text, Timestamp, UserId,
};
use serde::{Deserialize, Serialize};

use crate::error::{corrupt, internal};

/// Increases whenever the format changes. An older program refuses to read a newer format.
const FORM: u8 = 1;
/// The column's name.
const COLUMN: &str = "messages.body";

/// The head: everything but the message body. A field that has no value is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Packed {
    /// The body's length. A truncated column does not match it.
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
    /// How many edits there were, and when the last edit was made.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    edited: Option<(i64, i64)>,
    /// The event number of the last edit. An earlier version has not stored it.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    edit_event: Option<Seq>,
    /// Which user removed its content, and when.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    recalled: Option<(i64, i64)>,
}

impl Packed {
    /// Makes a message's head.
    pub(super) fn of(new: &NewMessage) -> Self {
        Self {
            body_bytes: new.body.len(),
            content_type: new.content_type.clone(),
            mentions: new.mentions.clone(),
            reply_to: new.reply_to,
            client_message_id: new.client_message_id.clone(),
            edited: None,
            edit_event: None,
            recalled: None,
        }
    }

    /// Returns the same message after its content was removed.
    pub(super) fn recalled(self, recalled: Recalled) -> Self {
        Self {
            body_bytes: 0,
            content_type: Text::default(),
            mentions: Vec::new(),
            client_message_id: None,
            recalled: Some((recalled.by.number(), recalled.time.0)),
            ..self
        }
    }

    /// Returns the same message with another content, whose event has this number.
    pub(super) fn edited(self, content: &NewContent, event: Seq) -> Self {
        let edited = content.edited(event);
        Self {
            body_bytes: content.body.len(),
            content_type: content.content_type.clone(),
            mentions: content.mentions.clone(),
            edited: Some((edited.count.into(), edited.last.0)),
            edit_event: edited.event,
            ..self
        }
    }

    /// Returns the edits.
    ///
    /// # Errors
    /// If it cannot be decoded.
    pub(super) fn edits(&self) -> Result<Option<Edited>, StoreError> {
        let edited = |(count, last)| Edited::of(count, last, self.edit_event).ok_or_else(|| corrupt(COLUMN));
        self.edited.map(edited).transpose()
    }

    /// Returns how the content was removed.
    ///
    /// # Errors
    /// If it cannot be decoded.
    pub(super) fn recall(&self) -> Result<Option<Recalled>, StoreError> {
        let recalled = |(by, time)| {
            let by = RecalledBy::of(by).ok_or_else(|| corrupt(COLUMN))?;
            Ok(Recalled { by, time: Timestamp(time) })
        };
        self.recalled.map(recalled).transpose()
    }

    /// Encodes the column: this head and its message's body.
    ///
    /// # Errors
    /// If the head cannot be encoded.
    pub(super) fn encode(&self, body: &[u8]) -> Result<Vec<u8>, StoreError> {
        let failed = || internal("a message cannot be written down");
        let head = serde_json::to_vec(self).map_err(|_| failed())?;
        let length = u32::try_from(head.len()).map_err(|_| failed())?;
        Ok([[FORM].as_slice(), &length.to_le_bytes(), &head, body].concat())
    }

    /// The head and the body that a column has; `None` if it is damaged or has a format that this program
    /// does not know.
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
            edited: None,
            edit_event: None,
            recalled: None,
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
    fn changes_are_in_the_head() {
        let content = NewContent {
            content_type: "".into(),
            body: "new".into(),
            mentions: Vec::new(),
            mention_all: false,
            edits_before: 1,
            time: Timestamp(5),
        };
        let edited = packed(b"old").edited(&content, 9);
        let column = edited.encode(b"new").unwrap();
        assert!(column.ends_with(b"{\"b\":3,\"p\":7,\"i\":\"c-1\",\"e\":[2,5],\"v\":9}new"));
        assert_eq!(edited.edits().unwrap(), Some(Edited { count: 2, last: Timestamp(5), event: Some(9) }));
        let earlier = Packed { edit_event: None, ..edited.clone() };
        assert_eq!(earlier.edits().unwrap(), Some(Edited { count: 2, last: Timestamp(5), event: None }));
        let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(6) };
        let removed = edited.recalled(recalled);
        let column = removed.encode(b"").unwrap();
        assert!(column.ends_with(b"{\"b\":0,\"p\":7,\"e\":[2,5],\"v\":9,\"r\":[-1,6]}"));
        assert_eq!(removed.recall().unwrap(), Some(recalled));
    }

    #[test]
    fn change_that_nobody_makes_is_damage() {
        let wrong = Packed { edited: Some((0, 1)), recalled: Some((-2, 1)), ..packed(b"") };
        assert!(wrong.edits().is_err() && wrong.recall().is_err());
        let none = packed(b"");
        assert_eq!((none.edits().unwrap(), none.recall().unwrap()), (None, None));
    }

    #[test]
    fn head_without_values_is_short() {
        let bare = Packed {
            body_bytes: 0,
            content_type: "".into(),
            mentions: Vec::new(),
            reply_to: None,
            client_message_id: None,
            edited: None,
            edit_event: None,
            recalled: None,
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
