//! What users did about each other: decode, one call, encode.

use kith_proto::application::v1 as wire;
use kith_store::{RelationEvent, RelationEventId, Timestamp, UserId};

use super::{ApplicationRpc, Applications, applications::store_error, convert};
use crate::{
    error::Error,
    rpc::call::{Call, own},
};

impl ApplicationRpc {
    pub(super) async fn log_page(
        &self,
        request: wire::ListRelationLogRequest,
        call: Call,
    ) -> Result<wire::ListRelationLogResponse, Error> {
        let user = convert::user("user_id", request.user_id)?;
        let after = convert::after_event(request.after_id)?;
        let size = self.limits.pages.of(request.page_size)?;
        let from = request.after_id.to_be_bytes();
        let query = [&b"ListRelationLog"[..], &user.get().to_be_bytes(), &from];
        let next = self.pages.open(&query, &request.page_token)?.and_then(|id| RelationEventId::new(id).ok());
        own(user, call.principal)?;
        // One more than is shown tells whether there is a next page.
        let mut found = self.applications.log(user, next.or(after), size.saturating_add(1)).await?;
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more).map(|event| event.id.get());
        Ok(wire::ListRelationLogResponse {
            events: found.iter().map(convert::event_to_wire).collect(),
            next_page_token: last.map(|last| self.pages.seal(&query, last)).unwrap_or_default(),
        })
    }
}

impl Applications {
    /// Reads the log of a user by rising id above `after`, or from its beginning.
    ///
    /// # Errors
    /// What a failing store makes.
    async fn log(
        &self,
        user: UserId,
        after: Option<RelationEventId>,
        limit: usize,
    ) -> Result<Vec<RelationEvent>, Error> {
        let since = self.known_since(Timestamp::now()).max(self.account_begins(user).await?);
        let first = RelationEventId::at(since, 0);
        let after = after.map_or(first, |after| after.max(first));
        self.log.relation_log(user, after, limit).await.map_err(store_error)
    }

    /// Forgets some of what logs need not keep any more, at most so much. Returns how much it was.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn forget_log(&self, now: Timestamp, limit: usize) -> Result<u64, Error> {
        self.log.forget_relation_log(self.known_since(now), limit).await.map_err(store_error)
    }

    /// Before which logs tell nothing.
    fn known_since(&self, now: Timestamp) -> Timestamp {
        let kept = i64::try_from(self.rules.log_kept.as_millis()).unwrap_or(i64::MAX);
        Timestamp(now.0.saturating_sub(kept))
    }
}
