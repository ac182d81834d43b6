//! Pages of the notices of an audience.

use std::sync::Arc;

use kith_cache::Consistency;
use kith_store::{Audience, AudienceEntry, AudienceId, Notice, NoticeId, ReadBits, ReaderKey, Timestamp};

use super::{NoticeRecords, reading::ReadState, records::ReaderView};
use crate::{
    error::Error,
    rpc::call::{Principal, only_services},
};

/// The place of a notice in a list: whether it is pinned, its publish time, its id.
pub(super) type NoticePlace = [i64; 3];

/// A notice of a list, with what the reader did with it.
#[derive(Clone, Debug)]
pub(super) struct ListedNotice {
    pub(super) notice: Arc<Notice>,
    pub(super) state: ReadState,
    pub(super) place: NoticePlace,
}

/// A part of a list.
#[derive(Clone, Debug)]
pub(super) struct NoticePage {
    pub(super) notices: Vec<ListedNotice>,
    /// The place of the last one that was looked at, if there are more.
    pub(super) more: Option<NoticePlace>,
}

impl NoticeRecords {
    /// Reads notices of an audience after a place, at most `size`: those that a reader sees, or all for a service.
    ///
    /// # Errors
    /// NOT_FOUND, PERMISSION_DENIED, or those of a failing store.
    pub(super) async fn list(
        &self,
        audience: AudienceId,
        reader: Option<kith_store::ReaderId>,
        after: Option<NoticePlace>,
        size: usize,
        (principal, consistency): (Principal, &Consistency),
    ) -> Result<NoticePage, Error> {
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
        entries.retain(|entry| after.is_none_or(|after| place(entry) < after));
        let more = entries.get(size).and_then(|_| entries.get(size.saturating_sub(1))).map(place);
        entries.truncate(size);
        let ids: Vec<NoticeId> = entries.iter().map(|entry| entry.notice).collect();
        let found = self.notices_of(&ids, consistency).await?;
        let view = view.unwrap_or_else(|| ReaderView { since: Timestamp(0), bits: ReadBits::default() });
        // One that was deleted meanwhile is left out.
        let listed = entries.iter().zip(found).filter_map(|(entry, notice)| {
            Some(ListedNotice { notice: notice?, state: view.state(entry), place: place(entry) })
        });
        Ok(NoticePage { notices: listed.collect(), more })
    }
}

/// What a reader sees, or all that has not expired, in the order of the list.
fn entries(audience: &Audience, view: Option<&ReaderView>) -> Vec<AudienceEntry> {
    match view {
        Some(view) => view.visible(audience).copied().collect(),
        None => {
            let now = Timestamp::now();
            audience.entries.iter().filter(|entry| !entry.is_expired(now)).copied().collect()
        }
    }
}

/// Falls along the list.
fn place(entry: &AudienceEntry) -> NoticePlace {
    [i64::from(entry.pinned), entry.publish.0, entry.notice.get()]
}
