use kith_cache::remote::Codec;
use kith_store::{Dialog, DialogKey, ReadRanges, SeqRange, Timestamp, UserId, Version};
use prost::Message;

/// Version of the format; nodes with another one treat such bytes as a miss.
const SCHEMA: u16 = 1;

/// The codec of dialogs in the shared tier.
#[derive(Clone, Copy, Debug)]
pub(super) struct DialogCodec;

/// A dialog as bytes. Numbers of fields are never reused; a change of meaning raises [`SCHEMA`].
#[derive(Clone, PartialEq, Eq, Message)]
struct PackedDialog {
    #[prost(int64, tag = "1")]
    user: i64,
    #[prost(string, tag = "2")]
    conversation: String,
    #[prost(int64, tag = "3")]
    version: i64,
    #[prost(int64, tag = "4")]
    settings_version: i64,
    #[prost(int64, tag = "5")]
    read_seq: i64,
    /// First and last number of each range, alternating.
    #[prost(int64, repeated, tag = "6")]
    unread: Vec<i64>,
    #[prost(int64, optional, tag = "7")]
    min_seq: Option<i64>,
    #[prost(int64, optional, tag = "8")]
    max_seq: Option<i64>,
    #[prost(sint64, optional, tag = "9")]
    pinned: Option<i64>,
    #[prost(int64, optional, tag = "10")]
    hidden_seq: Option<i64>,
    #[prost(bool, tag = "11")]
    do_not_disturb: bool,
    #[prost(bool, tag = "12")]
    marked_unread: bool,
    #[prost(bytes = "vec", tag = "13")]
    ext: Vec<u8>,
    #[prost(sint64, tag = "14")]
    day: i64,
    /// Written last, so that truncated bytes lack it.
    #[prost(bool, tag = "15")]
    whole: bool,
}

impl Codec<Dialog> for DialogCodec {
    fn schema(&self) -> u16 {
        SCHEMA
    }

    fn encode(&self, dialog: &Dialog) -> Vec<u8> {
        PackedDialog {
            user: dialog.key.user.get(),
            conversation: dialog.key.conversation.to_string(),
            version: dialog.version.get(),
            settings_version: dialog.settings_version.get(),
            read_seq: dialog.read.read_seq(),
            unread: dialog.read.unread().iter().flat_map(|range| [range.first, range.last]).collect(),
            min_seq: dialog.min_seq,
            max_seq: dialog.max_seq,
            pinned: dialog.pinned.map(|at| at.0),
            hidden_seq: dialog.hidden_seq,
            do_not_disturb: dialog.do_not_disturb,
            marked_unread: dialog.marked_unread,
            ext: dialog.ext.clone(),
            day: dialog.day,
            whole: true,
        }
        .encode_to_vec()
    }

    fn decode(&self, bytes: &[u8]) -> Option<Dialog> {
        let packed = PackedDialog::decode(bytes).ok().filter(|packed| packed.whole)?;
        let user = UserId::new(packed.user).ok()?;
        Some(Dialog {
            key: DialogKey { user, conversation: packed.conversation.parse().ok()? },
            version: Version::new(packed.version)?,
            settings_version: Version::new(packed.settings_version)?,
            read: ReadRanges::new(packed.read_seq, ranges(&packed.unread)?)?,
            min_seq: packed.min_seq,
            max_seq: packed.max_seq,
            pinned: packed.pinned.map(Timestamp),
            hidden_seq: packed.hidden_seq,
            do_not_disturb: packed.do_not_disturb,
            marked_unread: packed.marked_unread,
            ext: packed.ext,
            day: packed.day,
        })
    }
}

fn ranges(numbers: &[i64]) -> Option<Vec<SeqRange>> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|[first, last]| SeqRange { first: *first, last: *last }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::record_codec::tests::assert_none_when_cut;

    fn dialog() -> Dialog {
        let unread = vec![SeqRange { first: 1, last: 1 }, SeqRange { first: 5, last: i64::MAX - 2 }];
        Dialog {
            key: "7,d7-9223372036854775807".parse().unwrap(),
            version: Version::new(i64::MAX).unwrap(),
            settings_version: Version::new(4).unwrap(),
            read: ReadRanges::new(i64::MAX, unread).unwrap(),
            min_seq: Some(0),
            max_seq: Some(i64::MAX),
            pinned: Some(Timestamp(-1)),
            hidden_seq: Some(0),
            do_not_disturb: true,
            marked_unread: true,
            ext: vec![0, 255],
            day: -3,
        }
    }

    #[test]
    fn dialog_comes_back_as_it_was() {
        let bare = Dialog { version: Version::FIRST, ..Dialog::absent("7,g9".parse().unwrap()) };
        for dialog in [dialog(), bare] {
            let bytes = DialogCodec.encode(&dialog);
            assert_eq!(DialogCodec.decode(&bytes), Some(dialog));
            assert_none_when_cut(&bytes, |bytes| DialogCodec.decode(bytes));
        }
    }

    #[test]
    fn what_is_no_dialog_is_refused() {
        let fine = PackedDialog {
            user: 7,
            conversation: "g9".to_owned(),
            read_seq: 9,
            unread: vec![2, 3, 5, 6],
            whole: true,
            ..PackedDialog::default()
        };
        assert!(DialogCodec.decode(&fine.encode_to_vec()).is_some());
        for wrong in [
            PackedDialog { user: 0, ..fine.clone() },
            PackedDialog { conversation: "9".to_owned(), ..fine.clone() },
            PackedDialog { version: -1, ..fine.clone() },
            PackedDialog { unread: vec![2, 3, 5], ..fine.clone() },
            PackedDialog { unread: vec![5, 6, 2, 3], ..fine.clone() },
            PackedDialog { unread: vec![2, 10], ..fine },
        ] {
            assert_eq!(DialogCodec.decode(&wrong.encode_to_vec()), None, "{wrong:?}");
        }
    }
}
