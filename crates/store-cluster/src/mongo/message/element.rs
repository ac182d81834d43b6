//! A message as an element in its document: `{k: key, h: content hash, i: client's id, f: sender, t: time, y:
//! kind, x: flags, ct: content type, b: body, a: mentions, p: answered message, e: edits, et: last edit's
//! time, ev: its event's number, r: {by: who removed the content, t: when}}`. `f` 0 is a service. `i`, `ct`,
//! `a`, `p`, `e`, `et`, `ev` and `r` are absent where there is nothing to say; in a message with `r`, `b` is
//! absent, too. `ev` is absent, too, where an earlier version has stored the edit.

use kith_store::{
    ContentHash, Edited, Message, MessageKey, MessageKind, NewMessage, Recalled, RecalledBy, Seq, StoreError,
    StoredHeader, Timestamp, UserId,
};
use mongodb::bson::{Binary, Bson, Document, RawBsonRef, RawDocument, doc, spec::BinarySubtype};

use crate::mongo::{
    document::{fields, moment, number, number_in, small, text},
    error::malformed,
};

/// Leaves unread counts as they are.
const SILENT: i32 = 1;
/// Mentions every reader.
pub(super) const MENTIONS_ALL: i32 = 2;

/// The stored data that is compared with a repeated send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendRecord {
    pub(super) key: MessageKey,
    /// The content's hash; `None`: the message was erased.
    pub(super) hash: Option<ContentHash>,
    pub(super) sent: Timestamp,
}

/// A new message's element.
pub(super) fn element(new: &NewMessage) -> Document {
    let mut element = doc! { "k": binary(&new.key.0), "h": binary(&new.hash.0) };
    if let Some(id) = &new.client_message_id {
        element.insert("i", id.as_str());
    }
    element.insert("f", new.sender.map_or(0, UserId::get));
    element.insert("t", new.sent.0);
    element.insert("y", i32::from(new.kind as u8));
    element.insert("x", flags(new));
    if !new.content_type.is_empty() {
        element.insert("ct", new.content_type.as_str());
    }
    element.insert("b", binary(&new.body));
    if !new.mentions.is_empty() {
        element.insert("a", mentioned(&new.mentions));
    }
    if let Some(answered) = new.reply_to {
        element.insert("p", answered);
    }
    element
}

/// A key as a query needs it.
pub(super) fn key(key: MessageKey) -> Bson {
    binary(&key.0)
}

/// Reads the message with this number.
pub(super) fn message(element: &RawDocument, seq: Seq) -> Result<Message, StoreError> {
    let mut message = blank(seq);
    let (mut has_body, mut edits, mut edit_time, mut edit_event) = (false, 0, 0, None);
    for field in fields(element) {
        let (name, value) = field?;
        match name {
            "i" => message.client_message_id = Some(text(value, "i")?),
            "f" => message.sender = sender(number(value, "f")?)?,
            "t" => message.sent = moment(value, "t")?,
            "y" => message.kind = MessageKind::of(number(value, "y")?).ok_or_else(|| malformed("y"))?,
            "x" => (message.silent, message.mention_all) = read_flags(value)?,
            "ct" => message.content_type = text(value, "ct")?,
            "b" => (message.body, has_body) = (bytes(value, "b")?.to_vec().into(), true),
            "a" => message.mentions = users(value)?,
            "p" => message.reply_to = Some(number(value, "p")?),
            "e" => edits = number(value, "e")?,
            "et" => edit_time = number(value, "et")?,
            "ev" => edit_event = Some(number(value, "ev")?),
            "r" => message.recalled = Some(recalled(value)?),
            _ => {}
        }
    }
    if edits != 0 {
        message.edited = Some(Edited::of(edits, edit_time, edit_event).ok_or_else(|| malformed("e"))?);
    }
    if has_body != message.recalled.is_some() { Ok(message) } else { Err(malformed("b")) }
}

/// Reads the header of the message with this number.
pub(super) fn header(element: &RawDocument, seq: Seq) -> Result<StoredHeader, StoreError> {
    let mut message = blank(seq);
    for field in fields(element) {
        let (name, value) = field?;
        match name {
            "f" => message.sender = sender(number(value, "f")?)?,
            "y" => message.kind = MessageKind::of(number(value, "y")?).ok_or_else(|| malformed("y"))?,
            "x" => (message.silent, message.mention_all) = read_flags(value)?,
            "a" => message.mentions = users(value)?,
            "r" => message.recalled = Some(recalled(value)?),
            _ => {}
        }
    }
    Ok(StoredHeader::of(&message))
}

