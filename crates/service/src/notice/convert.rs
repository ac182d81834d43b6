//! Converts notices between wire and domain. Other modules see no unchecked numbers and strings from a
//! request.

use std::collections::BTreeSet;

use kith_proto::notice::v1 as wire;
use kith_store::{
    Audience, AudienceId, Invalid, NOTICE_AUDIENCES_MAX, NewAudience, NewNotice, Notice, NoticeId,
    NoticePatch, NoticeTerms, NoticeTotals, ParamsPatch, READERS_AT_ONCE, ReaderId, ReaderKey, Text,
    Timestamp, prose, single_line,
};

use super::{listing::ListedNotice, reader_lists::ReaderState, reading::NoticeReadState};
use crate::{
    error::{Error, valid},
    rpc::{
        batch::{check_count, missing},
        params::{field_path, params, take_param, unknown_path},
        versions::{moment, wire_time},
    },
};

/// The most notices in a mark, or in a read of states.
const NOTICES_AT_ONCE: usize = 1_000;
const NAME_CHARS_MAX: usize = 64;
/// The fields that the mask `*` names.
const ALL_FIELDS: [&str; 8] =
    ["title", "body", "params", "audience_ids", "publish_time", "expire_time", "pinned", "for_newcomers"];

pub(super) fn audience_id(field: &'static str, id: i32) -> Result<AudienceId, Error> {
    valid(field, AudienceId::new(id.into()))
}

pub(super) fn notice_id(id: i64) -> Result<NoticeId, Error> {
    valid("notice_id", NoticeId::new(id))
}

pub(super) fn reader_key(audience: i32, reader: i64) -> Result<ReaderKey, Error> {
    let audience = audience_id("audience_id", audience)?;
    Ok(ReaderKey { audience, reader: reader_id("reader_id", reader)? })
}

pub(super) fn reader_id(field: &'static str, id: i64) -> Result<ReaderId, Error> {
    valid(field, ReaderId::new(id))
}

/// A request's ids: at most `max`, or [`NOTICES_AT_ONCE`] if it is `None`.
pub(super) fn notice_ids(ids: &[i64], max: Option<usize>) -> Result<Vec<NoticeId>, Error> {
    check_count("notice_ids", ids.len(), max.unwrap_or(NOTICES_AT_ONCE))?;
    ids.iter().map(|id| valid("notice_ids", NoticeId::new(*id))).collect()
}

pub(super) fn new_audience(audience: Option<&wire::Audience>) -> Result<NewAudience, Error> {
    let audience = audience.ok_or_else(|| missing("audience"))?;
    let name = single_line(&audience.name, NAME_CHARS_MAX)
        .and_then(|name| if name.is_empty() { Err(Invalid::new("must not be empty")) } else { Ok(name) });
    Ok(NewAudience {
        id: audience_id("audience_id", audience.audience_id)?,
        name: valid("name", name)?,
        of_users: audience.of_users,
    })
}

pub(super) fn new_readers(
    readers: &[wire::Reader],
    now: Timestamp,
) -> Result<Vec<(ReaderId, Timestamp)>, Error> {
    check_count("readers", readers.len(), READERS_AT_ONCE)?;
    let reader = |reader: &wire::Reader| {
        let since = reader.since.as_ref().map(|since| moment("since", since)).transpose()?;
        Ok((reader_id("reader_id", reader.reader_id)?, since.unwrap_or(now)))
    };
    readers.iter().map(reader).collect()
}

/// A notice to publish, and its id if the caller chose an id.
pub(super) fn new_notice(
    notice: &wire::Notice,
    body_bytes: usize,
    now: Timestamp,
) -> Result<(Option<NoticeId>, NewNotice), Error> {
    let id = (notice.notice_id != 0).then(|| notice_id(notice.notice_id)).transpose()?;
    let new = NewNotice {
        title: title(&notice.title)?,
        body: body(&notice.body, body_bytes)?,
        params: params(notice.params.clone())?,
        audiences: audience_ids(&notice.audience_ids)?,
        terms: NoticeTerms {
            publish: publish_time(notice, now)?,
            expire: expire_time(notice)?,
            pinned: notice.pinned,
            must_confirm: notice.must_confirm,
            for_newcomers: notice.for_newcomers,
        },
    };
    Ok((id, new))
}

/// The changes to the fields that a mask names.
pub(super) fn patch(
    notice: &wire::Notice,
    paths: &[String],
    body_bytes: usize,
    now: Timestamp,
) -> Result<NoticePatch, Error> {
    let mut patch = NoticePatch::default();
    for path in paths.iter().map(|path| field_path(path)) {
        match path.as_str() {
            "*" => {
                for field in ALL_FIELDS {
                    take_field(&mut patch, field, notice, body_bytes, now)?;
                }
            }
            path => take_field(&mut patch, path, notice, body_bytes, now)?,
        }
    }
    Ok(patch)
}

