//! A message as a window entry: a header, which unread counts need, and the rest.
//!
//! | bytes | header |
//! | --- | --- |
//! | 1 | form |
//! | 1 | flags |
//! | 8 | sender; 0: a service |
//! | 1 | number of mentions |
//! | 8 each | mentioned users |
//!
//! Then follow: send time (8), the answered message's number (8; 0: none); for an edited message how often
//! (4), when last (8), and the last edit's event number (8), unless it is unknown; for a recalled message who
//! did it ([`RecalledBy::number`], 8) and when (8); the lengths of content type, client id and body (4 each),
//! and these three. Numbers are big-endian. The message's number is its position in the window.

use bytes::{BufMut as _, Bytes, BytesMut};
use kith_store::{
    Edited, Message, MessageKind, Recalled, RecalledBy, Seq, StoredHeader, Text, Timestamp, UserId,
};

use crate::Span;

/// Rises with each change to the form. An entry whose form a program does not know is not read.
const FORM: u8 = 1;
/// Leaves unread counts as they are.
const SILENT: u8 = 1;
/// Mentions every reader.
const MENTIONS_ALL: u8 = 2;
/// The message is an event.
const EVENT: u8 = 4;
/// The message was edited.
const EDITED: u8 = 8;
/// Has lost its content.
const RECALLED: u8 = 16;
/// Was edited, by an event whose number is known.
const NUMBERED_EDIT: u8 = 32;
/// All flags. A program that does not know a flag reads the message from the store.
const FLAGS: u8 = SILENT | MENTIONS_ALL | EVENT | EDITED | RECALLED | NUMBERED_EDIT;

/// An entry's header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EntryHeader {
    sender: Option<UserId>,
    kind: MessageKind,
    silent: bool,
    mention_all: bool,
    edited: bool,
    /// Whether the entry has the last edit's event number.
    numbered_edit: bool,
    recalled: bool,
    mentions: Vec<UserId>,
}

/// A message's entry; `None`: it is larger than any message can be.
#[must_use]
pub fn encode(message: &Message) -> Option<Bytes> {
    let client_id = message.client_message_id.as_deref().unwrap_or_default();
    let parts = [message.content_type.as_bytes(), client_id.as_bytes(), &message.body];
    let mut entry = BytesMut::with_capacity(64 + message.weight());
    put_header(&mut entry, flags(message), message.sender, &message.mentions)?;
    entry.put_i64(message.sent.0);
    entry.put_i64(message.reply_to.unwrap_or(0));
    if let Some(edited) = message.edited {
        entry.put_u32(edited.count);
        entry.put_i64(edited.last.0);
        edited.event.into_iter().for_each(|event| entry.put_i64(event));
    }
    if let Some(recalled) = message.recalled {
        entry.put_i64(recalled.by.number());
        entry.put_i64(recalled.time.0);
    }
    for part in parts {
        entry.put_u32(u32::try_from(part.len()).ok()?);
    }
    parts.into_iter().for_each(|part| entry.put_slice(part));
    Some(entry.freeze())
}

/// The message with this number; `None`: its entry is damaged, or has a form that this program does not know.
/// The body borrows from `entry`.
#[must_use]
pub fn decode(entry: &Bytes, seq: Seq) -> Option<Message> {
    let mut unread = Unread(entry);
    let header = unread.header()?;
    let sent = Timestamp(unread.number()?);
    let reply_to = match unread.number()? {
        0 => None,
        answered if answered > 0 => Some(answered),
        _ => return None,
    };
    let edited = if header.edited { Some(unread.edited(header.numbered_edit)?) } else { None };
    let recalled = if header.recalled { Some(unread.recalled()?) } else { None };
    let lengths = [unread.length()?, unread.length()?, unread.length()?];
    let content_type = Text::from(unread.text(lengths[0])?);
    let client_message_id = Some(Text::from(unread.text(lengths[1])?)).filter(|id| !id.is_empty());
    let body = unread.0;
    (body.len() == lengths[2]).then(|| Message {
        seq,
        sender: header.sender,
        sent,
        kind: header.kind,
        content_type,
        body: entry.slice_ref(body),
        mentions: header.mentions,
        mention_all: header.mention_all,
        silent: header.silent,
        reply_to,
        client_message_id,
        edited,
        recalled,
    })
}