/// A document's elements, in their order.
pub(super) fn elements_in(
    found: &RawDocument,
) -> Result<impl Iterator<Item = Result<&RawDocument, StoreError>>, StoreError> {
    let elements = found.get_array("m").map_err(|_| malformed("m"))?.into_iter();
    Ok(elements
        .map(|element| element.ok().and_then(|element| element.as_document()).ok_or_else(|| malformed("m"))))
}

/// Reads a message's key and its time, in one pass over its fields.
pub(super) fn key_and_time(element: &RawDocument) -> Result<(MessageKey, Timestamp), StoreError> {
    let (mut key, mut sent) = (None, None);
    for field in fields(element) {
        match field? {
            ("k", value) => key = Some(MessageKey(array(value, "k")?)),
            ("t", value) => sent = Some(moment(value, "t")?),
            _ => {}
        }
    }
    Ok((key.ok_or_else(|| malformed("k"))?, sent.ok_or_else(|| malformed("t"))?))
}

/// Reads the data that is compared with a repeated send.
pub(super) fn send_record(element: &RawDocument) -> Result<SendRecord, StoreError> {
    let (key, sent) = key_and_time(element)?;
    Ok(SendRecord { key, hash: hash(element)?, sent })
}

fn hash(element: &RawDocument) -> Result<Option<ContentHash>, StoreError> {
    let hash = element.get("h").map_err(|_| malformed("h"))?;
    hash.map(|hash| array(hash, "h").map(ContentHash)).transpose()
}

/// Conditions on an element's fields for messages with a sender's content, or a content hash.
pub(super) fn content_of(sender: UserId, field: impl Fn(&str) -> String) -> Document {
    doc! {
        field("f"): sender.get(),
        field("y"): i32::from(MessageKind::Message as u8),
        field("h"): { "$exists": true },
    }
}

/// Whether an element meets these conditions.
pub(super) fn has_content_of(element: &RawDocument, sender: UserId) -> Result<bool, StoreError> {
    let is_message = number_in(element, "y")? == Some((MessageKind::Message as u8).into());
    Ok(is_message && number_in(element, "f")? == Some(sender.get()) && hash(element)?.is_some())
}

/// The update that removes a sender's contents from a document, and raises its version; and its array
/// filters. The change feed treats an update that sets `v` with an unchanged `u` as a change by hand.
pub(super) fn erase_update(sender: UserId, now: Timestamp, nonce: i64) -> (Document, Vec<Document>) {
    let content = ["b", "ct", "a", "i", "h"].map(|field| (format!("m.$[all].{field}"), Bson::from("")));
    let update = doc! {
        "$unset": content.into_iter().collect::<Document>(),
        "$bit": { "m.$[all].x": { "and": !MENTIONS_ALL } },
        "$set": { "u": nonce, "m.$[unrecalled].r": { "by": RecalledBy::Erasure.number(), "t": now.0 } },
        "$inc": { "v": 1_i64 },
    };
    let mut unrecalled = content_of(sender, |field| format!("unrecalled.{field}"));
    unrecalled.insert("unrecalled.r", doc! { "$exists": false });
    (update, vec![content_of(sender, |field| format!("all.{field}")), unrecalled])
}

fn flags(new: &NewMessage) -> i32 {
    i32::from(new.silent) * SILENT + i32::from(new.mention_all) * MENTIONS_ALL
}

/// Whether it is silent, and whether it mentions all.
fn read_flags(value: RawBsonRef<'_>) -> Result<(bool, bool), StoreError> {
    let flags = i32::from(small(value, "x")?);
    Ok((flags & SILENT != 0, flags & MENTIONS_ALL != 0))
}

fn recalled(value: RawBsonRef<'_>) -> Result<Recalled, StoreError> {
    let document = value.as_document().ok_or_else(|| malformed("r"))?;
    let by = number_in(document, "by")?.and_then(RecalledBy::of).ok_or_else(|| malformed("by"))?;
    let time = number_in(document, "t")?.ok_or_else(|| malformed("t"))?;
    Ok(Recalled { by, time: Timestamp(time) })
}

/// The stored form of mentioned users.
pub(super) fn mentioned(users: &[UserId]) -> Bson {
    users.iter().map(|user| user.get()).collect::<Vec<_>>().into()
}

fn sender(number: i64) -> Result<Option<UserId>, StoreError> {
    (number != 0).then(|| UserId::new(number).map_err(|_| malformed("f"))).transpose()
}

