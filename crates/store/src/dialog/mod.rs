//! Dialogs: what one user keeps about one conversation, and how marks and changes of settings change it.

mod patch;
mod read_mark;
mod read_ranges;
mod store;
mod unread;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{ConversationId, Invalid, Seq, Timestamp, UserId, Version};

pub use patch::{DialogPatch, MinSeq};
pub use read_mark::{MARK_RANGES_MAX, MarkKind, MarkRaise, ReadMark};
pub use read_ranges::{ReadRanges, SeqRange, TooManyRanges, UNREAD_RANGES_MAX};
pub use store::{DialogList, DialogMark, DialogPosition, DialogStore, MARKS_AT_ONCE, MarkBase};
pub use unread::{MessageHeader, Unread, UnreadRange, count_unread};

/// Most bytes of [`Dialog::ext`].
pub const DIALOG_EXT_BYTES_MAX: usize = 1024;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Names a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DialogKey {
    /// The user who keeps the dialog.
    pub user: UserId,
    /// The conversation that it is about.
    pub conversation: ConversationId,
}

impl DialogKey {
    /// The dialogs of a direct conversation: two, or one for notes to oneself. Empty for a group.
    #[must_use]
    pub fn of_direct(conversation: ConversationId) -> Vec<Self> {
        let ConversationId::Direct(one, other) = conversation else { return Vec::new() };
        let users = if one == other { vec![one] } else { vec![one, other] };
        users.into_iter().map(|user| Self { user, conversation }).collect()
    }
}

impl fmt::Display for DialogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.user, self.conversation)
    }
}

impl FromStr for DialogKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let both = text.split_once(',');
        let (user, conversation) =
            both.ok_or_else(|| Invalid::new("must be a user id and a conversation id with a comma between"))?;
        Ok(Self { user: user.parse()?, conversation: conversation.parse()? })
    }
}

/// The state of a user in a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dialog {
    /// The user and the conversation.
    pub key: DialogKey,
    /// The version, which every write that changes the dialog raises, also a mark.
    pub version: Version,
    /// The version that only changes of settings raise, so that a mark does not fail a draft that is being
    /// saved.
    pub settings_version: Version,
    /// Which messages the user has read.
    pub read: ReadRanges,
    /// The lowest number that the user sees, by its own choice or that of a service.
    pub min_seq: Option<Seq>,
    /// The highest number that the user sees.
    pub max_seq: Option<Seq>,
    /// When the conversation was pinned.
    pub pinned: Option<Timestamp>,
    /// The conversation is not listed while its end is not above this number.
    pub hidden_seq: Option<Seq>,
    /// Whether new messages make no noise. Used for groups only: in direct conversations, the relation
    /// between the two users has this setting.
    pub do_not_disturb: bool,
    /// Whether the user has marked the conversation as unread.
    pub marked_unread: bool,
    /// Data of the product; at most [`DIALOG_EXT_BYTES_MAX`].
    pub ext: Vec<u8>,
    /// The day of the last write, counted from 1970. Never falls.
    pub day: i64,
}

impl Dialog {
    /// The default while no dialog is stored: nothing read, nothing set, version [`Version::NONE`].
    #[must_use]
    pub fn absent(key: DialogKey) -> Self {
        Self {
            key,
            version: Version::NONE,
            settings_version: Version::NONE,
            read: ReadRanges::default(),
            min_seq: None,
            max_seq: None,
            pinned: None,
            hidden_seq: None,
            do_not_disturb: false,
            marked_unread: false,
            ext: Vec::new(),
            day: 0,
        }
    }

    /// The dialog as the first write makes it, where that sets nothing.
    #[must_use]
    pub fn new(key: DialogKey, now: Timestamp) -> Self {
        Self { version: Version::FIRST, day: Self::day_of(now), ..Self::absent(key) }
    }

    /// The day of a moment, as [`Dialog::day`].
    #[must_use]
    pub const fn day_of(now: Timestamp) -> i64 {
        now.0.div_euclid(DAY_MS)
    }

    /// Checks what a product wants to keep.
    ///
    /// # Errors
    /// When it has more than [`DIALOG_EXT_BYTES_MAX`] bytes.
    pub fn ext(bytes: Vec<u8>) -> Result<Vec<u8>, Invalid> {
        if bytes.len() <= DIALOG_EXT_BYTES_MAX {
            Ok(bytes)
        } else {
            Err(Invalid::fixed("must be at most 1024 bytes"))
        }
    }

    /// The dialog's position in its user's lists.
    #[must_use]
    pub const fn position(&self) -> DialogPosition {
        DialogPosition { day: self.day, conversation: self.key.conversation }
    }

