//! The users' relation logs.

use kith_store::{RelationEvent, RelationEventId, Timestamp, UserId};

use super::{
    Applications,
    applications::{ApplicationPage, store_error},
};
use crate::{
    error::Error,
    rpc::call::{Principal, own},
};

impl Applications {
    /// Reads a page of a user's log by rising id above `after`, or from its beginning. Requires that user.
    ///
    /// # Errors
    /// PERMISSION_DENIED, or errors of the store.
    pub(super) async fn list_relation_log(
        &self,
        user: UserId,
        after: Option<RelationEventId>,
        size: usize,
        principal: Principal,
    ) -> Result<ApplicationPage<RelationEvent, RelationEventId>, Error> {
        own(user, principal)?;
        let since = self.known_since(Timestamp::now()).max(self.account_begins(user).await?);
        let first = RelationEventId::at(since, 0);
        let after = after.map_or(first, |after| after.max(first));
        let found = self.log.relation_log(user, after, size.saturating_add(1)).await.map_err(store_error)?;
        Ok(ApplicationPage::cut(found, size, |event| event.id))
    }

    /// Deletes at most this many expired log entries. Returns how many.
    pub(super) async fn forget_log(&self, now: Timestamp, limit: usize) -> Result<u64, Error> {
        self.log.forget_relation_log(self.known_since(now), limit).await.map_err(store_error)
    }

    /// The time before which the logs have no entries.
    fn known_since(&self, now: Timestamp) -> Timestamp {
        let kept = i64::try_from(self.log_kept.as_millis()).unwrap_or(i64::MAX);
        Timestamp(now.0.saturating_sub(kept))
    }
}
