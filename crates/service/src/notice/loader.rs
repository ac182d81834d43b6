//! Loads audiences, notices and readers.

use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{
    Audience, AudienceId, Notice, NoticeId, NoticeReader, NoticeReaderStore, NoticeStore, ReaderKey,
};

use crate::rpc::versions::{loaded_all, loaded_live};

/// Loads audiences from the store into the tiers.
#[derive(Debug)]
pub(super) struct AudienceLoader(pub(super) Arc<dyn NoticeStore>);

#[async_trait]
impl Loader<AudienceId, Audience> for AudienceLoader {
    async fn load_many(
        &self,
        ids: &[AudienceId],
        options: LoadOptions,
    ) -> Result<Vec<(AudienceId, Loaded<Audience>)>, LoadError> {
        loaded_live(self.0.audiences(ids, options.strong).await, |audience| audience.id)
    }
}

/// Loads notices from the store into the tiers.
#[derive(Debug)]
pub(super) struct NoticeLoader(pub(super) Arc<dyn NoticeStore>);

#[async_trait]
impl Loader<NoticeId, Notice> for NoticeLoader {
    async fn load_many(
        &self,
        ids: &[NoticeId],
        options: LoadOptions,
    ) -> Result<Vec<(NoticeId, Loaded<Notice>)>, LoadError> {
        loaded_all(self.0.notices(ids, options.strong).await)
    }
}

/// Loads readers from the store into the tiers.
#[derive(Debug)]
pub(super) struct ReaderLoader(pub(super) Arc<dyn NoticeReaderStore>);

#[async_trait]
impl Loader<ReaderKey, NoticeReader> for ReaderLoader {
    async fn load_many(
        &self,
        keys: &[ReaderKey],
        options: LoadOptions,
    ) -> Result<Vec<(ReaderKey, Loaded<NoticeReader>)>, LoadError> {
        loaded_live(self.0.readers(keys, options.strong).await, |reader| reader.key)
    }
}
