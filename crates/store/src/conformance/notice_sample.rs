//! Audiences, notices and readers that the cases start from.

use super::sample::{applied, write};
use crate::{
    Audience, AudienceId, MarkedReader, NewAudience, NewNotice, Notice, NoticeChange, NoticeChangeResult,
    NoticeId, NoticeReader, NoticeTerms, Params, ReaderId, ReaderKey, ReaderMark, Slot, Stored, Stores,
    Timestamp,
};

/// A limit that no case reaches.
pub(super) const MANY: usize = 1_000;
pub(super) const READERS: u32 = 1_000_000;

pub(super) fn audience_id(number: i64) -> AudienceId {
    AudienceId::new(number).unwrap()
}

pub(super) fn notice_id(number: i64) -> NoticeId {
    NoticeId::new(number).unwrap()
}

pub(super) fn reader_key(audience: i64, reader: i64) -> ReaderKey {
    ReaderKey { audience: audience_id(audience), reader: ReaderId::new(reader).unwrap() }
}

pub(super) fn new_audience(id: i64, name: &str) -> NewAudience {
    NewAudience { id: audience_id(id), name: name.into(), of_users: false }
}

/// Registers audiences without a notice.
pub(super) async fn register(stores: &Stores, ids: &[i64]) {
    for id in ids {
        let audience = new_audience(*id, &format!("audience {id}"));
        applied(stores.notices.register_audience(audience, MANY, write()).await.unwrap());
    }
}

pub(super) async fn audience(stores: &Stores, id: i64) -> Audience {
    let found = stores.notices.audiences(&[audience_id(id)], false).await.unwrap();
    assert_eq!(found, stores.notices.audiences(&[audience_id(id)], true).await.unwrap());
    found.into_iter().next().unwrap()
}

pub(super) async fn notice(stores: &Stores, id: i64) -> Stored<Notice> {
    let found = stores.notices.notices(&[notice_id(id)], false).await.unwrap();
    let strong = stores.notices.notices(&[notice_id(id)], true).await.unwrap();
    assert_eq!(found, strong);
    found.into_iter().next().map_or(Stored::Never, |(_, notice)| notice)
}

/// The ids of an audience's notices, in the order in which they are listed.
pub(super) async fn listed(stores: &Stores, id: i64) -> Vec<i64> {
    audience(stores, id).await.entries.iter().map(|entry| entry.notice.get()).collect()
}

/// A notice that was published some time ago and does not expire.
pub(super) fn new_notice(audiences: &[i64]) -> NewNotice {
    let publish = Timestamp(1_000);
    NewNotice {
        title: "Maintenance".into(),
        body: "On Sunday from 2 to 4\n'; DROP TABLE notices;-- $set \u{1F600}".into(),
        params: Params::default(),
        audiences: audiences.iter().map(|id| audience_id(*id)).collect(),
        terms: NoticeTerms {
            publish,
            expire: None,
            pinned: false,
            must_confirm: false,
            for_newcomers: false,
        },
    }
}

/// Makes a change without a condition.
pub(super) async fn change(stores: &Stores, id: i64, change: NoticeChange) -> NoticeChangeResult {
    applied(stores.notices.change_notice(notice_id(id), change, MANY, write()).await.unwrap())
}

pub(super) async fn publish(stores: &Stores, id: i64, new: NewNotice) -> Notice {
    change(stores, id, NoticeChange::Publish(new)).await.notice.unwrap()
}

/// Registers readers in audience 1, who have always been there.
pub(super) async fn register_readers(stores: &Stores, readers: &[i64]) -> Vec<NoticeReader> {
    let readers: Vec<_> = readers.iter().map(|id| (ReaderId::new(*id).unwrap(), Timestamp(0))).collect();
    stores.notice_readers.register_readers(audience_id(1), &readers, READERS).await.unwrap()
}

/// The reader as it is stored; `None`: it is not registered.
pub(super) async fn reader(stores: &Stores, key: ReaderKey) -> Option<NoticeReader> {
    let found = stores.notice_readers.readers(&[key], false).await.unwrap();
    assert_eq!(found, stores.notice_readers.readers(&[key], true).await.unwrap());
    found.into_iter().next()
}

/// Makes a registered reader's mark.
pub(super) async fn mark(stores: &Stores, key: ReaderKey, mark: ReaderMark) -> MarkedReader {
    let marked = stores.notice_readers.mark_reader(key, mark, &[]).await.unwrap().unwrap();
    assert_eq!(reader(stores, key).await.as_ref(), Some(&marked.reader));
    marked
}

pub(super) fn slots(reader: &NoticeReader) -> Vec<Slot> {
    reader.bits.slots().collect()
}