fn users(value: RawBsonRef<'_>) -> Result<Vec<UserId>, StoreError> {
    let array = value.as_array().ok_or_else(|| malformed("a"))?;
    let user = |item: RawBsonRef<'_>| UserId::new(number(item, "a")?).map_err(|_| malformed("a"));
    array.into_iter().map(|item| user(item.map_err(|_| malformed("a"))?)).collect()
}

fn bytes<'a>(value: RawBsonRef<'a>, field: &'static str) -> Result<&'a [u8], StoreError> {
    match value {
        RawBsonRef::Binary(binary) => Ok(binary.bytes),
        _ => Err(malformed(field)),
    }
}

fn array<const N: usize>(value: RawBsonRef<'_>, field: &'static str) -> Result<[u8; N], StoreError> {
    bytes(value, field)?.try_into().map_err(|_| malformed(field))
}

/// The stored form of bytes.
pub(super) fn binary(bytes: &[u8]) -> Bson {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }.into()
}

fn blank(seq: Seq) -> Message {
    Message {
        seq,
        sender: None,
        sent: Timestamp(0),
        kind: MessageKind::Message,
        content_type: "".into(),
        body: Vec::new().into(),
        mentions: Vec::new(),
        mention_all: false,
        silent: false,
        reply_to: None,
        client_message_id: None,
        edited: None,
        recalled: None,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::RawDocumentBuf;

    use super::*;

    fn bare() -> NewMessage {
        NewMessage {
            key: MessageKey([1; 16]),
            hash: ContentHash([2; 8]),
            sender: None,
            sent: Timestamp(3),
            kind: MessageKind::Event,
            content_type: "".into(),
            body: vec![4].into(),
            mentions: Vec::new(),
            mention_all: false,
            silent: true,
            reply_to: None,
            client_message_id: None,
        }
    }

    fn raw(document: &Document) -> RawDocumentBuf {
        RawDocumentBuf::try_from(document).unwrap()
    }

    #[test]
    fn element_has_short_names_and_nothing_empty() {
        let names = |new: &NewMessage| element(new).keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&bare()), ["k", "h", "f", "t", "y", "x", "b"]);
        let full = NewMessage {
            content_type: "text/plain".into(),
            mentions: vec![UserId::new(8).unwrap()],
            reply_to: Some(1),
            client_message_id: Some("c-81".into()),
            ..bare()
        };
        assert_eq!(names(&full), ["k", "h", "i", "f", "t", "y", "x", "ct", "b", "a", "p"]);
    }

    #[test]
    fn stored_numbers_are_those_of_the_design() {
        let element = element(&NewMessage { mention_all: true, ..bare() });
        assert_eq!((element.get_i64("f").unwrap(), element.get_i64("t").unwrap()), (0, 3));
        assert_eq!((element.get_i32("y").unwrap(), element.get_i32("x").unwrap()), (2, 3));
    }

    #[test]
    fn key_and_hash_are_read_back() {
        let record = send_record(&raw(&element(&bare()))).unwrap();
        let NewMessage { key, hash, sent, .. } = bare();
        assert_eq!(record, SendRecord { key, hash: Some(hash), sent });
    }

    #[test]
    fn field_that_cannot_be_read_is_corrupt() {
        let wrong = [
            ("f", Bson::Int64(-1)),
            ("y", Bson::Int32(3)),
            ("x", Bson::from("loud")),
            ("b", Bson::from("text")),
            ("a", Bson::from(vec![0_i64])),
            ("t", Bson::Null),
            ("e", Bson::Int64(-1)),
            ("r", Bson::Int64(7)),
        ];
        for (field, value) in wrong {
            let mut element = element(&bare());
            element.insert(field, value);
            let read = message(&raw(&element), 1);
            assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{field}: {read:?}");
        }
        let mut without = element(&bare());
        without.remove("b");
        assert!(message(&raw(&without), 1).is_err());
        without.insert("r", doc! { "by": -1_i64, "t": 7_i64 });
        assert!(message(&raw(&without), 1).is_ok());
        for (field, value) in [("by", Bson::Int64(-2)), ("by", Bson::Null), ("t", Bson::Null)] {
            let mut recalled = doc! { "by": 7_i64, "t": 7_i64 };
            recalled.insert(field, value);
            without.insert("r", recalled);
            assert!(message(&raw(&without), 1).is_err(), "{without}");
            assert!(header(&raw(&without), 1).is_err(), "{without}");
        }
        without.insert("k", binary(&[1; 15]));
        assert!(send_record(&raw(&without)).is_err());
    }
}