fn take_field(
    patch: &mut NoticePatch,
    path: &str,
    notice: &wire::Notice,
    body_bytes: usize,
    now: Timestamp,
) -> Result<(), Error> {
    match path {
        "title" => patch.title = Some(title(&notice.title)?),
        "body" => patch.body = Some(body(&notice.body, body_bytes)?),
        "params" => {
            let set = params(notice.params.clone())?;
            patch.params = ParamsPatch { set, replace: true, ..ParamsPatch::default() };
        }
        "audience_ids" => patch.audiences = Some(audience_ids(&notice.audience_ids)?),
        "publish_time" => patch.publish = Some(publish_time(notice, now)?),
        "expire_time" => patch.expire = Some(expire_time(notice)?),
        "pinned" => patch.pinned = Some(notice.pinned),
        "for_newcomers" => patch.for_newcomers = Some(notice.for_newcomers),
        other => match other.strip_prefix("params.") {
            Some(key) => take_param(&mut patch.params, &notice.params, key)?,
            None => return Err(unknown_path(&ALL_FIELDS)),
        },
    }
    Ok(())
}

/// The audiences from which a notice is removed. Empty: all.
pub(super) fn some_audiences(ids: &[i32]) -> Result<Vec<AudienceId>, Error> {
    check_count("audience_ids", ids.len(), NOTICE_AUDIENCES_MAX)?;
    ids.iter().map(|id| audience_id("audience_ids", *id)).collect()
}

pub(super) fn reader_state(state: i32) -> Result<ReaderState, Error> {
    match wire::ReaderState::try_from(state) {
        Ok(wire::ReaderState::Read) => Ok(ReaderState::Read),
        Ok(wire::ReaderState::Unread) => Ok(ReaderState::Unread),
        Ok(wire::ReaderState::Confirmed) => Ok(ReaderState::Confirmed),
        Ok(wire::ReaderState::Unconfirmed) => Ok(ReaderState::Unconfirmed),
        Ok(wire::ReaderState::Unspecified) | Err(_) => {
            Err(Error::invalid("state", "must be one of read, unread, confirmed and unconfirmed"))
        }
    }
}

pub(super) fn audience_to_wire(audience: &Audience) -> wire::Audience {
    wire::Audience {
        audience_id: audience.id.get(),
        name: audience.name.to_string(),
        of_users: audience.of_users,
        version: audience.version.get(),
        notices: i32::try_from(audience.entries.len()).unwrap_or(i32::MAX),
        create_time: Some(wire_time(audience.created)),
    }
}

pub(super) fn notice_to_wire(notice: &Notice) -> wire::Notice {
    let NoticeTerms { publish, expire, pinned, must_confirm, for_newcomers } = notice.terms;
    wire::Notice {
        notice_id: notice.id.get(),
        title: notice.title.to_string(),
        body: notice.body.to_string(),
        params: notice.params.to_map(),
        audience_ids: notice.audiences.iter().map(|id| id.get()).collect(),
        publish_time: Some(wire_time(publish)),
        expire_time: expire.map(wire_time),
        pinned,
        must_confirm,
        for_newcomers,
        revision: notice.revision,
        version: notice.version.get(),
        create_time: Some(wire_time(notice.created)),
        update_time: Some(wire_time(notice.updated)),
    }
}

pub(super) fn listed_to_wire(listed: &ListedNotice) -> wire::ListedNotice {
    wire::ListedNotice {
        notice: Some(notice_to_wire(&listed.notice)),
        read: listed.state.read,
        confirmed: listed.state.confirmed,
    }
}

pub(super) fn state_to_wire(state: NoticeReadState) -> wire::ReadState {
    wire::ReadState { notice_id: state.notice.get(), read: state.read, confirmed: state.confirmed }
}

pub(super) fn totals_to_wire(totals: NoticeTotals) -> wire::Totals {
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    wire::Totals {
        read: count(totals.read),
        unread: count(totals.unread),
        unconfirmed: count(totals.unconfirmed),
    }
}

fn title(title: &str) -> Result<Text, Error> {
    valid("title", Notice::check_title(title))
}

fn body(body: &str, bytes: usize) -> Result<Text, Error> {
    if body.len() > bytes {
        return Err(Error::invalid("body", &format!("must have at most {bytes} bytes")));
    }
    valid("body", prose(body, bytes))
}

fn audience_ids(ids: &[i32]) -> Result<Vec<AudienceId>, Error> {
    let ids = some_audiences(ids)?;
    let distinct: BTreeSet<AudienceId> = ids.iter().copied().collect();
    if ids.is_empty() || distinct.len() < ids.len() {
        let why = format!("must hold from 1 to {NOTICE_AUDIENCES_MAX} audiences, each once");
        return Err(Error::invalid("audience_ids", &why));
    }
    Ok(ids)
}

fn publish_time(notice: &wire::Notice, now: Timestamp) -> Result<Timestamp, Error> {
    let publish = notice.publish_time.as_ref().map(|publish| moment("publish_time", publish)).transpose()?;
    Ok(publish.unwrap_or(now))
}

fn expire_time(notice: &wire::Notice) -> Result<Option<Timestamp>, Error> {
    notice.expire_time.as_ref().map(|expire| moment("expire_time", expire)).transpose()
}
