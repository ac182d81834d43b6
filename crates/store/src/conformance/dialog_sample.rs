//! Dialogs and marks that the cases start from.

use super::sample::{applied, user_id, write};
use crate::{
    ConversationId, Dialog, DialogKey, DialogMark, DialogPatch, MarkKind, MinSeq, ReadMark, Seq, SeqRange,
    Stores, Timestamp,
};

/// A day in milliseconds.
pub(super) const DAY: i64 = 86_400_000;

pub(super) fn conversation(id: &str) -> ConversationId {
    id.parse().unwrap()
}

pub(super) fn key(user: i64, id: &str) -> DialogKey {
    DialogKey { user: user_id(user), conversation: conversation(id) }
}

pub(super) fn range(first: Seq, last: Seq) -> SeqRange {
    SeqRange { first, last }
}

/// A mark in a conversation that is one stay.
pub(super) fn mark(key: DialogKey, kind: MarkKind) -> DialogMark {
    DialogMark { key, mark: ReadMark::direct(kind), expected: None }
}

pub(super) fn up_to(key: DialogKey, seq: Seq) -> DialogMark {
    mark(key, MarkKind::UpTo(seq))
}

/// Makes marks in one batch; each is made.
pub(super) async fn make(stores: &Stores, marks: &[DialogMark]) {
    let made = stores.dialogs.mark_dialogs(marks, Timestamp::now()).await.unwrap();
    assert_eq!(made.len(), marks.len());
    assert!(made.iter().all(Result::is_ok), "{made:?}");
}

/// The dialog as it is stored; the absent one where nothing is.
pub(super) async fn dialog(stores: &Stores, key: DialogKey) -> Dialog {
    let found = stores.dialogs.dialogs(&[key]).await.unwrap();
    assert!(found.len() <= 1, "{found:?}");
    found.into_iter().next().unwrap_or_else(|| Dialog::absent(key))
}

/// Changes settings without a condition.
pub(super) async fn set(stores: &Stores, key: DialogKey, patch: DialogPatch) -> Dialog {
    applied(stores.dialogs.change_dialog(key, patch, write()).await.unwrap())
}

pub(super) fn draft(text: &str) -> DialogPatch {
    DialogPatch { ext: Some(text.as_bytes().to_vec()), ..DialogPatch::default() }
}

/// A patch that sets all there is.
pub(super) fn every_setting() -> DialogPatch {
    DialogPatch {
        min_seq: Some(MinSeq::Set(Some(3))),
        max_seq: Some(Some(90)),
        pinned: Some(Some(Timestamp(5_000))),
        hidden_seq: Some(Some(7)),
        do_not_disturb: Some(true),
        marked_unread: Some(true),
        ext: Some(vec![0, 255, b'$', b'\'']),
    }
}
