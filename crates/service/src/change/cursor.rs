//! ChangeCursors: a generation, and a position in each of its feeds, with a MAC.

use std::collections::BTreeMap;

use kith_store::ChangesExtent;
use prost::{
    bytes::Buf,
    encoding::{decode_varint, encode_varint},
};

use crate::{error::Error, rpc::page_token::PageTokens};

/// The query that cursors are bound to. They are not bound to a caller: the reader of a system may get
/// another key.
const QUERY: &[&[u8]] = &[b"ReadChanges"];
/// The first byte of a cursor in this form.
const FORM: u8 = 1;

/// Where a reader continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) generation: u64,
    /// How many pages were read: the feeds take turns to be first.
    pub(super) turn: u64,
    /// A feed that is not in it is read from its beginning.
    pub(super) places: BTreeMap<String, FeedPlace>,
}

/// Where a reader continues in a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FeedPlace {
    /// The reader has this entry and all before it.
    pub(super) number: i64,
    /// The reader has this many changes of the next entry.
    pub(super) offset: usize,
}

/// Issues and verifies cursors.
#[derive(Clone, Debug)]
pub(super) struct ChangeCursors(PageTokens);

impl ChangeCursors {
    pub(super) const fn new(tokens: PageTokens) -> Self {
        Self(tokens)
    }

    /// The cursor's text.
    ///
    /// # Errors
    /// INTERNAL if there are more feeds than a token has room for, some 60.
    pub(super) fn issue(&self, cursor: &Cursor) -> Result<String, Error> {
        self.0.issue_bytes(QUERY, &cursor.to_bytes()).ok_or_else(Error::internal)
    }

    /// The cursor that a text is.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is empty, or Kith did not issue it.
    pub(super) fn verify(&self, text: &str) -> Result<Cursor, Error> {
        let refused = || Error::invalid("cursor", "must be one that GetCursor or ReadChanges returned");
        let bytes = self.0.verify_bytes(QUERY, text).map_err(|_| refused())?;
        bytes.and_then(|bytes| Cursor::of_bytes(&bytes)).ok_or_else(refused)
    }
}

impl Cursor {
    /// The end of what is kept.
    pub(super) fn at_end(extent: &ChangesExtent) -> Self {
        let end = |last| FeedPlace { number: last, offset: 0 };
        let places = extent.feeds.iter().map(|(feed, kept)| (feed.clone(), end(kept.last)));
        Self { generation: extent.generation, turn: 0, places: places.collect() }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        encode_varint(self.generation, &mut bytes);
        encode_varint(self.turn, &mut bytes);
        for (feed, place) in &self.places {
            encode_varint(unsigned(feed.len()), &mut bytes);
            bytes.extend(feed.as_bytes());
            encode_varint(place.number.unsigned_abs(), &mut bytes);
            encode_varint(unsigned(place.offset), &mut bytes);
        }
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (form, mut rest) = bytes.split_first()?;
        if *form != FORM {
            return None;
        }
        let number = |rest: &mut &[u8]| decode_varint(rest).ok();
        let (generation, turn) = (number(&mut rest)?, number(&mut rest)?);
        let mut places = BTreeMap::new();
        while rest.has_remaining() {
            let length = usize::try_from(number(&mut rest)?).ok()?;
            let (feed, after) = rest.split_at_checked(length)?;
            rest = after;
            let place = FeedPlace {
                number: i64::try_from(number(&mut rest)?).ok()?,
                offset: usize::try_from(number(&mut rest)?).ok()?,
            };
            places.insert(std::str::from_utf8(feed).ok()?.to_owned(), place);
        }
        Some(Self { generation, turn, places })
    }
}

fn unsigned(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(feeds: &[(&str, i64, usize)]) -> Cursor {
        let place = |number, offset| FeedPlace { number, offset };
        let places = feeds.iter().map(|(feed, number, offset)| ((*feed).to_owned(), place(*number, *offset)));
        Cursor { generation: u64::MAX, turn: 3, places: places.collect() }
    }

    #[test]
    fn cursors_come_back_as_they_were() {
        let cursors = ChangeCursors::new(PageTokens::new([7; 32]));
        for cursor in [cursor(&[]), cursor(&[("file", i64::MAX, 255)]), cursor(&[("a", 1, 0), ("b.2", 0, 3)])]
        {
            let text = cursors.issue(&cursor).unwrap();
            assert_eq!(cursors.verify(&text), Ok(cursor));
            assert!(text.len() < 100, "{text}");
        }
    }

    #[test]
    fn foreign_and_broken_cursors_are_refused() {
        let cursors = ChangeCursors::new(PageTokens::new([7; 32]));
        let text = cursors.issue(&cursor(&[("file", 9, 0)])).unwrap();
        let of_others = PageTokens::new([7; 32]).issue_bytes(&[b"Receive"], b"\x01\x01\x01").unwrap();
        let of_another_key = ChangeCursors::new(PageTokens::new([8; 32])).issue(&cursor(&[])).unwrap();
        for wrong in ["", "x", &text[1..], &text[..text.len() - 1], &of_others, &of_another_key] {
            let error = cursors.verify(wrong).unwrap_err();
            assert!(error.to_string().starts_with("cursor must be one"), "{wrong:?}: {error}");
        }
        // Its MAC is valid: only what it says is not.
        for bytes in
            [&b""[..], b"\x02\x01\x01", b"\x01\x01", b"\x01\x01\x01\x09file", b"\x01\x01\x01\x01\xff\x01\x01"]
        {
            let forged = cursors.0.issue_bytes(QUERY, bytes).unwrap();
            assert!(cursors.verify(&forged).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn cursor_of_too_many_feeds_is_no_text() {
        let feeds: Vec<_> = (0..200).map(|feed| format!("feed.{feed}")).collect();
        let feeds: Vec<_> = feeds.iter().map(|feed| (feed.as_str(), i64::MAX, 0)).collect();
        assert!(ChangeCursors::new(PageTokens::new([7; 32])).issue(&cursor(&feeds)).is_err());
    }
}
