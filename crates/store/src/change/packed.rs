//! The packed form of changes in stores: its number, then the changes with postcard
//! (<https://postcard.jamesmunns.com/wire-format>).

use super::ENTRY_CHANGES_MAX;
use crate::FeedChange;

/// The form's number. Kept entries outlive an upgrade: a change in the form needs another number, and the
/// earlier form is read as long as entries are kept.
const FORM: u8 = 1;

/// Packs changes. About 10 bytes each; at most 100.
#[must_use]
pub fn pack_changes(changes: &[FeedChange]) -> Vec<u8> {
    // Only a list with unknown length cannot be packed. It would be read as invalid.
    postcard::to_extend(changes, vec![FORM]).unwrap_or_default()
}

/// Reverses [`pack_changes`]; `None`: invalid, of another form, or more than [`ENTRY_CHANGES_MAX`] changes.
#[must_use]
pub fn unpack_changes(bytes: &[u8]) -> Option<Vec<FeedChange>> {
    let (FORM, packed) = bytes.split_first().map(|(form, packed)| (*form, packed))? else { return None };
    let (changes, rest) = postcard::take_from_bytes::<Vec<FeedChange>>(packed).ok()?;
    (rest.is_empty() && changes.len() <= ENTRY_CHANGES_MAX).then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AudienceId, ConversationId, DialogKey, DocumentKey, Edge, FeedRecord, GroupId, MemberKey, NoticeId,
        SeqRange, UserId, Version,
    };

    fn records() -> [FeedRecord; 13] {
        let (user, other) = (UserId::new(7).unwrap(), UserId::new(i64::MAX).unwrap());
        let group = GroupId::new(9).unwrap();
        let conversation = ConversationId::direct(user, other);
        let edge = Edge { from: other, to: user };
        [
            FeedRecord::User(user),
            FeedRecord::Group(group),
            FeedRecord::Follow(edge),
            FeedRecord::Block(edge),
            FeedRecord::Member(MemberKey { group, user }),
            FeedRecord::Roster(group),
            FeedRecord::Dialog(DialogKey { user, conversation }),
            FeedRecord::Conversation(conversation),
            FeedRecord::Document(DocumentKey { conversation, document: 12 }),
            FeedRecord::Messages(ConversationId::Group(group), SeqRange { first: 99, last: 104 }),
            FeedRecord::Audience(AudienceId::new(3).unwrap()),
            FeedRecord::Notice(NoticeId::new(i64::MAX).unwrap()),
            FeedRecord::Reactions(DocumentKey { conversation, document: 12 }),
        ]
    }

    fn change(record: FeedRecord) -> FeedChange {
        FeedChange { record, version: Some(Version::FIRST), by_hand: false }
    }

    #[test]
    fn changes_to_all_records_come_back() {
        let by_hand = |change: FeedChange| [change, FeedChange { version: None, by_hand: true, ..change }];
        let changes: Vec<_> = records().map(change).into_iter().flat_map(by_hand).collect();
        assert_eq!(unpack_changes(&pack_changes(&changes)).unwrap(), changes);
        assert_eq!(unpack_changes(&pack_changes(&[])).unwrap(), []);
    }

    #[test]
    fn kept_entries_stay_readable() {
        let change = FeedChange { by_hand: true, ..change(records()[9]) };
        let bytes = [&[FORM, 1, 9, 2][..], b"g9", &[198, 1, 208, 1, 1, 2, 1]].concat();
        assert_eq!(pack_changes(&[change]), bytes);
        // The record kinds' numbers.
        let numbers = records().map(|record| pack_changes(&[self::change(record)])[2]);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }

    #[test]
    fn largest_entry_is_small() {
        let most = records().map(|record| {
            let change = FeedChange { version: Version::new(i64::MAX), ..change(record) };
            pack_changes(&vec![change; ENTRY_CHANGES_MAX]).len()
        });
        assert!(most.iter().all(|bytes| *bytes <= 100 * ENTRY_CHANGES_MAX), "{most:?}");
    }

    #[test]
    fn damaged_bytes_are_no_changes() {
        let bytes = pack_changes(&records().map(change));
        for end in 0..bytes.len() {
            assert_eq!(unpack_changes(&bytes[..end]), None, "{end}");
        }
        assert_eq!(unpack_changes(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(unpack_changes(&[&[FORM + 1], &bytes[1..]].concat()), None);
        assert_eq!(unpack_changes(&pack_changes(&vec![change(records()[0]); ENTRY_CHANGES_MAX + 1])), None);
        assert_eq!(
            unpack_changes(&[FORM, 255, 255, 255, 255, 15]),
            None,
            "more changes than there are bytes"
        );
    }
}