/// Messages' headers in a row, each as an entry begins with it; `None`: a header mentions more users than any
/// message can.
pub(crate) fn encode_headers(headers: &[StoredHeader]) -> Option<Bytes> {
    let mut row = BytesMut::with_capacity(11 * headers.len());
    for header in headers {
        let flags =
            [(header.silent, SILENT), (header.mention_all, MENTIONS_ALL), (header.recalled, RECALLED)];
        put_header(&mut row, all_of(&flags), header.sender, &header.mentions)?;
    }
    Some(row.freeze())
}

/// The headers for the messages with these numbers, in a row; `None`: there are more or fewer, they are
/// damaged, or have a form that this program does not know.
pub(crate) fn decode_headers(headers: &[u8], numbers: Span) -> Option<Vec<StoredHeader>> {
    let mut unread = Unread(headers);
    let mut decoded = Vec::with_capacity(numbers.count());
    for seq in numbers.first..=numbers.last {
        let header = unread.header()?;
        decoded.push(StoredHeader {
            seq,
            sender: header.sender,
            silent: header.silent || header.kind == MessageKind::Event,
            recalled: header.recalled,
            mentions: header.mentions,
            mention_all: header.mention_all,
        });
    }
    unread.0.is_empty().then_some(decoded)
}

fn put_header(entry: &mut BytesMut, flags: u8, sender: Option<UserId>, mentions: &[UserId]) -> Option<()> {
    entry.put_u8(FORM);
    entry.put_u8(flags);
    entry.put_i64(sender.map_or(0, UserId::get));
    entry.put_u8(u8::try_from(mentions.len()).ok()?);
    mentions.iter().for_each(|user| entry.put_i64(user.get()));
    Some(())
}

fn flags(message: &Message) -> u8 {
    let is_event = message.kind == MessageKind::Event;
    all_of(&[
        (message.silent, SILENT),
        (message.mention_all, MENTIONS_ALL),
        (is_event, EVENT),
        (message.edited.is_some(), EDITED),
        (message.edited.is_some_and(|edited| edited.event.is_some()), NUMBERED_EDIT),
        (message.recalled.is_some(), RECALLED),
    ])
}

/// The flags that are set.
fn all_of(flags: &[(bool, u8)]) -> u8 {
    flags.iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag)
}

/// The rest that is not read yet.
struct Unread<'a>(&'a [u8]);

impl<'a> Unread<'a> {
    fn header(&mut self) -> Option<EntryHeader> {
        let (form, flags) = (self.byte()?, self.byte()?);
        if form != FORM || flags & !FLAGS != 0 || flags & (EDITED | NUMBERED_EDIT) == NUMBERED_EDIT {
            return None;
        }
        let sender = match self.number()? {
            0 => None,
            sender => Some(UserId::new(sender).ok()?),
        };
        let mentions = (0..self.byte()?).map(|_| UserId::new(self.number()?).ok()).collect::<Option<_>>()?;
        Some(EntryHeader {
            sender,
            kind: if flags & EVENT == 0 { MessageKind::Message } else { MessageKind::Event },
            silent: flags & SILENT != 0,
            mention_all: flags & MENTIONS_ALL != 0,
            edited: flags & EDITED != 0,
            numbered_edit: flags & NUMBERED_EDIT != 0,
            recalled: flags & RECALLED != 0,
            mentions,
        })
    }

    fn edited(&mut self, is_numbered: bool) -> Option<Edited> {
        let (count, last) = (self.length()?, self.number()?);
        let event = if is_numbered { Some(self.number()?) } else { None };
        Edited::of(i64::try_from(count).ok()?, last, event)
    }

