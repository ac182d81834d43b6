//! Removes a user's data soon after its deletion, also if a node crashes (see [`AccountCleanup`]), and then
//! releases its id.
//!
//! A deletion is noted in the store before it is written. The node that deleted begins at once. Every node
//! (of several, the lease's holder) reads the notes periodically and completes the work. A note is kept for a
//! while after everything has ended, since a follow that began before the deletion may arrive later. Until
//! then the user's id is held, so that no other account inherits anything.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::FutureExt as _;
use kith_store::{EdgeUpkeep, StoreError, Stored, Stores, StrongReads, Timestamp, UserId, UserStore};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::deletion::{AccountCleanup, Cleaned};
use crate::{
    error::{Error, Reason},
    write::{lease::Lease, tasks::BackgroundJob},
};

/// The approximate time between reads of notes.
const PERIOD: Duration = Duration::from_secs(5);
/// Most notes that are read at once.
const NOTES_MAX: usize = 1000;
/// A deletion that was noted longer ago was applied or never will be; the same holds for writes that saw the
/// user as existing.
const SETTLED: Duration = Duration::from_secs(60);
/// The lease name for reading notes.
const LEASE: &str = "edge_removals";
/// A few times as long as a round takes.
const LEASE_LASTS: Duration = Duration::from_secs(20);

/// The job that removes deleted users' data in these domains. `begun`: users who were just deleted on this
/// node; `node_id`: this node's id, if there are others.
#[must_use]
pub fn cleanup_job(
    stores: &Stores,
    domains: Vec<Arc<dyn AccountCleanup>>,
    begun: mpsc::Receiver<UserId>,
    node_id: Option<&str>,
) -> BackgroundJob {
    let rounds = CleanupRounds {
        domains,
        store: Arc::clone(&stores.edges),
        ids: Arc::clone(&stores.users),
        users: Arc::clone(&stores.strong),
        lease: Lease::new(&stores.coordination, LEASE, node_id, LEASE_LASTS),
        emptied: HashSet::new(),
        settled: HashSet::new(),
    };
    BackgroundJob::new([rounds.run(begun).boxed()])
}

#[derive(Debug)]
struct CleanupRounds {
    /// The domains with user data, in the order of their clean-up.
    domains: Vec<Arc<dyn AccountCleanup>>,
    store: Arc<dyn EdgeUpkeep>,
    ids: Arc<dyn UserStore>,
    users: Arc<dyn StrongReads>,
    /// The lease for reading notes.
    lease: Lease,
    /// Notes that are kept for a while although their users have no data left.
    emptied: HashSet<(UserId, Timestamp)>,
    /// Notes that are kept for a last step alone.
    settled: HashSet<(UserId, Timestamp)>,
}

