//! Receivers' requests and responses between the wire and the domain.

use std::collections::hash_map::Entry;

use kith_delivery::Note;
use kith_proto::message::v1::{
    self as wire, ApplicationChanged, ContactChanged, DialogChanged, GroupChanged, Signal, SignalKind,
    application_changed::Receiver as Deciding, delivery::What, note::What as Noted, signal::What as Signaled,
};
use kith_store::{
    ApplicationKey, AudienceId, ConversationId, NoticeTotals, Receipt, ReceiptCounts, Receiver, Seq, UserId,
};
use prost::{Message as _, bytes::Bytes};

use super::{
    super::{conversation, dialog, number},
    cursor::SeqFloors,
};
use crate::{
    error::{Error, valid},
    notice::AudienceTotals,
    rpc::{batch::check_count, call::Principal},
};

/// The most positions in a request.
const POSITIONS_MAX: usize = 2_000;
/// The most notice audiences in a request.
const AUDIENCES_MAX: usize = 8;
/// Longest device name: the node appends a suffix that distinguishes two streams on one device.
const DEVICE_CHARS_MAX: usize = 48;
/// Longest cursor, in characters.
const CURSOR_CHARS_MAX: usize = 4_096;

/// A stream's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamRequest {
    pub(super) user: UserId,
    pub(super) cursor: String,
    pub(super) positions: SeqFloors,
    pub(super) now: bool,
    /// The audiences, each once.
    pub(super) notice_audiences: Vec<AudienceId>,
    /// The device whose session the stream is.
    pub(super) device: Option<String>,
}

/// A signal to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Activity {
    pub(super) user: UserId,
    pub(super) conversation: ConversationId,
    pub(super) kind: SignalKind,
}

/// The start that a request names.
///
/// # Errors
/// INVALID_ARGUMENT, PERMISSION_DENIED.
pub(super) fn stream_request(
    request: wire::ReceiveRequest,
    principal: Principal,
) -> Result<StreamRequest, Error> {
    let user = dialog::user(request.user_id, principal)?;
    if request.cursor.len() > CURSOR_CHARS_MAX {
        return Err(Error::invalid("cursor", &format!("must have at most {CURSOR_CHARS_MAX} characters")));
    }
    let positions = positions(&request.positions)?;
    if request.now && !(request.cursor.is_empty() && positions.is_empty()) {
        return Err(Error::invalid("now", "must not be set together with cursor or positions"));
    }
    let notice_audiences = audiences(&request.notice_audiences)?;
    let device = device(request.device)?;
    Ok(StreamRequest { user, cursor: request.cursor, positions, now: request.now, notice_audiences, device })
}

fn device(given: String) -> Result<Option<String>, Error> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if given.len() > DEVICE_CHARS_MAX || !given.bytes().all(allowed) {
        let why = format!("must be at most {DEVICE_CHARS_MAX} letters, digits, '.', '_' or '-'");
        return Err(Error::invalid("device", &why));
    }
    Ok(Some(given).filter(|device| !device.is_empty()))
}

fn audiences(ids: &[i32]) -> Result<Vec<AudienceId>, Error> {
    check_count("notice_audiences", ids.len(), AUDIENCES_MAX)?;
    let mut audiences = Vec::with_capacity(ids.len());
    for id in ids {
        let audience = valid("notice_audiences", AudienceId::new((*id).into()))?;
        if audiences.contains(&audience) {
            return Err(Error::invalid("notice_audiences", "must have each audience once"));
        }
        audiences.push(audience);
    }
    Ok(audiences)
}

fn positions(positions: &[wire::Position]) -> Result<SeqFloors, Error> {
    check_count("positions", positions.len(), POSITIONS_MAX)?;
    let mut floors = SeqFloors::with_capacity(positions.len());
    for position in positions {
        let conversation = conversation(&position.conversation_id).map_err(|_| {
            Error::invalid("positions.conversation_id", "must be a conversation, as d7-8 or g9")
        })?;
        let seq = number("positions.seq", position.seq)?;
        match floors.entry(conversation) {
            Entry::Vacant(place) => place.insert(seq),
            Entry::Occupied(_) => {
                return Err(Error::invalid("positions", "must have each conversation once"));
            }
        };
    }
    Ok(floors)
}

/// A request's signal.
///
/// # Errors
/// INVALID_ARGUMENT, PERMISSION_DENIED.
pub(super) fn activity(request: &wire::SendSignalRequest, principal: Principal) -> Result<Activity, Error> {
    let user = dialog::user(request.user_id, principal)?;
    let conversation = conversation(&request.conversation_id)?;
    let kind = match request.kind() {
        SignalKind::Unspecified => {
            return Err(Error::invalid("kind", "must be a signal that this node knows"));
        }
        kind => kind,
    };
    Ok(Activity { user, conversation, kind })
}

