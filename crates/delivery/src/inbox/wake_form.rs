//! A wake as bytes. Numbers are big-endian.
//!
//! | bytes | every wake |
//! | --- | --- |
//! | 1 | form |
//! | 1 | kind |
//!
//! | kind | then |
//! | --- | --- |
//! | 1 messages | sent messages; epoch (8); woken users; users of lost inboxes (8 each) |
//! | 2 entries | user (8), epoch (8), generation (8), position (8) |
//! | 3 lost | user (8) |
//! | 4 signal | user (8), the signal |
//! | 5 conversation | sent messages |
//!
//! Woken users: their number (4), then for each: user (8), generation (8), position (8), first number (8; 0:
//! none).
//!
//! Sent messages: the conversation id's length (1), the id, last number (8), send time (8), number of entries
//! (4), for each its length (4) and itself.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use kith_store::{Timestamp, UserId};

use super::{Generation, SentMessages, Wake, WokenUser};

/// Rises with each change to the form. A wake whose form or kind a program does not know is dropped.
const FORM: u8 = 1;
const MESSAGES: u8 = 1;
const ENTRIES: u8 = 2;
const LOST: u8 = 3;
const SIGNAL: u8 = 4;
const CONVERSATION: u8 = 5;

/// A wake's bytes; `None`: it is larger than any can be.
pub(super) fn encode(wake: &Wake) -> Option<Bytes> {
    let mut bytes = BytesMut::with_capacity(128);
    bytes.put_u8(FORM);
    match wake {
        Wake::Messages { sent, woken, lost } => {
            bytes.put_u8(MESSAGES);
            put_sent(&mut bytes, sent)?;
            put_woken(&mut bytes, woken)?;
            lost.iter().for_each(|user| bytes.put_i64(user.get()));
        }
        Wake::Entries { user, generation, position } => {
            bytes.put_u8(ENTRIES);
            bytes.put_i64(user.get());
            bytes.put_u64(generation.epoch);
            bytes.put_u64(generation.number);
            bytes.put_u64(*position);
        }
        Wake::Lost { user } => {
            bytes.put_u8(LOST);
            bytes.put_i64(user.get());
        }
        Wake::Signal { user, signal } => {
            bytes.put_u8(SIGNAL);
            bytes.put_i64(user.get());
            bytes.put_slice(signal);
        }
        Wake::Conversation(sent) => {
            bytes.put_u8(CONVERSATION);
            put_sent(&mut bytes, sent)?;
        }
    }
    Some(bytes.freeze())
}

/// The wake in these bytes; `None`: a newer program has sent it, or it is damaged.
pub(super) fn decode(mut bytes: Bytes) -> Option<Wake> {
    if byte(&mut bytes)? != FORM {
        return None;
    }
    let wake = match byte(&mut bytes)? {
        MESSAGES => {
            let (sent, woken) = (sent(&mut bytes)?, woken(&mut bytes)?);
            Wake::Messages { sent, woken, lost: users(&mut bytes)? }
        }
        ENTRIES => Wake::Entries {
            user: user(&mut bytes)?,
            generation: Generation { epoch: number(&mut bytes)?, number: number(&mut bytes)? },
            position: number(&mut bytes)?,
        },
        LOST => Wake::Lost { user: user(&mut bytes)? },
        SIGNAL => Wake::Signal { user: user(&mut bytes)?, signal: std::mem::take(&mut bytes) },
        CONVERSATION => Wake::Conversation(sent(&mut bytes)?),
        _ => return None,
    };
    bytes.is_empty().then_some(wake)
}

fn put_sent(bytes: &mut BytesMut, sent: &SentMessages) -> Option<()> {
    let conversation = sent.conversation.to_string();
    bytes.put_u8(u8::try_from(conversation.len()).ok()?);
    bytes.put_slice(conversation.as_bytes());
    bytes.put_i64(sent.last);
    bytes.put_i64(sent.sent.0);
    bytes.put_u32(u32::try_from(sent.entries.len()).ok()?);
    for entry in &sent.entries {
        bytes.put_u32(u32::try_from(entry.len()).ok()?);
        bytes.put_slice(entry);
    }
    Some(())
}

