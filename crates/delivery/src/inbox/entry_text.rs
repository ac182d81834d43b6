//! An inbox entry as text: a kind, and what belongs to it, with spaces between.
//!
//! | text | entry |
//! | --- | --- |
//! | `m g9 57 58` | messages 57 to 58; from 0: all up to 58, the conversation is new to the inbox |
//! | `d g9 57` | read mark of a conversation |
//! | `c+ 8`, `c- 8` | the user became a contact, is no contact any more |
//! | `g+ 9`, `g- 9`, `g= 9` | joined, left the group; role or mute in it changed |
//! | `a 0 8 57`, `a 1 9 57` | application 57 to user 8, to group 9 changed |
//!
//! Invariant: a kind that an earlier program does not know is a note. Such a program skips it, and it may be
//! lost. Further words in a note are ignored.

use std::str::{FromStr, Split};

use kith_store::{ApplicationId, ApplicationKey, Receiver};

use super::{Entry, Note};

/// The text for a note.
pub(super) fn note(note: Note) -> String {
    match note {
        Note::Dialog { conversation, read_seq } => format!("d {conversation} {read_seq}"),
        Note::ContactAdded { user } => format!("c+ {user}"),
        Note::ContactEnded { user } => format!("c- {user}"),
        Note::GroupJoined { group } => format!("g+ {group}"),
        Note::GroupLeft { group } => format!("g- {group}"),
        Note::GroupChanged { group } => format!("g= {group}"),
        Note::Application(ApplicationKey { receiver, id }) => {
            let (side, number) = receiver.numbers();
            format!("a {side} {number} {}", id.get())
        }
    }
}

/// A text's entry; `None`: it has messages, but it is not clear which.
pub(super) fn decode(text: &[u8]) -> Option<Entry> {
    let Ok(text) = std::str::from_utf8(text) else { return Some(Entry::Unknown) };
    let mut words = text.split(' ');
    match words.next() {
        Some("m") => range(words),
        Some(kind) => Some(decode_note(kind, words).map_or(Entry::Unknown, Entry::Note)),
        None => Some(Entry::Unknown),
    }
}

fn range(mut words: Split<'_, char>) -> Option<Entry> {
    let (conversation, first, last) = (next(&mut words)?, next(&mut words)?, next(&mut words)?);
    let is_range = 0 <= first && first <= last && last > 0 && words.next().is_none();
    is_range.then_some(Entry::Range { conversation, first: (first > 0).then_some(first), last })
}

fn decode_note(kind: &str, mut words: Split<'_, char>) -> Option<Note> {
    Some(match kind {
        "d" => Note::Dialog { conversation: next(&mut words)?, read_seq: next(&mut words)? },
        "c+" => Note::ContactAdded { user: next(&mut words)? },
        "c-" => Note::ContactEnded { user: next(&mut words)? },
        "g+" => Note::GroupJoined { group: next(&mut words)? },
        "g-" => Note::GroupLeft { group: next(&mut words)? },
        "g=" => Note::GroupChanged { group: next(&mut words)? },
        "a" => Note::Application(ApplicationKey {
            receiver: Receiver::of(next(&mut words)?, next(&mut words)?)?,
            id: ApplicationId::new(next(&mut words)?).ok()?,
        }),
        _ => return None,
    })
}

fn next<T: FromStr>(words: &mut Split<'_, char>) -> Option<T> {
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use kith_store::{GroupId, UserId};

    use super::*;

    #[test]
    fn note_is_read_as_it_was_written() {
        let (user, group) = (UserId::new(8).unwrap(), GroupId::new(9).unwrap());
        let id = ApplicationId::new(57).unwrap();
        let notes = [
            Note::Dialog { conversation: "d7-8".parse().unwrap(), read_seq: 57 },
            Note::ContactAdded { user },
            Note::ContactEnded { user },
            Note::GroupJoined { group },
            Note::GroupLeft { group },
            Note::GroupChanged { group },
            Note::Application(ApplicationKey { receiver: Receiver::User(user), id }),
            Note::Application(ApplicationKey { receiver: Receiver::Group(group), id }),
        ];
        for written in notes {
            assert_eq!(decode(note(written).as_bytes()), Some(Entry::Note(written)));
            let of_later = note(written) + " more";
            assert_eq!(decode(of_later.as_bytes()), Some(Entry::Note(written)), "a later program adds words");
        }
    }

    #[test]
    fn range_is_read() {
        let range = |first| Some(Entry::Range { conversation: "g9".parse().unwrap(), first, last: 58 });
        assert_eq!(decode(b"m g9 57 58"), range(Some(57)));
        assert_eq!(decode(b"m g9 58 58"), range(Some(58)));
        assert_eq!(decode(b"m g9 0 58"), range(None));
    }

    #[test]
    fn damaged_range_is_not_skipped() {
        for text in [
            "m",
            "m g9",
            "m g9 57",
            "m g9 59 58",
            "m g9 -1 58",
            "m g9 0 0",
            "m x9 57 58",
            "m g9 57 58 59",
            "m g9 a 58",
        ] {
            assert_eq!(decode(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn unknown_kind_is_skipped() {
        for text in [&b""[..], b"z", b"z g9 57", b"d", b"d g9", b"c+ x", b"a 2 8 57", b"a 0 8", b"\xff\xfe"] {
            assert_eq!(decode(text), Some(Entry::Unknown), "{text:?}");
        }
    }
}
