//! Cursors: where a stream continues, with a MAC, bound to one account.

use std::collections::HashMap;

use kith_delivery::{Generation, Position};
use kith_store::{ConversationId, GroupId, Seq, UserId};
use prost::{
    bytes::Buf,
    encoding::{decode_varint, encode_varint},
};

use crate::{error::Error, rpc::page_token::PageTokens};

/// The query that cursors are bound to, besides the user and its account.
const QUERY: &[u8] = b"Receive";
/// The first byte of a cursor in this form.
const FORM: u8 = 1;
/// A tag before a group's id, and a tag before two users' ids.
const GROUP: u64 = 0;
const DIRECT: u64 = 1;

/// For each conversation, the highest number that the client has.
pub(super) type SeqFloors = HashMap<ConversationId, Seq>;

/// Where a stream continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResumePoint {
    pub(super) generation: Generation,
    /// The client has every entry up to this number.
    pub(super) position: Position,
    /// In later entries, and in conversations that are not in the inbox, the client has the messages up to
    /// these numbers.
    pub(super) floors: SeqFloors,
}

/// Issues and verifies cursors.
#[derive(Clone, Debug)]
pub(super) struct Cursors(PageTokens);

impl Cursors {
    pub(super) const fn new(tokens: PageTokens) -> Self {
        Self(tokens)
    }

    /// A resume point's cursor; empty if it has too many floors for a token.
    pub(super) fn issue(&self, user: UserId, account: u32, point: &ResumePoint) -> String {
        self.0
            .of_account(account)
            .issue_bytes(&[QUERY, &user.get().to_be_bytes()], &point.to_bytes())
            .unwrap_or_default()
    }

    /// A cursor's resume point; `None`: there is no cursor.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it was not issued to this user's account.
    pub(super) fn verify(
        &self,
        user: UserId,
        account: u32,
        cursor: &str,
    ) -> Result<Option<ResumePoint>, Error> {
        let refused = || Error::invalid("cursor", "must be one that Receive returned to this user");
        let tokens = self.0.of_account(account);
        let point =
            tokens.verify_bytes(&[QUERY, &user.get().to_be_bytes()], cursor).map_err(|_| refused())?;
        point.map(|bytes| ResumePoint::of_bytes(&bytes).ok_or_else(refused)).transpose()
    }
}

impl ResumePoint {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        for number in [self.generation.epoch, self.generation.number, self.position] {
            encode_varint(number, &mut bytes);
        }
        for (conversation, seq) in &self.floors {
            match conversation {
                ConversationId::Group(group) => encode_all(&[GROUP, id(group.get())], &mut bytes),
                ConversationId::Direct(one, other) => {
                    encode_all(&[DIRECT, id(one.get()), id(other.get())], &mut bytes);
                }
                // No user receives it.
                ConversationId::Offline(_) => continue,
            }
            encode_varint(id(*seq), &mut bytes);
        }
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (form, mut rest) = bytes.split_first()?;
        let numbers = |rest: &mut &[u8]| decode_varint(rest).ok();
        if *form != FORM {
            return None;
        }
        let generation = Generation { epoch: numbers(&mut rest)?, number: numbers(&mut rest)? };
        let (position, mut floors) = (numbers(&mut rest)?, SeqFloors::new());
        while rest.has_remaining() {
            let conversation = match numbers(&mut rest)? {
                GROUP => ConversationId::Group(GroupId::new(signed(numbers(&mut rest)?)).ok()?),
                DIRECT => {
                    let one = UserId::new(signed(numbers(&mut rest)?)).ok()?;
                    ConversationId::direct(one, UserId::new(signed(numbers(&mut rest)?)).ok()?)
                }
                _ => return None,
            };
            floors.insert(conversation, signed(numbers(&mut rest)?));
        }
        Some(Self { generation, position, floors })
    }
}

fn encode_all(numbers: &[u64], bytes: &mut Vec<u8>) {
    numbers.iter().for_each(|number| encode_varint(*number, bytes));
}

/// Ids and message numbers are not below 0.
fn id(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::user;

    fn point(floors: &[(&str, Seq)]) -> ResumePoint {
        let floors = floors.iter().map(|(conversation, seq)| (conversation.parse().unwrap(), *seq)).collect();
        ResumePoint { generation: Generation { epoch: 3, number: u64::MAX }, position: 58, floors }
    }

    #[test]
    fn resume_point_survives_the_cursor() {
        let cursors = Cursors::new(PageTokens::new([7; 32]));
        for point in [point(&[]), point(&[("g9", 5), ("d7-9223372036854775807", i64::MAX)])] {
            let cursor = cursors.issue(user(7), 0, &point);
            assert_eq!(cursors.verify(user(7), 0, &cursor).unwrap(), Some(point));
        }
        assert_eq!(cursors.verify(user(7), 0, "").unwrap(), None);
    }

    #[test]
    fn cursor_of_another_user_is_refused() {
        let cursors = Cursors::new(PageTokens::new([7; 32]));
        let cursor = cursors.issue(user(7), 0, &point(&[]));
        assert!(cursors.verify(user(8), 0, &cursor).is_err());
        assert!(cursors.verify(user(7), 1, &cursor).is_err(), "another account");
        assert!(cursors.verify(user(7), 0, &format!("{cursor}A")).is_err());
        assert!(Cursors::new(PageTokens::new([8; 32])).verify(user(7), 0, &cursor).is_err());
    }

    #[test]
    fn damaged_resume_point_is_refused() {
        let whole = point(&[("g9", 5)]).to_bytes();
        for length in 0..whole.len() {
            let without_floor = length == point(&[]).to_bytes().len();
            assert_eq!(ResumePoint::of_bytes(&whole[..length]).is_some(), without_floor, "{length}");
        }
        assert_eq!(ResumePoint::of_bytes(&[&[2], &whole[1..]].concat()), None);
    }

    #[test]
    fn cursor_has_room_for_all_large_groups() {
        let group = |id: i64| (ConversationId::Group(GroupId::new(i64::MAX - id).unwrap()), i64::MAX - id);
        let point = ResumePoint { floors: (0..64).map(group).collect(), ..point(&[]) };
        let cursors = Cursors::new(PageTokens::new([7; 32]));
        let cursor = cursors.issue(user(7), 0, &point);
        assert!(!cursor.is_empty() && cursor.len() <= 4096, "{} characters", cursor.len());
        assert_eq!(cursors.verify(user(7), 0, &cursor).unwrap(), Some(point));
    }
}