fn sent(bytes: &mut Bytes) -> Option<SentMessages> {
    let length = usize::from(byte(bytes)?);
    let conversation = part(bytes, length)?;
    let conversation = std::str::from_utf8(&conversation).ok()?.parse().ok()?;
    let (last, sent) = (signed(bytes)?, Timestamp(signed(bytes)?));
    let entries = (0..count(bytes)?).map(|_| {
        let length = count(bytes)?;
        part(bytes, usize::try_from(length).ok()?)
    });
    let entries = entries.collect::<Option<_>>()?;
    Some(SentMessages { conversation, last, sent, entries })
}

/// All are in one epoch.
fn put_woken(bytes: &mut BytesMut, woken: &[WokenUser]) -> Option<()> {
    bytes.put_u64(woken.first().map_or(0, |woken| woken.generation.epoch));
    bytes.put_u32(u32::try_from(woken.len()).ok()?);
    for woken in woken {
        bytes.put_i64(woken.user.get());
        bytes.put_u64(woken.generation.number);
        bytes.put_u64(woken.position);
        bytes.put_i64(woken.first.unwrap_or(0));
    }
    Some(())
}

fn woken(bytes: &mut Bytes) -> Option<Vec<WokenUser>> {
    let (epoch, count) = (number(bytes)?, count(bytes)?);
    let mut one = || {
        let (user, number_of) = (user(bytes)?, number(bytes)?);
        let (position, first) = (number(bytes)?, signed(bytes)?);
        let generation = Generation { epoch, number: number_of };
        Some(WokenUser { user, generation, position, first: (first > 0).then_some(first) })
    };
    (0..count).map(|_| one()).collect()
}

fn users(bytes: &mut Bytes) -> Option<Vec<UserId>> {
    let mut users = Vec::new();
    while !bytes.is_empty() {
        users.push(user(bytes)?);
    }
    Some(users)
}

fn user(bytes: &mut Bytes) -> Option<UserId> {
    UserId::new(signed(bytes)?).ok()
}

fn byte(bytes: &mut Bytes) -> Option<u8> {
    bytes.try_get_u8().ok()
}

fn count(bytes: &mut Bytes) -> Option<u32> {
    bytes.try_get_u32().ok()
}

fn number(bytes: &mut Bytes) -> Option<u64> {
    bytes.try_get_u64().ok()
}

fn signed(bytes: &mut Bytes) -> Option<i64> {
    bytes.try_get_i64().ok()
}

fn part(bytes: &mut Bytes, length: usize) -> Option<Bytes> {
    (bytes.len() >= length).then(|| bytes.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes() -> Vec<Wake> {
        let user = |id| UserId::new(id).unwrap();
        let generation = Generation { epoch: 5, number: u64::MAX };
        let entries = vec![Bytes::from_static(b"\xff\0"), Bytes::new()];
        let sent = SentMessages {
            conversation: "d7-8".parse().unwrap(),
            last: 58,
            sent: Timestamp(1_790_000_000_000),
            entries,
        };
        let woken = [None, Some(57)].map(|first| WokenUser { user: user(8), generation, position: 3, first });
        vec![
            Wake::Messages { sent: sent.clone(), woken: woken.to_vec(), lost: vec![user(1), user(2)] },
            Wake::Messages { sent: sent.clone(), woken: Vec::new(), lost: Vec::new() },
            Wake::Entries { user: user(8), generation, position: 3 },
            Wake::Lost { user: user(8) },
            Wake::Signal { user: user(8), signal: Bytes::from_static(b"typing") },
            Wake::Conversation(sent),
        ]
    }

    #[test]
    fn wake_is_read_as_it_was_written() {
        for wake in wakes() {
            assert_eq!(decode(encode(&wake).unwrap()), Some(wake));
        }
    }

    #[test]
    fn damaged_wake_is_dropped() {
        for wake in wakes() {
            let bytes = encode(&wake).unwrap();
            for length in 0..bytes.len() {
                // A signal, and the list of lost inboxes, have no length of their own.
                assert_ne!(decode(bytes.slice(..length)), Some(wake.clone()));
            }
            for index in 0..2 {
                let mut other = bytes.to_vec();
                other[index] = 99;
                assert_eq!(decode(other.into()), None, "of a newer program");
            }
        }
        assert_eq!(decode(Bytes::from_static(&[1, 5, 2, b'g', b'9'])), None);
        let mut many = encode(&wakes()[1]).unwrap().to_vec();
        let count = many.len() - 4;
        many[count..].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(decode(many.into()), None, "more users than bytes");
    }
}
