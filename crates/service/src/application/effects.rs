//! Applies an acceptance's effect, exactly once.

use std::time::Duration;

use kith_cache::{Consistency, Token};
use kith_store::{
    Application, ApplicationChange, ApplicationEffect, ApplicationPurpose, Edge, MemberKey, Timestamp,
    UserId, Write,
};
use tokio::time::Instant;

use super::{Applications, applications::DecidedApplication};
use crate::{
    error::{Error, Reason},
    metric::APPLICATION_EFFECTS,
    rpc::{
        call::Principal,
        request::{IdempotencyKey, WriteContext},
    },
};

/// Deadline by which each step must begin. It then runs to its end.
const BEGUN_WITHIN: Duration = Duration::from_secs(10);

impl Applications {
    /// Applies an acceptance's effect. If that fails it stays outstanding, and is retried.
    pub(super) async fn with_effect(&self, application: Application) -> DecidedApplication {
        match self.finish_effect(application.clone()).await {
            Ok(decided) => decided,
            Err(error) => {
                count("failed");
                tracing::warn!(%error, "the effect of an acceptance could not be applied; it is retried");
                DecidedApplication { application, token: None }
            }
        }
    }

    /// Applies an application's outstanding effect, closes a pending application in the other direction, and
    /// records that it is done. Idempotent, also concurrently on two nodes.
    ///
    /// # Errors
    /// The store's errors: the effect is still outstanding then.
    pub(super) async fn finish_effect(&self, application: Application) -> Result<DecidedApplication, Error> {
        if application.effect != ApplicationEffect::Outstanding {
            // The effect's token is no longer known: a read with this token reads the store.
            let done = application.effect == ApplicationEffect::Done;
            return Ok(DecidedApplication {
                application,
                token: done.then(|| self.mutations.token_without_publish()),
            });
        }
        let applied = if self.parties_unchanged(&application, &Consistency::Strong).await? {
            Box::pin(self.apply_effect(&application)).await
        } else {
            Err(Error::not_found("party"))
        };
        let (effect, token) = match applied {
            Ok(token) => (ApplicationEffect::Done, Some(token)),
            Err(error) if is_refused(&error) => (ApplicationEffect::Refused, None),
            Err(error) => return Err(error),
        };
        if effect == ApplicationEffect::Done {
            let (purpose, applicant) = opposite(&application);
            let by_then = application.decided.unwrap_or(application.created);
            self.closer.close_pending(purpose, applicant, by_then).await?;
        }
        let change = ApplicationChange::RecordEffect(application.id, effect);
        let change = self.change(application.purpose.receiver(), change, Write::at(Timestamp::now()));
        let application = change.await?.record;
        count(if effect == ApplicationEffect::Done { "done" } else { "refused" });
        Ok(DecidedApplication { application, token })
    }

    /// The effect itself, with request ids that are always the same: if the user left or unfollowed since, it
    /// is not repeated.
    async fn apply_effect(&self, application: &Application) -> Result<Token, Error> {
        let key = match application.purpose {
            ApplicationPurpose::Friend(user) => {
                let edge = Edge { from: application.applicant, to: user };
                self.follows.follow(edge, &self.blocks, step(application, "there")).await?;
                let back = self.follows.follow(edge.reversed(), &self.blocks, step(application, "back"));
                // The later token covers both.
                return Ok(back.await?.token);
            }
            ApplicationPurpose::Join(group) => MemberKey { group, user: application.applicant },
            ApplicationPurpose::Invite(group, user) => MemberKey { group, user },
        };
        Ok(self.members.admit(key, step(application, "member")).await?.token)
    }
}

/// The application in the other direction with the same purpose, and its applicant. For an invite the
/// applicant does not matter.
const fn opposite(application: &Application) -> (ApplicationPurpose, UserId) {
    let applicant = application.applicant;
    match application.purpose {
        ApplicationPurpose::Friend(user) => (ApplicationPurpose::Friend(applicant), user),
        ApplicationPurpose::Join(group) => (ApplicationPurpose::Invite(group, applicant), applicant),
        ApplicationPurpose::Invite(group, user) => (ApplicationPurpose::Join(group), user),
    }
}

fn step(application: &Application, name: &'static str) -> WriteContext {
    let (side, receiver) = application.purpose.receiver().numbers();
    // It never changes: a repeated step is detected by it.
    let record = format!("application:{side}:{receiver}:{}", application.id);
    let seed = Some(IdempotencyKey::of_step(&record, name));
    WriteContext {
        principal: Principal::Service,
        expected: None,
        seed,
        deadline: Instant::now() + BEGUN_WITHIN,
    }
}

/// Whether the effect has become permanently impossible.
fn is_refused(error: &Error) -> bool {
    matches!(error.reason(), Reason::StateForbids | Reason::Banned | Reason::NotFound | Reason::NotAllowed)
}

fn count(outcome: &'static str) {
    metrics::counter!(APPLICATION_EFFECTS.name, "outcome" => outcome).increment(1);
}
