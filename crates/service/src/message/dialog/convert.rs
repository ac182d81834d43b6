//! Converts dialogs between the wire and the domain. Raw numbers and strings do not pass this module.

use kith_proto::message::v1::{self as wire, read_seq_result::Result as ReadAnswer};
use kith_store::{
    ConversationId, Dialog, DialogKey, DialogPatch, MARK_RANGES_MAX, MarkKind, MinSeq, Seq, SeqRange,
    Timestamp, UserId,
};

use super::{marks::DialogReadState, shown::ShownConversation, unread::UnreadCount};
use crate::{
    error::Error,
    message::{acting_user, conversation, message_to_wire, number},
    rpc::{
        batch::{check_count, missing},
        call::Principal,
        ids,
        params::field_path,
    },
};

/// All fields in a dialog's settings.
const ALL_FIELDS: [&str; 4] = ["pinned", "do_not_disturb", "marked_unread", "ext"];

/// The user of the dialogs: the named user, or else the acting user.
pub(in crate::message) fn user(named: i64, principal: Principal) -> Result<UserId, Error> {
    acting_user(named, principal)?.ok_or_else(|| missing("user_id"))
}

/// A dialog of the named user, or else of the acting user.
pub(super) fn key(named: i64, conversation_id: &str, principal: Principal) -> Result<DialogKey, Error> {
    Ok(DialogKey { user: user(named, principal)?, conversation: conversation(conversation_id)? })
}

/// A user's dialog in its direct conversation with another user.
pub(super) fn direct_key(named: i64, other: i64, principal: Principal) -> Result<DialogKey, Error> {
    let user = user(named, principal)?;
    let other = ids::user("other_user_id", other)?;
    Ok(DialogKey { user, conversation: ConversationId::direct(user, other) })
}

/// The mark of a request.
pub(super) fn mark(request: &wire::MarkReadRequest) -> Result<MarkKind, Error> {
    check_count("ranges", request.ranges.len(), MARK_RANGES_MAX)?;
    let up_to = number("up_to", request.up_to)?;
    match (up_to, request.ranges.is_empty(), request.hidden) {
        (0, true, _) => Err(Error::invalid("up_to", "must be given, or ranges")),
        (0, false, true) => Err(Error::invalid("hidden", "must not be given with ranges")),
        (0, false, false) => {
            let ranges: Result<Vec<SeqRange>, Error> = request.ranges.iter().map(range).collect();
            Ok(MarkKind::Ranges(ranges?))
        }
        (_, false, _) => Err(Error::invalid("ranges", "must not be given with up_to")),
        (_, true, true) => Ok(MarkKind::Hidden(up_to)),
        (_, true, false) => Ok(MarkKind::UpTo(up_to)),
    }
}

fn range(range: &wire::SeqRange) -> Result<SeqRange, Error> {
    let (first, last) = (range.first, range.last);
    if first < 1 {
        return Err(Error::invalid("ranges.first", "must be above 0"));
    }
    if last < first {
        return Err(Error::invalid("ranges.last", "must not be below first"));
    }
    Ok(SeqRange { first, last })
}

/// The settings that a request changes.
pub(super) fn patch(request: &wire::UpdateDialogRequest, key: DialogKey) -> Result<DialogPatch, Error> {
    let paths = request.update_mask.as_ref().map(|mask| mask.paths.as_slice()).unwrap_or_default();
    if paths.is_empty() {
        return Err(Error::invalid("update_mask", "must name a field"));
    }
    let settings = request.settings.clone().ok_or_else(|| missing("settings"))?;
    let is_direct = matches!(key.conversation, ConversationId::Direct(..));
    let mut patch = DialogPatch::default();
    for path in paths.iter().map(|path| field_path(path)) {
        match path.as_str() {
            "*" => {
                let fields = ALL_FIELDS.iter().filter(|field| !is_direct || **field != "do_not_disturb");
                fields.copied().try_for_each(|field| take_field(&mut patch, &settings, field))?;
            }
            "do_not_disturb" if is_direct => {
                let why = "must not name do_not_disturb of a direct conversation: RelationService.SetDoNotDisturb sets it";
                return Err(Error::invalid("update_mask", why));
            }
            _ => take_field(&mut patch, &settings, &path)?,
        }
    }
    Ok(patch)
}

