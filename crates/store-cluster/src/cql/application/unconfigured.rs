//! The application store in a cluster for which no relation store is configured.

use async_trait::async_trait;
use kith_store::{
    Application, ApplicationChange, ApplicationId, ApplicationKey, ApplicationList, ApplicationMark,
    ApplicationStore, Applied, DueApplication, DueApplications, ListedApplication, PendingRequests, Receiver,
    StoreError, Timestamp, Write,
};

use crate::cql::unconfigured::{NoRelations, absent};

#[async_trait]
impl ApplicationStore for NoRelations {
    async fn change_application(
        &self,
        _: Receiver,
        _: ApplicationChange,
        _: Write,
    ) -> Result<Applied<Application>, StoreError> {
        absent()
    }

    async fn get_application(&self, _: ApplicationKey) -> Result<Option<Application>, StoreError> {
        absent()
    }

    async fn count_pending(&self, _: Receiver) -> Result<PendingRequests, StoreError> {
        absent()
    }

    async fn list_applications(
        &self,
        _: ApplicationList,
        _: ApplicationId,
        _: usize,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        absent()
    }

    async fn mark_applications(
        &self,
        _: ApplicationList,
        _: &[ApplicationId],
        _: ApplicationMark,
        _: Timestamp,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        absent()
    }

    /// Nothing is due: no change can have begun.
    async fn due_applications(
        &self,
        _: Option<&[u8]>,
        _: Timestamp,
        _: usize,
    ) -> Result<DueApplications, StoreError> {
        Ok(DueApplications::default())
    }

    async fn resume_application(
        &self,
        _: DueApplication,
        _: Timestamp,
    ) -> Result<Option<Application>, StoreError> {
        Ok(None)
    }

    async fn forget_applications(&self, _: Timestamp, _: usize) -> Result<u64, StoreError> {
        Ok(0)
    }
}
