//! Lists an audience's notices in pages.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_store::{
    Audience, AudienceEntry, AudienceId, Notice, NoticeId, ReadBits, ReaderId, ReaderKey, Timestamp,
};

use super::{NoticeRecords, reading::NoticeReadState, records::ReaderView};
use crate::{
    error::Error,
    rpc::call::{Principal, only_services},
};

/// A notice's position in a list: whether it is pinned (1 or 0), its publish time, its id.
pub(super) type NoticePosition = [i64; 3];

/// A notice in a list, with the reader's marks.
#[derive(Clone, Debug)]
pub(super) struct ListedNotice {
    pub(super) notice: Arc<Notice>,
    pub(super) state: NoticeReadState,
    pub(super) position: NoticePosition,
}

/// The list page that a call requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoticeListRequest {
    pub(super) audience: AudienceId,
    /// `None`: all notices, for a service.
    pub(super) reader: Option<ReaderId>,
    /// `None`: from the beginning.
    pub(super) after: Option<NoticePosition>,
    /// Maximum notices.
    pub(super) size: usize,
}

/// A page of notices.
#[derive(Clone, Debug)]
pub(super) struct NoticePage {
    pub(super) notices: Vec<ListedNotice>,
    /// The last examined notice's position, if more follow.
    pub(super) more: Option<NoticePosition>,
}

impl NoticeRecords {
    /// Reads an audience's notices after a position, at most `size`: notices that a reader sees, or all for a
    /// service.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or errors of the store.
    pub(super) async fn list(
        &self,
        request: NoticeListRequest,
        principal: Principal,
        consistency: &Consistency,
    ) -> Result<NoticePage, Error> {
        let NoticeListRequest { audience, reader, after, size } = request;
        let (audience, view) = match reader {
            Some(reader) => {
                let key = ReaderKey { audience, reader };
                let audience = self.audience_for(key, principal, consistency).await?;
                let view = self.view(&audience, key, consistency).await?;
                (audience, Some(view))
            }
            None => {
                only_services(principal)?;
                (self.audience(audience, consistency).await?, None)
            }
        };
        let mut entries = entries(&audience, view.as_ref());
        entries.retain(|entry| after.is_none_or(|after| position(entry) < after));
        let more = entries.get(size).and_then(|_| entries.get(size.saturating_sub(1))).map(position);
        entries.truncate(size);
        let ids: Vec<NoticeId> = entries.iter().map(|entry| entry.notice).collect();
        let found = self.notices_of(&ids, consistency).await?;
        let view = view.unwrap_or_else(|| ReaderView { since: Timestamp(0), bits: ReadBits::default() });
        // A notice that was deleted in between is left out.
        let listed = entries.iter().zip(found).filter_map(|(entry, notice)| {
            Some(ListedNotice { notice: notice?, state: view.state(entry), position: position(entry) })
        });
        Ok(NoticePage { notices: listed.collect(), more })
    }
}

/// The notices that a reader sees, or all that have not expired, in the list's order.
fn entries(audience: &Audience, view: Option<&ReaderView>) -> Vec<AudienceEntry> {
    match view {
        Some(view) => view.visible(audience).copied().collect(),
        None => {
            let now = Timestamp::now();
            audience.entries.iter().filter(|entry| !entry.is_expired(now)).copied().collect()
        }
    }
}

/// Places descend along the list.
fn position(entry: &AudienceEntry) -> NoticePosition {
    [i64::from(entry.pinned), entry.publish.0, entry.notice.get()]
}