fn take_field(patch: &mut DialogPatch, settings: &wire::DialogSettings, field: &str) -> Result<(), Error> {
    match field {
        "pinned" => patch.pinned = Some(settings.pinned.then(Timestamp::now)),
        "do_not_disturb" => patch.do_not_disturb = Some(settings.do_not_disturb),
        "marked_unread" => patch.marked_unread = Some(settings.marked_unread),
        "ext" => {
            let ext = Dialog::ext(settings.ext.to_vec());
            patch.ext = Some(ext.map_err(|why| Error::invalid("ext", &why).within("settings"))?);
        }
        _ => {
            let fields = ALL_FIELDS.join(", ");
            return Err(Error::invalid("update_mask", &format!("must name fields out of {fields}, or be *")));
        }
    }
    Ok(())
}

/// The range that a service sets for a user.
pub(super) fn seq_range(request: &wire::SetUserSeqRangeRequest) -> Result<DialogPatch, Error> {
    let min_seq = request.min_seq.map(|min| positive("min_seq", min)).transpose()?;
    let max_seq = request.max_seq.map(|max| number("max_seq", max)).transpose()?;
    Ok(DialogPatch { min_seq: Some(MinSeq::Set(min_seq)), max_seq: Some(max_seq), ..DialogPatch::default() })
}

pub(super) fn positive(field: &'static str, given: i64) -> Result<Seq, Error> {
    if given < 1 { Err(Error::invalid(field, "must be above 0")) } else { Ok(given) }
}

pub(super) fn conversation_to_wire(shown: ShownConversation, principal: Principal) -> wire::Conversation {
    let ShownConversation { dialog, range, unread, more, last, peer, read_seq } = shown;
    let id = dialog.key.conversation;
    wire::Conversation {
        conversation_id: id.to_string(),
        max_seq: if range.max < range.min { 0 } else { range.max },
        min_seq: range.min,
        read_seq,
        peer_read_seq: peer.read_seq,
        unread: count(unread.count),
        unread_more: more,
        first_mention_seq: unread.first_mention.unwrap_or_default(),
        last_message: last.map(|last| message_to_wire(last, id.to_string(), principal)),
        pinned: dialog.pinned.is_some(),
        do_not_disturb: dialog.do_not_disturb || peer.do_not_disturb,
        marked_unread: dialog.marked_unread,
        ext: dialog.ext.clone().into(),
        version: dialog.version.get(),
        settings_version: dialog.settings_version.get(),
    }
}

pub(super) fn settings_to_wire(dialog: &Dialog) -> wire::DialogSettings {
    wire::DialogSettings {
        pinned: dialog.pinned.is_some(),
        do_not_disturb: dialog.do_not_disturb,
        marked_unread: dialog.marked_unread,
        ext: dialog.ext.clone().into(),
    }
}

pub(super) fn counts_to_wire(counts: &[UnreadCount]) -> wire::CountUnreadResponse {
    let total = |muted: bool| {
        let some = counts.iter().filter(|one| one.do_not_disturb == muted);
        count(some.map(|one| one.unread).sum())
    };
    let one = |one: &UnreadCount| wire::UnreadCount {
        conversation_id: one.conversation.to_string(),
        unread: count(one.unread),
        more: one.more,
    };
    wire::CountUnreadResponse {
        counts: counts.iter().map(one).collect(),
        total: total(false),
        muted_total: total(true),
        more: counts.iter().any(|one| one.more),
    }
}

pub(super) fn read_result(
    conversation: ConversationId,
    state: Result<DialogReadState, Error>,
) -> wire::ReadSeqResult {
    let result = match state {
        Ok(state) => ReadAnswer::Read(read_to_wire(&state)),
        Err(error) => ReadAnswer::Error(error.to_result()),
    };
    wire::ReadSeqResult { conversation_id: conversation.to_string(), result: Some(result) }
}

fn read_to_wire(DialogReadState { dialog, peer, read_seq }: &DialogReadState) -> wire::ReadSeqs {
    let range = |range: &SeqRange| wire::SeqRange { first: range.first, last: range.last };
    wire::ReadSeqs {
        read_seq: *read_seq,
        peer_read_seq: peer.read_seq,
        unread_ranges: dialog.read.unread().iter().map(range).collect(),
    }
}

pub(super) fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
