//! The cluster's application store.

use async_trait::async_trait;
use kith_store::{
    Application, ApplicationChange, ApplicationId, ApplicationKey, ApplicationList, ApplicationMark,
    ApplicationStore, Applied, DueApplication, DueApplications, ListedApplication, PendingRequests, Receiver,
    StoreError, Timestamp, Write, distinct_ids,
};

use super::row::{BY_ID, PENDING};
use crate::cql::stores::Cql;

#[async_trait]
impl ApplicationStore for Cql {
    async fn change_application(
        &self,
        receiver: Receiver,
        change: ApplicationChange,
        write: Write,
    ) -> Result<Applied<Application>, StoreError> {
        let _permit = self.client.admit()?;
        Box::pin(self.apply_for_request(receiver, change, write)).await
    }

    async fn get_application(&self, key: ApplicationKey) -> Result<Option<Application>, StoreError> {
        let _permit = self.client.admit()?;
        Ok(self.read_application(&BY_ID, key).await?.map(|seen| seen.application))
    }

    async fn count_pending(&self, receiver: Receiver) -> Result<PendingRequests, StoreError> {
        let _permit = self.client.admit()?;
        Ok(self.read_pending(&PENDING, receiver).await?.pending)
    }

    async fn list_applications(
        &self,
        list: ApplicationList,
        after: ApplicationId,
        limit: usize,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        let _permit = self.client.admit()?;
        self.listed_above(list, after, limit).await
    }

    async fn mark_applications(
        &self,
        list: ApplicationList,
        ids: &[ApplicationId],
        mark: ApplicationMark,
        now: Timestamp,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        let ids = distinct_ids(ids)?;
        let _permit = self.client.admit()?;
        self.mark_listed(list, &ids, mark, now).await
    }

    async fn due_applications(
        &self,
        from: Option<&[u8]>,
        now: Timestamp,
        limit: usize,
    ) -> Result<DueApplications, StoreError> {
        let _permit = self.client.admit()?;
        self.due_notes(from, now, limit).await
    }

    async fn resume_application(
        &self,
        due: DueApplication,
        now: Timestamp,
    ) -> Result<Option<Application>, StoreError> {
        let _permit = self.client.admit()?;
        Box::pin(self.resume_note(due, now)).await
    }

    /// The server forgets: each row has a time to live.
    async fn forget_applications(&self, _: Timestamp, _: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}
