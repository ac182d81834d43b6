//! Clears a deleted user's marks, so that a user who is created again under the id sees notices from its own
//! creation on, like any other user.

use async_trait::async_trait;
use kith_store::{AudienceId, NoticeReader, ReaderId, ReaderKey, ReaderMark, SINCE_CREATION, UserId};
use tokio::time::Instant;

use super::{
    NoticeRecords,
    records::{notice_error, reader_error},
};
use crate::{
    error::Error,
    user::{AccountCleanup, CLEANED_WITHIN, Cleaned},
};

/// How many audiences are read at a time.
const AUDIENCES_AT_ONCE: usize = 100;

/// Clears deleted users' marks in audiences whose readers are users. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NoticeCleanup(NoticeRecords);

impl NoticeCleanup {
    /// Creates it over a deployment's readers.
    #[must_use]
    pub const fn new(records: NoticeRecords) -> Self {
        Self(records)
    }

    async fn forget(&self, reader: NoticeReader) -> Result<(), Error> {
        let this = self.0.clone();
        let work = async move {
            let audience = this.audience(reader.key.audience, &kith_cache::Consistency::Cached).await?;
            let forget = ReaderMark::Forget(SINCE_CREATION);
            let written = this.write_mark(&audience, reader.key, forget, SINCE_CREATION).await;
            written.map(drop).map_err(reader_error)
        };
        self.0.mutations.run(Instant::now() + CLEANED_WITHIN, Box::pin(work)).await
    }
}

#[async_trait]
impl AccountCleanup for NoticeCleanup {
    /// Clears the marks in all audiences with one call. May be repeated.
    async fn clean_up(&self, user: UserId) -> Result<Cleaned, Error> {
        let Ok(reader) = ReaderId::new(user.get()) else { return Ok(Cleaned::All) };
        let mut after: Option<AudienceId> = None;
        loop {
            let page = self.0.store.audience_list(after, AUDIENCES_AT_ONCE).await.map_err(notice_error)?;
            let of_users = page.iter().filter(|audience| audience.of_users);
            let keys: Vec<ReaderKey> =
                of_users.map(|audience| ReaderKey { audience: audience.id, reader }).collect();
            for found in self.0.reader_store.readers(&keys, true).await.map_err(reader_error)? {
                if found.bits.words().next().is_some() || found.since != SINCE_CREATION {
                    self.forget(found).await?;
                }
            }
            after = page.last().map(|last| last.id);
            if page.len() < AUDIENCES_AT_ONCE {
                return Ok(Cleaned::All);
            }
        }
    }
}
