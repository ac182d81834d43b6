//! Bans: the check before a user becomes a member, and the end of a deleted user's bans.

use kith_store::{MemberChange, MemberKey, Timestamp, UserId, Write};
use tokio::time::Instant;

use super::{
    Members,
    service::{BACKGROUND_LIMIT, store_error},
};
use crate::{
    error::{Error, Reason},
    rpc::call::Principal,
};

/// Groups that are processed in one step.
const GROUPS_AT_ONCE: usize = 20;

impl Members {
    /// Checks in the store that a user is not banned from a group. The write that adds the member checks
    /// again.
    ///
    /// # Errors
    /// FAILED_PRECONDITION, or errors of the store.
    pub(super) async fn check_not_banned(&self, key: MemberKey) -> Result<(), Error> {
        match self.store.ban(key, Timestamp::now()).await.map_err(store_error)? {
            None => Ok(()),
            Some(_) => Err(Error::new(Reason::Banned, "the user is banned from the group")),
        }
    }

    /// Ends a user's bans when the account has ended. Returns whether there was one.
    ///
    /// # Errors
    /// The store's errors. Some bans may have ended before the error.
    pub(super) async fn end_bans_of(&self, user: UserId) -> Result<bool, Error> {
        let (mut after, mut any) = (None, false);
        loop {
            let groups = self.store.banned_from(user, after, GROUPS_AT_ONCE).await.map_err(store_error)?;
            for group in &groups {
                any |= self.end_ban(MemberKey { group: *group, user }).await?;
            }
            after = groups.last().copied();
            if groups.len() < GROUPS_AT_ONCE {
                return Ok(any);
            }
        }
    }

    async fn end_ban(&self, key: MemberKey) -> Result<bool, Error> {
        let this = self.clone();
        let work = async move {
            let (change, context) =
                (MemberChange::Unban(vec![key.user]), this.change_context(Principal::Service));
            let done = this.change(key.group, change, context, Write::at(Timestamp::now())).await?;
            Ok(!done.record.bans.is_empty())
        };
        self.mutations.run(Instant::now() + BACKGROUND_LIMIT, Box::pin(work)).await
    }
}
