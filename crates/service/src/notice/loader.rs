use std::sync::Arc;

use async_trait::async_trait;
use kith_cache::{LoadError, LoadOptions, Loaded, Loader};
use kith_store::{
    Audience, AudienceId, Notice, NoticeId, NoticeReader, NoticeReaderStore, NoticeStore, ReaderKey, Stored,
};

use crate::rpc::versions::loaded;

/// Loads audiences from the store into the tiers.
#[derive(Debug)]
pub(super) struct AudienceLoader(pub(super) Arc<dyn NoticeStore>);

#[async_trait]
impl Loader<AudienceId, Audience> for AudienceLoader {
    async fn load(&self, id: &AudienceId, options: LoadOptions) -> Result<Loaded<Audience>, LoadError> {
        let found = self.load_many(std::slice::from_ref(id), options).await?;
        Ok(found.into_iter().next().map_or_else(|| audience(Stored::Never), |(_, found)| found))
    }

    async fn load_many(
        &self,
        ids: &[AudienceId],
        options: LoadOptions,
    ) -> Result<Vec<(AudienceId, Loaded<Audience>)>, LoadError> {
        let found = self.0.audiences(ids, options.strong).await.map_err(LoadError::new)?.into_iter();
        Ok(found.map(|found| (found.id, audience(Stored::Live(Arc::new(found))))).collect())
    }
}

/// Loads notices from the store into the tiers.
#[derive(Debug)]
pub(super) struct NoticeLoader(pub(super) Arc<dyn NoticeStore>);

#[async_trait]
impl Loader<NoticeId, Notice> for NoticeLoader {
    async fn load(&self, id: &NoticeId, options: LoadOptions) -> Result<Loaded<Notice>, LoadError> {
        let found = self.load_many(std::slice::from_ref(id), options).await?;
        Ok(found.into_iter().next().map_or_else(|| notice(Stored::Never), |(_, found)| found))
    }

    async fn load_many(
        &self,
        ids: &[NoticeId],
        options: LoadOptions,
    ) -> Result<Vec<(NoticeId, Loaded<Notice>)>, LoadError> {
        let found = self.0.notices(ids, options.strong).await.map_err(LoadError::new)?.into_iter();
        Ok(found.map(|(id, found)| (id, notice(found))).collect())
    }
}

/// Loads readers from the store into the tiers.
#[derive(Debug)]
pub(super) struct ReaderLoader(pub(super) Arc<dyn NoticeReaderStore>);

#[async_trait]
impl Loader<ReaderKey, NoticeReader> for ReaderLoader {
    async fn load(&self, key: &ReaderKey, options: LoadOptions) -> Result<Loaded<NoticeReader>, LoadError> {
        let found = self.load_many(std::slice::from_ref(key), options).await?;
        Ok(found.into_iter().next().map_or_else(|| reader(Stored::Never), |(_, found)| found))
    }

    async fn load_many(
        &self,
        keys: &[ReaderKey],
        options: LoadOptions,
    ) -> Result<Vec<(ReaderKey, Loaded<NoticeReader>)>, LoadError> {
        let found = self.0.readers(keys, options.strong).await.map_err(LoadError::new)?.into_iter();
        Ok(found.map(|found| (found.key, reader(Stored::Live(Arc::new(found))))).collect())
    }
}

fn audience(stored: Stored<Audience>) -> Loaded<Audience> {
    loaded(stored, |audience| audience.version)
}

fn notice(stored: Stored<Notice>) -> Loaded<Notice> {
    loaded(stored, |notice| notice.version)
}

fn reader(stored: Stored<NoticeReader>) -> Loaded<NoticeReader> {
    loaded(stored, |reader| reader.version)
}