    /// The dialog after a mark. `None`: the mark changes nothing of a dialog that is stored.
    ///
    /// # Errors
    /// See [`ReadRanges::mark`].
    pub fn marked(&self, mark: &ReadMark, now: Timestamp) -> Result<Option<Self>, TooManyRanges> {
        let read = self.read.mark(mark)?;
        let is_new = self.version == Version::NONE;
        Ok((is_new || read != self.read).then(|| Self { read, ..self.written(now) }))
    }

    /// The dialog after a change of settings.
    #[must_use]
    pub fn changed(&self, patch: &DialogPatch, now: Timestamp) -> Self {
        let mut changed = self.written(now);
        patch.apply(&mut changed);
        changed.settings_version = self.settings_version.next();
        changed
    }

    /// The dialog that a deleted user leaves when the log ends at `end`. It keeps what the user had read, so
    /// that receipts keep their readers. It hides all messages, so that a user who is created again under the
    /// id neither reads nor lists what the former user could. `None`: the dialog is so already.
    #[must_use]
    pub fn reduced(&self, end: Seq, now: Timestamp) -> Option<Self> {
        let min_seq = self.min_seq.max(Some(end.saturating_add(1)));
        let (read, hidden_seq) = (self.read.clone(), self.hidden_seq.max(Some(end)));
        let (version, settings_version, day) = (self.version, self.settings_version, self.day);
        let left =
            Self { version, settings_version, read, min_seq, hidden_seq, day, ..Self::absent(self.key) };
        let changes = left != *self;
        changes.then(|| Self { settings_version: settings_version.next(), ..left.written(now) })
    }

    /// Approximate size in bytes, for the bounds of caches.
    #[must_use]
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.ext.len() + size_of_val(self.read.unread())
    }

    fn written(&self, now: Timestamp) -> Self {
        Self { version: self.version.next(), day: self.day.max(Self::day_of(now)), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> DialogKey {
        "7,d7-8".parse().unwrap()
    }

    #[test]
    fn direct_conversation_has_two_dialogs_or_one() {
        let of = |text: &str| {
            let keys = DialogKey::of_direct(text.parse().unwrap());
            keys.iter().map(DialogKey::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("d7-8"), ["7,d7-8", "8,d7-8"]);
        assert_eq!(of("d7-7"), ["7,d7-7"]);
        assert!(of("g9").is_empty());
    }

    #[test]
    fn other_texts_name_no_dialog() {
        for text in ["", "7", "7,", "d7-8,7", "0,g9", "7;g9"] {
            assert!(text.parse::<DialogKey>().is_err(), "{text}");
        }
    }

    #[test]
    fn reduced_dialog_keeps_what_was_read() {
        let read = ReadRanges::new(90, vec![SeqRange { first: 3, last: 5 }]).unwrap();
        let day = Dialog::day_of(Timestamp::now());
        let settings = DialogPatch {
            max_seq: Some(Some(80)),
            pinned: Some(Some(Timestamp(5))),
            do_not_disturb: Some(true),
            marked_unread: Some(true),
            ext: Some(b"draft".to_vec()),
            ..DialogPatch::default()
        };
        let dialog = Dialog { read: read.clone(), ..Dialog::new(key(), Timestamp::now()) };
        let dialog = dialog.changed(&settings, Timestamp::now());
        let reduced = dialog.reduced(100, Timestamp::now()).unwrap();
        let expected = Dialog {
            version: dialog.version.next(),
            settings_version: dialog.settings_version.next(),
            read,
            min_seq: Some(101),
            hidden_seq: Some(100),
            day,
            ..Dialog::absent(key())
        };
        assert_eq!(reduced, expected);
        assert_eq!(reduced.reduced(100, Timestamp::now()), None);
        assert_eq!(reduced.reduced(7, Timestamp::now()), None, "bounds never fall");
    }

    #[test]
    fn ext_is_bounded() {
        assert!(Dialog::ext(vec![0; DIALOG_EXT_BYTES_MAX]).is_ok());
        assert!(Dialog::ext(vec![0; DIALOG_EXT_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn day_never_falls() {
        let (later, earlier) = (Timestamp(10 * DAY_MS), Timestamp(9 * DAY_MS));
        let dialog = Dialog::new(key(), later).changed(&DialogPatch::default(), earlier);
        assert_eq!((dialog.day, dialog.version.get(), dialog.settings_version.get()), (10, 2, 1));
        assert_eq!(Dialog::day_of(Timestamp(-1)), -1);
    }
}
