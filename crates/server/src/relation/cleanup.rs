//! What is left of a deleted user: follows, blocks, memberships, applications and sessions of presence.

use kith_store::UserId;

use super::Upkeep;
use crate::{
    application::Closing,
    error::{Error, or_none},
    member::Members,
    presence::Sessions,
};

/// Ends what is left of a deleted user. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    upkeep: Upkeep,
    members: Members,
    applications: Closing,
    sessions: Sessions,
}

impl Cleanup {
    /// Of what each of these has of a user.
    pub(crate) fn new(
        upkeep: &Upkeep,
        members: &Members,
        applications: &Closing,
        sessions: &Sessions,
    ) -> Self {
        Self {
            upkeep: upkeep.clone(),
            members: members.clone(),
            applications: applications.clone(),
            sessions: sessions.clone(),
        }
    }

    /// Ends some of what the stores have of a user. False: nothing is left.
    ///
    /// # Errors
    /// What a failing store makes.
    pub(super) async fn step(&self, user: UserId) -> Result<bool, Error> {
        if self.upkeep.remove_edges(user).await? || self.members.depart_some(user).await? {
            return Ok(true);
        }
        let applications = self.applications.clone();
        self.upkeep.settled(async move { or_none(applications.of_account(user).await) }).await?;
        Ok(false)
    }

    /// Ends all sessions of a user.
    ///
    /// # Errors
    /// UNAVAILABLE where presence is not available.
    pub(super) async fn end_sessions(&self, user: UserId) -> Result<(), Error> {
        self.sessions.end_all(user).await
    }
}
