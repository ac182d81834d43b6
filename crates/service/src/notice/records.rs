//! Reads audiences, notices and readers through this node's tiers.

use std::sync::Arc;

use futures::FutureExt as _;
use kith_cache::{Consistency, TieredCache};
use kith_store::{
    Audience, AudienceId, IdKind, Notice, NoticeId, NoticeReader, NoticeReaderStore, NoticeStore, ReadBits,
    ReaderKey, SINCE_CREATION, StoreError, Timestamp, UserId,
};

use super::{AUDIENCES, NOTICES, NoticesConfig, READERS, ReaderCounts, cache::NoticePolicies};
use crate::{
    domain_context::DomainContext,
    error::{Error, valid},
    rpc::{
        secret::SecretHasher,
        versions::{loaded_all, loaded_live},
    },
    user::Users,
    write::{ids::Ids, mutations::Mutations, record_codec::RecordCodec},
};

/// How many notice ids are reserved at a time.
const ID_BLOCK: u32 = 100;

/// Audiences, notices and readers of a deployment, through this node's tiers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NoticeRecords {
    pub(super) audiences: TieredCache<AudienceId, Audience>,
    pub(super) notices: TieredCache<NoticeId, Notice>,
    pub(super) readers: TieredCache<ReaderKey, NoticeReader>,
    pub(super) store: Arc<dyn NoticeStore>,
    pub(super) reader_store: Arc<dyn NoticeReaderStore>,
    pub(super) mutations: Mutations,
    pub(super) hasher: SecretHasher,
    pub(super) users: Users,
    pub(super) ids: Arc<Ids>,
    pub(super) counts: ReaderCounts,
    pub(super) config: NoticesConfig,
}

/// The state that decides which notices a reader sees and has read.
#[derive(Clone, Debug)]
pub(super) struct ReaderView {
    /// The reader sees notices that were published at or after this time.
    pub(super) since: Timestamp,
    pub(super) bits: ReadBits,
}

impl NoticeRecords {
    /// Creates it with its own namespaces in the tiers.
    #[must_use]
    pub fn new(
        context: DomainContext<'_>,
        policies: NoticePolicies,
        users: Users,
        counts: ReaderCounts,
        config: NoticesConfig,
    ) -> Self {
        let DomainContext { stores, caches, mutations, hasher } = context;
        let (store, reader_store) = (Arc::clone(&stores.notices), Arc::clone(&stores.notice_readers));
        Self {
            audiences: caches.records(policies.audiences, RecordCodec::AUDIENCE, &store, |store, ids, options| {
                async move { loaded_live(store.audiences(ids, options.strong).await, |audience| audience.id) }
                    .boxed()
            }),
            notices: caches.records(policies.notices, RecordCodec::NOTICE, &store, |store, ids, options| {
                async move { loaded_all(store.notices(ids, options.strong).await) }.boxed()
            }),
            readers: caches.records(policies.readers, RecordCodec::READER, &reader_store, |store, keys, options| {
                async move { loaded_live(store.readers(keys, options.strong).await, |reader| reader.key) }.boxed()
            }),
            store,
            reader_store,
            mutations: mutations.clone(),
            hasher: hasher.clone(),
            users,
            ids: Arc::new(Ids::new(Arc::clone(&stores.node), IdKind::Notice, ID_BLOCK)),
            counts,
            config,
        }
    }

    /// Reads an audience.
    ///
    /// # Errors
    /// NOT_FOUND, or errors of the store.
    pub(super) async fn audience(
        &self,
        id: AudienceId,
        consistency: &Consistency,
    ) -> Result<Arc<Audience>, Error> {
        let found = self.audiences.get_with(&id, consistency).await;
        let found = found.map_err(|error| Error::cache(AUDIENCES, &error))?;
        found.map(|entry| entry.value).ok_or_else(|| Error::not_found(AUDIENCES))
    }

    /// Reads notices, in the order of the ids; `None` for a notice that does not exist.
    pub(super) async fn notices_of(
        &self,
        ids: &[NoticeId],
        consistency: &Consistency,
    ) -> Result<Vec<Option<Arc<Notice>>>, Error> {
        let found = self.notices.get_many(ids, consistency).await.into_iter();
        let notice = |found: Result<Option<kith_cache::Entry<Notice>>, _>| {
            let found = found.map_err(|error| Error::cache(NOTICES, &error))?;
            Ok(found.map(|entry| entry.value))
        };
        found.map(notice).collect()
    }

    /// A reader's visibility and read bits in an audience. A reader that is not registered has read nothing.
    /// For a forgotten reader, the user must exist.
    ///
    /// # Errors
    /// NOT_FOUND if the reader is a user that does not exist, or errors of the store.
    pub(super) async fn view(
        &self,
        audience: &Audience,
        key: ReaderKey,
        consistency: &Consistency,
    ) -> Result<ReaderView, Error> {
        let found = self.readers.get_with(&key, consistency).await;
        let found = found.map_err(|error| Error::cache(READERS, &error))?;
        let since = match found.as_ref().map(|entry| entry.value.since) {
            Some(since) if since != SINCE_CREATION => since,
            _ => self.since_of_new(audience, key).await?,
        };
        Ok(ReaderView { since, bits: found.map(|entry| entry.value.bits.clone()).unwrap_or_default() })
    }

    /// The `since` for a reader that is not registered: the user's creation time, or 0 if readers are not
    /// users.
    pub(super) async fn since_of_new(&self, audience: &Audience, key: ReaderKey) -> Result<Timestamp, Error> {
        if !audience.of_users {
            return Ok(Timestamp(0));
        }
        let user = valid("reader_id", UserId::new(key.reader.get()))?;
        Ok(self.users.get(user, &Consistency::Cached).await?.value.created)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn notice_error(error: StoreError) -> Error {
    Error::store(NOTICES, &error)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
pub(super) fn reader_error(error: StoreError) -> Error {
    Error::store(READERS, &error)
}
