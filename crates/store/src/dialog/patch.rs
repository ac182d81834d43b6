//! Changes of the settings of a dialog.

use super::Dialog;
use crate::{Seq, Timestamp};

/// How a change of settings changes [`Dialog::min_seq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinSeq {
    /// Sets it to this number; `None` unsets it.
    Set(Option<Seq>),
    /// Raises it to this number, unless it is higher already.
    Raise(Seq),
}

/// A sparse change of settings: `None` leaves a field as it is, `Some(None)` unsets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialogPatch {
    /// See [`Dialog::min_seq`].
    pub min_seq: Option<MinSeq>,
    /// See [`Dialog::max_seq`].
    pub max_seq: Option<Option<Seq>>,
    /// See [`Dialog::pinned`].
    pub pinned: Option<Option<Timestamp>>,
    /// See [`Dialog::hidden_seq`].
    pub hidden_seq: Option<Option<Seq>>,
    /// See [`Dialog::do_not_disturb`].
    pub do_not_disturb: Option<bool>,
    /// See [`Dialog::marked_unread`].
    pub marked_unread: Option<bool>,
    /// From [`Dialog::ext`]; empty removes it.
    pub ext: Option<Vec<u8>>,
}

impl DialogPatch {
    /// Changes the fields. Leaves versions and day alone.
    pub(super) fn apply(&self, dialog: &mut Dialog) {
        match self.min_seq {
            Some(MinSeq::Set(min_seq)) => dialog.min_seq = min_seq,
            Some(MinSeq::Raise(least)) => dialog.min_seq = dialog.min_seq.max(Some(least)),
            None => {}
        }
        dialog.max_seq = self.max_seq.unwrap_or(dialog.max_seq);
        dialog.pinned = self.pinned.unwrap_or(dialog.pinned);
        dialog.hidden_seq = self.hidden_seq.unwrap_or(dialog.hidden_seq);
        dialog.do_not_disturb = self.do_not_disturb.unwrap_or(dialog.do_not_disturb);
        dialog.marked_unread = self.marked_unread.unwrap_or(dialog.marked_unread);
        if let Some(ext) = &self.ext {
            dialog.ext.clone_from(ext);
        }
    }
}