/// A signal about a user's activity, in the form of wakes.
pub(super) fn activity_to_bytes(activity: Activity) -> Bytes {
    let what = Signaled::Activity(activity.kind.into());
    to_bytes(activity.conversation, activity.user, what)
}

/// A signal about a user's read mark, in the form of wakes.
pub(in crate::message) fn read_to_bytes(conversation: ConversationId, user: UserId, read_seq: Seq) -> Bytes {
    to_bytes(conversation, user, Signaled::ReadSeq(read_seq))
}

/// A signal about a user's changed profile, in the form of wakes. It is about no conversation.
pub(in crate::message) fn profile_to_bytes(user: UserId) -> Bytes {
    let what = Some(Signaled::Profile(wire::ProfileChanged {}));
    Signal { conversation_id: String::new(), user_id: user.get(), what }.encode_to_vec().into()
}

/// A signal about how many have read a user's messages, in the form of wakes.
pub(in crate::message) fn receipts_to_bytes(
    conversation: ConversationId,
    user: UserId,
    receipts: &[Receipt],
) -> Bytes {
    let count = |receipt: &Receipt| {
        let ReceiptCounts { read, unread, left } = receipt.counts();
        let (read, unread, left) = (read.into(), unread.into(), left.into());
        wire::ReceiptCount { seq: receipt.seq(), read, unread, left }
    };
    let counts = receipts.iter().map(count).collect();
    to_bytes(conversation, user, Signaled::Receipts(wire::ReceiptCounts { counts }))
}

/// A signal about changed reactions to a message, in the form of wakes.
pub(in crate::message) fn reactions_to_bytes(conversation: ConversationId, user: UserId, seq: Seq) -> Bytes {
    to_bytes(conversation, user, Signaled::Reactions(wire::ReactionsChanged { seq }))
}

fn to_bytes(conversation: ConversationId, user: UserId, what: Signaled) -> Bytes {
    let conversation_id = conversation.to_string();
    Signal { conversation_id, user_id: user.get(), what: Some(what) }.encode_to_vec().into()
}

/// The signal that a wake carried; `None`: this program does not know it.
pub(super) fn signal(bytes: &Bytes) -> Option<What> {
    let signal = Signal::decode(bytes.clone()).ok()?;
    signal.what.is_some().then_some(What::Signal(signal))
}

/// A user's totals in an audience, as they are sent.
pub(super) fn totals(totals: AudienceTotals) -> What {
    let NoticeTotals { read, unread, unconfirmed } = totals.totals;
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    What::NoticeTotals(wire::NoticeTotals {
        audience_id: totals.audience.get(),
        read: number(read),
        unread: number(unread),
        unconfirmed: number(unconfirmed),
    })
}

/// The note as it is sent; `None`: this program does not know it.
pub(super) fn note(note: Note) -> Option<wire::Note> {
    let what = match note {
        Note::Dialog { conversation, read_seq } => {
            Noted::Dialog(DialogChanged { conversation_id: conversation.to_string(), read_seq })
        }
        Note::ContactAdded { user } => Noted::FollowerAdded(ContactChanged { user_id: user.get() }),
        Note::ContactEnded { user } => Noted::FollowerRemoved(ContactChanged { user_id: user.get() }),
        Note::GroupJoined { group } => Noted::GroupJoined(GroupChanged { group_id: group.get() }),
        Note::GroupLeft { group } => Noted::GroupLeft(GroupChanged { group_id: group.get() }),
        Note::GroupChanged { group } => Noted::GroupChanged(GroupChanged { group_id: group.get() }),
        Note::Application(ApplicationKey { receiver, id }) => {
            let receiver = match receiver {
                Receiver::User(user) => Deciding::UserId(user.get()),
                Receiver::Group(group) => Deciding::GroupId(group.get()),
            };
            Noted::Application(ApplicationChanged { receiver: Some(receiver), application_id: id.get() })
        }
        _ => return None,
    };
    Some(wire::Note { what: Some(what) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_comes_back_from_its_bytes() {
        let user = UserId::new(7).unwrap();
        let conversation = "d7-8".parse().unwrap();
        let activity = Activity { user, conversation, kind: SignalKind::Typing };
        let Some(What::Signal(signaled)) = signal(&activity_to_bytes(activity)) else { panic!("a signal") };
        assert_eq!(signaled.what, Some(Signaled::Activity(SignalKind::Typing.into())));
        assert!(signal(&read_to_bytes(conversation, user, 5)).is_some());
        assert_eq!(signal(&Bytes::from_static(b"\xff")), None);
        assert_eq!(signal(&Bytes::new()), None, "a kind of a later version");
    }
}