    fn recalled(&mut self) -> Option<Recalled> {
        let by = RecalledBy::of(self.number()?)?;
        Some(Recalled { by, time: Timestamp(self.number()?) })
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<i64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i64::from_be_bytes(*number))
    }

    fn length(&mut self) -> Option<usize> {
        let (length, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        usize::try_from(u32::from_be_bytes(*length)).ok()
    }

    fn text(&mut self, length: usize) -> Option<&'a str> {
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: i64) -> UserId {
        UserId::new(id).unwrap()
    }

    fn message() -> Message {
        Message {
            seq: 57,
            sender: Some(user(7)),
            sent: Timestamp(1_790_000_000_000),
            kind: MessageKind::Message,
            content_type: "text/plain".into(),
            body: Bytes::from_static(b"hi \xff"),
            mentions: vec![user(8), user(i64::MAX)],
            mention_all: false,
            silent: true,
            reply_to: Some(12),
            client_message_id: Some("c-81".into()),
            edited: None,
            recalled: None,
        }
    }

    fn edited() -> Message {
        let edited = Edited { count: 3, last: Timestamp(1_790_000_000_007), event: Some(61) };
        Message { edited: Some(edited), ..message() }
    }

    /// Returns a message as an earlier version has stored it: without the event's number.
    fn edited_without_event() -> Message {
        let edited = edited().edited.map(|edited| Edited { event: None, ..edited });
        Message { edited, ..message() }
    }

    /// An edited message whose content was removed.
    fn recalled() -> Message {
        let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(1_790_000_000_009) };
        Message {
            content_type: "".into(),
            body: Bytes::new(),
            mentions: Vec::new(),
            client_message_id: None,
            recalled: Some(recalled),
            ..edited()
        }
    }

    /// A message without optional fields.
    fn bare() -> Message {
        Message {
            sender: None,
            kind: MessageKind::Event,
            content_type: "".into(),
            body: Bytes::new(),
            mentions: Vec::new(),
            mention_all: true,
            silent: false,
            reply_to: None,
            client_message_id: None,
            ..message()
        }
    }

    fn header_bytes(message: &Message) -> usize {
        11 + 8 * message.mentions.len()
    }

    #[test]
    fn entry_has_the_whole_message() {
        let many = Message { mentions: (1..=50).map(user).collect(), ..message() };
        for message in [message(), bare(), many, edited(), edited_without_event(), recalled()] {
            let entry = encode(&message).unwrap();
            assert_eq!(decode(&entry, message.seq), Some(message.clone()));
            let header = StoredHeader::of(&message);
            let both = [header.clone(), StoredHeader { seq: 58, ..header.clone() }];
            let row = encode_headers(&both).unwrap();
            assert_eq!(row[2..header_bytes(&message)], entry[2..header_bytes(&message)]);
            assert_eq!(decode_headers(&row, Span { first: 57, last: 58 }), Some(both.to_vec()));
        }
    }

    #[test]
    fn form_1_does_not_change() {
        let message = Message {
            sent: Timestamp(1),
            body: Bytes::from_static(b"hi"),
            mentions: vec![user(8)],
            content_type: "t".into(),
            client_message_id: Some("c".into()),
            ..message()
        };
        let expected = [
            &[1, 1, 0, 0, 0, 0, 0, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 8][..],
            &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 12],
            &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2],
            b"tchi",
        ];
        assert_eq!(encode(&message).unwrap(), expected.concat());
    }

    #[test]
    fn damaged_entry_is_refused() {
        for message in [message(), bare(), edited(), recalled()] {
            let whole = encode(&message).unwrap();
            for cut in 0..whole.len() {
                assert_eq!(decode(&whole.slice(..cut), 57), None, "cut to {cut}");
            }
            let longer = Bytes::from([&whole[..], b"x"].concat());
            assert_eq!(decode(&longer, 57), None);
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = encode(&message()).unwrap().to_vec();
            bytes[at] = byte;
            decode(&bytes.into(), 57)
        };
        // Form, flags, sender, number of mentions, a mention, the answered message, a length, a text.
        for (at, byte) in
            [(0, 2), (0, 0), (1, 32), (1, 64), (2, 255), (10, 3), (10, 1), (11, 128), (35, 255), (46, 9)]
        {
            assert_eq!(with(at, byte), None, "byte {at} is {byte}");
        }
        assert_eq!(with(55, 255), None, "no text");
    }

    #[test]
    fn change_that_nobody_makes_is_refused() {
        // Behind 11 header bytes, the time and the answered message: how often, when last, who recalled.
        let mut bytes = encode(&recalled()).unwrap().to_vec();
        bytes[27..31].fill(0);
        assert_eq!(decode(&bytes.into(), 57), None, "edited no time");
        let mut bytes = encode(&recalled()).unwrap().to_vec();
        bytes[54] = 0xfe;
        assert_eq!(decode(&bytes.into(), 57), None, "recalled by -2");
    }

    #[test]
    fn damaged_header_is_refused() {
        let message = message();
        let entry = encode(&message).unwrap();
        let length = header_bytes(&message);
        let only = Span { first: 57, last: 57 };
        assert!(decode_headers(&entry[..length], only).is_some());
        for cut in (0..length).chain([length + 1, entry.len()]) {
            assert_eq!(decode_headers(&entry[..cut], only), None, "{cut} bytes");
        }
        assert_eq!(decode_headers(&entry[..length], Span { first: 57, last: 58 }), None, "fewer headers");
    }
}