impl CleanupRounds {
    async fn run(mut self, mut begun: mpsc::Receiver<UserId>) {
        loop {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "deleted users of whom something has to end cannot be looked for");
            }
            let until = Instant::now() + PERIOD.mul_f64(rand::random_range(0.75..1.25));
            while Instant::now() < until {
                match timeout_at(until, begun.recv()).await {
                    Ok(Some(user)) => self.begin(user).await.unwrap_or_else(|error| log(&error)),
                    // All senders are dropped.
                    Ok(None) => return,
                    Err(_) => break,
                }
            }
        }
    }

    /// Removes a just deleted user's data. The note in the store, if there is one, holds the id for longer.
    async fn begin(&self, user: UserId) -> Result<(), Error> {
        if self.clear(user).await? == ClearOutcome::Empty && !self.store.keeps_removals() {
            self.ids.release_id(user, Timestamp::now()).await.map_err(store_error)?;
        }
        Ok(())
    }

    /// Reads the notes, if this node has the lease.
    async fn round(&mut self) -> Result<(), Error> {
        if !self.lease.is_held().await.unwrap_or(false) {
            return Ok(());
        }
        let notes = self.store.removals(NOTES_MAX).await.map_err(store_error)?;
        let all: HashSet<_> = notes.iter().copied().collect();
        self.emptied.retain(|note| all.contains(note));
        self.settled.retain(|note| all.contains(note));
        for note in notes {
            match self.continue_removal(note).await {
                Err(error) if error.reason() == Reason::StoreUnavailable => return Err(error),
                // Others may succeed.
                Err(error) => log(&error),
                Ok(()) => {}
            }
            if !self.lease.is_held().await.unwrap_or(false) {
                break;
            }
        }
        Ok(())
    }

    async fn continue_removal(&mut self, note: (UserId, Timestamp)) -> Result<(), Error> {
        let (user, noted) = note;
        let young = Timestamp::now() < noted.after(SETTLED);
        if young && self.emptied.contains(&note) {
            return Ok(());
        }
        if self.settled.contains(&note) {
            return self.finish(user, noted).await;
        }
        match self.clear(user).await? {
            ClearOutcome::Later => return Ok(()),
            ClearOutcome::Empty if young => drop(self.emptied.insert(note)),
            ClearOutcome::Empty => {
                self.settled.insert(note);
                self.finish(user, noted).await?;
            }
            // Its deletion may still be applied.
            ClearOutcome::NotDeleted if young => {}
            ClearOutcome::NotDeleted => self.store.end_removal(user, noted).await.map_err(store_error)?,
        }
        Ok(())
    }

    /// Releases a user's id when nothing is left, after each domain's last step.
    async fn finish(&self, user: UserId, noted: Timestamp) -> Result<(), Error> {
        for domain in &self.domains {
            if domain.finish(user, noted.after(SETTLED)).await? != Cleaned::All {
                return Ok(());
            }
        }
        self.ids.release_id(user, noted).await.map_err(store_error)?;
        self.store.end_removal(user, noted).await.map_err(store_error)
    }

    /// Removes a deleted user's data.
    async fn clear(&self, user: UserId) -> Result<ClearOutcome, Error> {
        // The user is read before each step: the deletion may not have been applied, and the id may belong to
        // another user.
        while self.is_deleted(user).await? {
            match step(&self.domains, user).await? {
                Cleaned::Some => {}
                Cleaned::All => return Ok(ClearOutcome::Empty),
                Cleaned::Later => return Ok(ClearOutcome::Later),
            }
        }
        Ok(ClearOutcome::NotDeleted)
    }

    async fn is_deleted(&self, user: UserId) -> Result<bool, Error> {
        let found = self.users.strong_users(&[user]).await.map_err(store_error)?;
        Ok(matches!(found.first(), Some((_, Stored::Deleted(_)))))
    }
}

/// Removes some user data, in the first domain that has any. A domain that fails does not keep the next
/// domains from their clean-up, unless the store is away.
///
/// # Errors
/// The last error, after every other domain has nothing left.
async fn step(domains: &[Arc<dyn AccountCleanup>], user: UserId) -> Result<Cleaned, Error> {
    let mut cleaned = Ok(Cleaned::All);
    for domain in domains {
        match domain.clean_up(user).await {
            Ok(Cleaned::Some) => return Ok(Cleaned::Some),
            Ok(Cleaned::Later) => cleaned = cleaned.and(Ok(Cleaned::Later)),
            Ok(Cleaned::All) => {}
            Err(error) if error.reason() == Reason::StoreUnavailable => return Err(error),
            Err(error) => cleaned = Err(error),
        }
    }
    cleaned
}

/// A clean-up's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClearOutcome {
    Empty,
    /// Something is left, because a service does not answer now.
    Later,
    /// The user is not deleted: its deletion was not applied, or the id has another user.
    NotDeleted,
}

fn log(error: &Error) {
    tracing::warn!(%error, "something of a deleted user did not end, and its id is held; it is tried again");
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn store_error(error: StoreError) -> Error {
    Error::store("edge", &error)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;

    use super::*;
    use crate::sample::user;

    /// A domain with these results, one for each step.
    #[derive(Debug)]
    struct DomainWithSteps(Mutex<Vec<Result<Cleaned, Error>>>);

    #[async_trait]
    impl AccountCleanup for DomainWithSteps {
        async fn clean_up(&self, _user: UserId) -> Result<Cleaned, Error> {
            self.0.lock().pop().unwrap_or(Ok(Cleaned::All))
        }
    }

    #[tokio::test]
    async fn failed_domain_does_not_stop_the_next() {
        let damaged = || Err(Error::new(Reason::Internal, "a record is damaged"));
        let domains: Vec<Arc<dyn AccountCleanup>> = vec![
            Arc::new(DomainWithSteps(Mutex::new(vec![damaged(), damaged()]))),
            Arc::new(DomainWithSteps(Mutex::new(vec![Ok(Cleaned::Some)]))),
        ];
        assert_eq!(step(&domains, user(1)).await.unwrap(), Cleaned::Some);
        assert_eq!(step(&domains, user(1)).await.unwrap_err().reason(), Reason::Internal);
        assert_eq!(step(&domains, user(1)).await.unwrap(), Cleaned::All);
    }
}
