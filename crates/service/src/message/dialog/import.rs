//! Imports and exports dialogs: the marks of users, and their settings for conversations. An import notifies
//! no user.

use futures::{StreamExt as _, stream};
use kith_cache::Consistency;
use kith_proto::{message::v1 as wire, r#type::v1::ImportResult};
use kith_store::{
    ConversationId, Dialog, DialogKey, DialogPatch, DialogPosition, MARK_RANGES_MAX, MarkKind, MinSeq,
    ReadRanges, Seq, SeqRange, Timestamp, UserId, Version, Write,
};
use tokio::time::Instant;

use super::Dialogs;
use crate::{
    dialog::MarkRequest,
    error::{Error, Reason, valid},
    message::{conversation, no_conversation},
    rpc::{
        batch::{Limits, import_result, missing},
        ids,
        versions::{past_moment, wire_time},
    },
};

/// The most dialogs that are imported at the same time. Marks that wait together are written together.
const AT_ONCE: usize = 100;
/// The most unread ranges in a record: more than marks leave.
const RANGES_MAX: usize = 300;

/// Imports these records. Returns each result, in the same order.
pub(super) async fn import(
    dialogs: Dialogs,
    limits: Limits,
    records: Vec<wire::ImportDialog>,
) -> Vec<ImportResult> {
    let imports = records.into_iter().map(|record| {
        let (dialogs, deadline) = (dialogs.clone(), limits.import_deadline());
        async move {
            let imported = async {
                let dialog = record.dialog.as_ref().ok_or_else(|| missing("dialog"))?;
                let wanted = read(dialog).map_err(|error| error.within("dialog"))?;
                dialogs.import(&wanted, deadline).await
            };
            import_result(record.record, imported.await)
        }
    });
    stream::iter(imports.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await
}

impl Dialogs {
    async fn import(&self, wanted: &Dialog, deadline: Instant) -> Result<i64, Error> {
        let user = wanted.key.user;
        self.messages
            .dependencies
            .users
            .created(user, &Consistency::Cached)
            .await?
            .ok_or_else(no_conversation)?;
        let stored = self.messages.dialogs.get(wanted.key, &Consistency::Strong).await?;
        if is_same(&stored, wanted) {
            return Err(Error::new(Reason::IdTaken, "the dialog is stored already"));
        }
        let settings = patch(wanted);
        if stored.settings_version != Version::NONE && !has_settings_of(&stored, wanted) {
            return Err(Error::new(Reason::StateForbids, "other settings are stored for the dialog"));
        }
        for kind in marks(&wanted.read) {
            self.import_mark(wanted.key, kind, deadline).await?;
        }
        if !has_settings_of(&stored, wanted) {
            let write = Write::at(Timestamp::now());
            self.messages.dialogs.change(wanted.key, settings, write, deadline).await?;
        }
        Ok(user.get())
    }

    async fn import_mark(&self, key: DialogKey, kind: MarkKind, deadline: Instant) -> Result<(), Error> {
        let request = MarkRequest { key, kind, joined: Some(1), last: None, exists: false, imported: true };
        let queue = self.messages.marks.clone();
        let work = Box::pin(async move { queue.mark(request).await });
        self.messages.mutations.call(deadline, work).await.map(drop)
    }

    /// A page of a user's dialogs from the store, and the position after which it continues.
    pub(super) async fn export_page(
        &self,
        user: UserId,
        after: Option<DialogPosition>,
        size: usize,
    ) -> Result<(Vec<Dialog>, Option<DialogPosition>), Error> {
        let page = self.messages.dialogs.list(user, after, size).await?;
        let next = page.last().filter(|_| page.len() == size).map(Dialog::position);
        Ok((page, next))
    }
}

/// The position as the content of a page token.
pub(super) fn position_bytes(position: DialogPosition) -> Vec<u8> {
    format!("{},{}", position.day, position.conversation).into_bytes()
}

pub(super) fn position_of(bytes: &[u8]) -> Option<DialogPosition> {
    let (day, conversation) = std::str::from_utf8(bytes).ok()?.split_once(',')?;
    Some(DialogPosition { day: day.parse().ok()?, conversation: conversation.parse().ok()? })
}

/// The marks that leave these ranges in a dialog in which nothing is read.
fn marks(read: &ReadRanges) -> Vec<MarkKind> {
    if read.read_seq() == 0 {
        return Vec::new();
    }
    if read.unread().is_empty() {
        return vec![MarkKind::UpTo(read.read_seq())];
    }
    let ends = read.unread().iter().map(|range| range.last + 1);
    let begins = read.unread().iter().map(|range| range.first - 1).chain([read.read_seq()]);
    let seen = std::iter::once(1).chain(ends).zip(begins);
    let seen: Vec<SeqRange> =
        seen.filter(|(first, last)| first <= last).map(|(first, last)| SeqRange { first, last }).collect();
    let mut marks: Vec<MarkKind> =
        seen.chunks(MARK_RANGES_MAX).map(|some| MarkKind::Ranges(some.to_vec())).collect();
    if seen.last().is_none_or(|last| last.last < read.read_seq()) {
        marks.push(MarkKind::Hidden(read.read_seq()));
    }
    marks
}

/// The change that makes a new dialog's settings.
fn patch(wanted: &Dialog) -> DialogPatch {
    DialogPatch {
        min_seq: Some(MinSeq::Set(wanted.min_seq)),
        max_seq: Some(wanted.max_seq),
        pinned: Some(wanted.pinned),
        hidden_seq: Some(wanted.hidden_seq),
        do_not_disturb: Some(wanted.do_not_disturb),
        marked_unread: Some(wanted.marked_unread),
        ext: Some(wanted.ext.clone()),
    }
}

fn has_settings_of(one: &Dialog, other: &Dialog) -> bool {
    patch(one) == patch(other)
}

fn is_same(stored: &Dialog, wanted: &Dialog) -> bool {
    has_settings_of(stored, wanted) && stored.read == wanted.read
}

/// A dialog as it was elsewhere. Its versions and its day are not used.
fn read(record: &wire::DialogRecord) -> Result<Dialog, Error> {
    let user = ids::user("user_id", record.user_id)?;
    let conversation = conversation(&record.conversation_id)?;
    if matches!(conversation, ConversationId::Direct(..)) && !conversation.is_direct_of(user) {
        return Err(no_conversation());
    }
    if record.unread_ranges.len() > RANGES_MAX {
        return Err(Error::invalid("unread_ranges", &format!("must hold at most {RANGES_MAX}")));
    }
    let unread = record.unread_ranges.iter().map(|range| SeqRange { first: range.first, last: range.last });
    let ranges = ReadRanges::new(record.read_seq, unread.collect()).ok_or_else(|| {
        Error::invalid("unread_ranges", "must rise to read_seq at most, with a number between two")
    })?;
    let pinned = record.pin_time.as_ref().map(|time| past_moment("pin_time", time)).transpose()?;
    Ok(Dialog {
        read: ranges,
        min_seq: number("min_seq", record.min_seq)?,
        max_seq: number("max_seq", record.max_seq)?,
        pinned,
        hidden_seq: number("hidden_seq", record.hidden_seq)?,
        do_not_disturb: record.do_not_disturb,
        marked_unread: record.marked_unread,
        ext: valid("ext", Dialog::ext(record.ext.to_vec()))?,
        ..Dialog::absent(DialogKey { user, conversation })
    })
}

fn number(field: &'static str, seq: Option<Seq>) -> Result<Option<Seq>, Error> {
    match seq {
        Some(..0) => Err(Error::invalid(field, "must not be below 0")),
        seq => Ok(seq),
    }
}

pub(super) fn to_wire(dialog: &Dialog) -> wire::DialogRecord {
    let unread = dialog.read.unread().iter();
    wire::DialogRecord {
        user_id: dialog.key.user.get(),
        conversation_id: dialog.key.conversation.to_string(),
        read_seq: dialog.read.read_seq(),
        unread_ranges: unread.map(|range| wire::SeqRange { first: range.first, last: range.last }).collect(),
        min_seq: dialog.min_seq,
        max_seq: dialog.max_seq,
        pin_time: dialog.pinned.map(wire_time),
        hidden_seq: dialog.hidden_seq,
        do_not_disturb: dialog.do_not_disturb,
        marked_unread: dialog.marked_unread,
        ext: dialog.ext.clone().into(),
    }
}

#[cfg(test)]
mod tests {
    use kith_store::ReadMark;

    use super::*;

    #[test]
    fn marks_leave_the_ranges_they_are_made_from() {
        let range = |first, last| SeqRange { first, last };
        for (read_seq, unread) in [
            (0, vec![]),
            (9, vec![]),
            (9, vec![range(1, 4)]),
            (9, vec![range(1, 9)]),
            (9, vec![range(2, 3), range(5, 5), range(8, 9)]),
            (900, (1..250).map(|at| range(3 * at, 3 * at + 1)).collect()),
        ] {
            let wanted = ReadRanges::new(read_seq, unread).unwrap();
            let mut made = ReadRanges::default();
            for kind in marks(&wanted) {
                made = made.mark(&ReadMark::direct(kind)).unwrap();
            }
            assert_eq!(made, wanted);
        }
    }

    #[test]
    fn position_is_read_from_its_bytes() {
        let position = DialogPosition { day: 20_000, conversation: "g9".parse().unwrap() };
        assert_eq!(position_of(&position_bytes(position)), Some(position));
        assert_eq!(position_of(b"x"), None);
    }
}
