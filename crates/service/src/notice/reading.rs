//! Reads for readers: rights, totals, and notice states.

use std::{collections::HashMap, sync::Arc};

use kith_cache::Consistency;
use kith_store::{Audience, AudienceEntry, Notice, NoticeId, NoticeTotals, ReaderKey, Timestamp};

use super::{NOTICES, NoticeRecords, records::ReaderView};
use crate::{
    error::{Error, valid},
    rpc::call::Principal,
};

/// Whether a reader has read and confirmed a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoticeReadState {
    pub(super) notice: NoticeId,
    pub(super) read: bool,
    pub(super) confirmed: bool,
}

impl ReaderView {
    /// Whether the reader has read and confirmed a notice.
    pub(super) fn state(&self, entry: &AudienceEntry) -> NoticeReadState {
        NoticeReadState {
            notice: entry.notice,
            read: self.bits.has(entry.slot),
            confirmed: entry.confirm_slot.is_some_and(|slot| self.bits.has(slot)),
        }
    }

    /// The notices that the reader sees.
    pub(super) fn visible<'a>(&self, audience: &'a Audience) -> impl Iterator<Item = &'a AudienceEntry> {
        let (since, now) = (self.since, Timestamp::now());
        audience.entries.iter().filter(move |entry| entry.is_visible(since, now))
    }
}

/// Checks that the caller is the reader itself, or a service.
///
/// # Errors
/// PERMISSION_DENIED.
pub(super) fn check_caller(audience: &Audience, key: ReaderKey, principal: Principal) -> Result<(), Error> {
    match principal {
        Principal::Service => Ok(()),
        Principal::User(user) if audience.of_users && user.get() == key.reader.get() => Ok(()),
        Principal::User(_) => Err(Error::not_allowed(
            "requires a service or, in an audience with of_users, the user whose id is reader_id",
        )),
    }
}

impl NoticeRecords {
    /// Reads an audience, and checks that the caller may act for the reader.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn audience_for(
        &self,
        key: ReaderKey,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Arc<Audience>, Error> {
        let audience = self.audience(key.audience, consistency).await?;
        check_caller(&audience, key, principal)?;
        Ok(audience)
    }

    /// Counts a reader's read and unread notices.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn totals(
        &self,
        key: ReaderKey,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<NoticeTotals, Error> {
        let audience = self.audience_for(key, principal, consistency).await?;
        let view = self.view(&audience, key, consistency).await?;
        Ok(NoticeTotals::of(&audience, view.since, &view.bits, Timestamp::now()))
    }

    /// Returns the states for those notices that the reader sees, in the order of the ids.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn states(
        &self,
        key: ReaderKey,
        ids: &[NoticeId],
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Vec<NoticeReadState>, Error> {
        let audience = self.audience_for(key, principal, consistency).await?;
        let view = self.view(&audience, key, consistency).await?;
        let visible: HashMap<NoticeId, &AudienceEntry> =
            view.visible(&audience).map(|entry| (entry.notice, entry)).collect();
        Ok(ids.iter().filter_map(|id| visible.get(id)).map(|entry| view.state(entry)).collect())
    }

    /// Reads one notice for a service, or for a user who sees it in at least one audience.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn notice(
        &self,
        id: NoticeId,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<Arc<Notice>, Error> {
        let notice = self.notices_of(&[id], consistency).await?.pop().flatten();
        let notice = notice.ok_or_else(|| Error::not_found(NOTICES))?;
        let Principal::User(user) = principal else { return Ok(notice) };
        let reader = kith_store::ReaderId::new(user.get());
        let reader = valid("reader_id", reader)?;
        for audience in &notice.audiences {
            let found = self.audiences.get_with(audience, consistency).await;
            let found = found.map_err(|error| Error::cache(NOTICES, &error))?;
            let Some(audience) = found.map(|entry| entry.value).filter(|audience| audience.of_users) else {
                continue;
            };
            let key = ReaderKey { audience: audience.id, reader };
            let view = self.view(&audience, key, consistency).await?;
            let is_visible = view.visible(&audience).any(|entry| entry.notice == id);
            if is_visible {
                return Ok(notice);
            }
        }
        Err(Error::not_found(NOTICES))
    }
}
