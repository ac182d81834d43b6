//! The marks in one store command, and the changes that memory takes after it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use kith_cache::Change;
use kith_store::{Dialog, DialogKey, DialogMark, MarkBase, ReadMark, StoreError, Timestamp, Version};

use crate::rpc::versions::put;

/// Marks that one command makes, each with the copy by which it was decided.
#[derive(Debug)]
pub(super) struct MarkCommand {
    marks: Vec<DialogMark>,
    /// The copies of dialogs with a single mark. The command cannot say what several marks in a dialog leave.
    copies: HashMap<DialogKey, Arc<Dialog>>,
}

/// The dialogs that a mark command leaves, wherever this node's copies equal the stored dialogs.
#[derive(Debug)]
pub(super) struct MarkedDialogs {
    keys: Vec<DialogKey>,
    marked: HashMap<DialogKey, Arc<Dialog>>,
}

impl MarkCommand {
    /// Creates it. `copies`: the dialogs before the marks, as far as this node knows them.
    pub(super) fn new(marks: Vec<(DialogKey, ReadMark)>, copies: &HashMap<DialogKey, Arc<Dialog>>) -> Self {
        let (mut once, mut again) = (HashSet::with_capacity(marks.len()), HashSet::new());
        again.extend(marks.iter().map(|(key, _)| *key).filter(|key| !once.insert(*key)));
        let copy = |key: &DialogKey| copies.get(key).filter(|_| !again.contains(key)).cloned();
        let copies: HashMap<_, _> = once.iter().filter_map(|key| Some((*key, copy(key)?))).collect();
        let expected = |key: &DialogKey| -> Option<Version> { copies.get(key).map(|copy| copy.version) };
        let mark = |(key, mark)| DialogMark { key, mark, expected: expected(&key) };
        Self { marks: marks.into_iter().map(mark).collect(), copies }
    }

    /// Returns the marks, and the dialogs that they leave when they are made at this time.
    pub(super) fn at(self, now: Timestamp) -> (Vec<DialogMark>, MarkedDialogs) {
        let marked = |DialogMark { key, mark, .. }: &DialogMark| {
            let marked = self.copies.get(key)?.marked(mark, now).ok().flatten()?;
            Some((*key, Arc::new(marked)))
        };
        let marked = self.marks.iter().filter_map(marked).collect();
        let keys = self.marks.iter().map(|mark| mark.key).collect();
        (self.marks, MarkedDialogs { keys, marked })
    }
}

impl MarkedDialogs {
    /// Returns the keys of the marked dialogs, each once.
    pub(super) fn keys(&self) -> Vec<DialogKey> {
        let mut keys = self.keys.clone();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns each dialog's change, by the results of the marks. A copy that was right is marked as the
    /// stored dialog was, so that the next mark finds it in memory. Other copies are dropped, because their
    /// stored dialogs are not known.
    pub(super) fn changes(&self, made: &[Result<MarkBase, StoreError>]) -> Vec<(DialogKey, Change<Dialog>)> {
        let is_expected = |made: &Result<MarkBase, StoreError>| matches!(made, Ok(MarkBase::Expected));
        let change = |(key, made): (&DialogKey, &Result<MarkBase, StoreError>)| {
            let marked = self.marked.get(key).filter(|_| is_expected(made));
            (*key, marked.map_or(Change::Invalidate { version: None }, put))
        };
        let changes: HashMap<_, _> = self.keys.iter().zip(made).map(change).collect();
        changes.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use kith_store::{MarkKind, ReadRanges};

    use super::*;

    fn key(user: i64) -> DialogKey {
        format!("{user},g9").parse().unwrap()
    }

    /// Users 7 and 8 have a dialog with version 5 that is read up to 4; user 9 has no dialog.
    fn copies() -> HashMap<DialogKey, Arc<Dialog>> {
        let read = ReadRanges::new(4, Vec::new()).unwrap();
        let dialog = |user| Dialog {
            read: read.clone(),
            version: Version::new(5).unwrap(),
            ext: b"draft".to_vec(),
            ..Dialog::absent(key(user))
        };
        [dialog(7), dialog(8), Dialog::absent(key(9))].map(|dialog| (dialog.key, Arc::new(dialog))).into()
    }

    fn up_to(user: i64, seq: i64) -> (DialogKey, ReadMark) {
        (key(user), ReadMark::direct(MarkKind::UpTo(seq)))
    }

    fn at(marks: &[(DialogKey, ReadMark)]) -> (Vec<DialogMark>, MarkedDialogs) {
        MarkCommand::new(marks.to_vec(), &copies()).at(Timestamp(86_400_000))
    }

    /// The version and the read number of the dialog that memory takes; `None`: memory drops the dialog.
    fn taken(changes: &[(DialogKey, Change<Dialog>)], user: i64) -> Option<(u64, i64)> {
        let (_, change) = changes.iter().find(|(of, _)| *of == key(user)).unwrap();
        match change {
            Change::Put { value, version } => Some((version.get(), value.read.read_seq())),
            _ => None,
        }
    }

    #[test]
    fn right_copy_is_marked_in_memory() {
        let (marks, marked) = at(&[up_to(7, 6), up_to(8, 6), up_to(9, 6)]);
        let expected = marks.iter().map(|mark| mark.expected.map(Version::get)).collect::<Vec<_>>();
        assert_eq!(expected, [Some(5), Some(5), Some(0)]);
        let made = [Ok(MarkBase::Expected), Ok(MarkBase::Other), Ok(MarkBase::Expected)];
        let changes = marked.changes(&made);
        assert_eq!([7, 8, 9].map(|user| taken(&changes, user)), [Some((6, 6)), None, Some((1, 6))]);
    }

    #[test]
    fn failed_mark_drops_the_copy() {
        let (_, marked) = at(&[up_to(7, 6)]);
        assert_eq!(taken(&marked.changes(&[Err(StoreError::Overloaded)]), 7), None);
    }

    #[test]
    fn dialog_of_several_marks_is_dropped() {
        let (marks, marked) = at(&[up_to(7, 6), up_to(8, 6), up_to(7, 9)]);
        assert_eq!(
            marks.iter().map(|mark| mark.expected.is_some()).collect::<Vec<_>>(),
            [false, true, false]
        );
        assert_eq!(marked.keys(), [key(7), key(8)]);
        let changes =
            marked.changes(&[Ok(MarkBase::Expected), Ok(MarkBase::Expected), Ok(MarkBase::Expected)]);
        assert_eq!((changes.len(), taken(&changes, 7), taken(&changes, 8)), (2, None, Some((6, 6))));
    }

    #[test]
    fn mark_of_an_unknown_dialog_expects_nothing() {
        let (marks, marked) = at(&[up_to(10, 6)]);
        assert_eq!(marks[0].expected, None);
        assert_eq!(taken(&marked.changes(&[Ok(MarkBase::Other)]), 10), None);
    }
}
