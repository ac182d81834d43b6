//! Ends what is open for users who are let in no more: once a second the node looks, in memory, whether they
//! still are. No wake can be lost.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use futures::FutureExt as _;
use kith_cache::Consistency;
use kith_store::{Timestamp, UserAccess, UserId};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{AccessDenial, AccessEntry as _, Accesses, decide};
use crate::{
    error::Error,
    user::deletion::{AccountCleanup, Cleaned},
    write::{rounds::every, tasks::BackgroundJob},
};

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);
/// The most records that one look reads among those that memory has dropped. A few looks read them all.
const READ_MAX: usize = 2_000;
/// Parts with a lock each.
const SHARDS: usize = 16;

/// The streams and sockets that are open for users on this node.
#[derive(Debug, Default)]
pub(super) struct LiveUsers {
    shards: [Mutex<HashMap<UserId, Vec<Arc<LiveEntry>>>>; SHARDS],
}

/// Something that is open for a user, such as a stream. It is over when this is dropped.
#[derive(Debug)]
pub struct LiveAccess {
    users: Arc<LiveUsers>,
    entry: Arc<LiveEntry>,
}

#[derive(Debug)]
struct LiveEntry {
    user: UserId,
    /// When its token was issued.
    issued: Option<Timestamp>,
    /// The account for which it is open. Empty until its record could be read.
    account: OnceLock<u32>,
    ended: CancellationToken,
    denial: OnceLock<AccessDenial>,
}

impl LiveAccess {
    /// Cancelled when the user is let in no more.
    #[must_use]
    pub fn ended(&self) -> &CancellationToken {
        &self.entry.ended
    }

    /// Why the entry ended.
    #[must_use]
    pub fn error(&self) -> Error {
        self.entry.denial.get().copied().unwrap_or(AccessDenial::Deleted).error()
    }
}

impl Drop for LiveAccess {
    fn drop(&mut self) {
        let mut shard = self.users.shard(self.entry.user).lock();
        if let Some(entries) = shard.get_mut(&self.entry.user) {
            entries.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
            if entries.is_empty() {
                shard.remove(&self.entry.user);
            }
        }
    }
}

impl LiveUsers {
    pub(super) fn enter(
        self: &Arc<Self>,
        user: UserId,
        issued: Option<Timestamp>,
        account: Option<u32>,
    ) -> LiveAccess {
        let account = account.map_or_else(OnceLock::new, OnceLock::from);
        let (ended, denial) = (CancellationToken::new(), OnceLock::new());
        let entry = Arc::new(LiveEntry { user, issued, account, ended, denial });
        self.shard(user).lock().entry(user).or_default().push(Arc::clone(&entry));
        LiveAccess { users: Arc::clone(self), entry }
    }

    fn shard(&self, user: UserId) -> &Mutex<HashMap<UserId, Vec<Arc<LiveEntry>>>> {
        &self.shards[usize::try_from(user.get()).unwrap_or_default() % SHARDS]
    }

    fn users(&self) -> Vec<UserId> {
        self.shards.iter().flat_map(|shard| shard.lock().keys().copied().collect::<Vec<_>>()).collect()
    }

    /// Ends what is open for a user who has this access and may not have it open.
    fn apply(&self, user: UserId, access: Option<&UserAccess>) {
        if let Some(entries) = self.shard(user).lock().get(&user) {
            entries.iter().for_each(|entry| entry.apply(access));
        }
    }
}

impl LiveEntry {
    fn apply(&self, access: Option<&UserAccess>) {
        let denial = match decide(access, self.issued) {
            Ok(account) if *self.account.get_or_init(|| account) == account => return,
            Ok(_) => AccessDenial::Deleted,
            Err(denial) => denial,
        };
        self.denial.get_or_init(|| denial);
        self.ended.cancel();
    }
}

/// The job that ends what is open for users who are let in no more, and the `sessions` of users who were
/// suspended on this node. Each has its own loop, so that a slow store does not delay users whom memory
/// knows.
#[must_use]
pub fn access_job(accesses: &Accesses, sessions: Arc<dyn AccountCleanup>) -> BackgroundJob {
    let (known, unknown, suspended) = (accesses.clone(), accesses.clone(), accesses.clone());
    BackgroundJob::new([
        every(PERIOD, async move || known.apply_known()).boxed(),
        every(PERIOD, async move || unknown.read_unknown().await).boxed(),
        every(PERIOD, async move || suspended.end_sessions_of_suspended(&*sessions).await).boxed(),
    ])
}

impl Accesses {
    fn apply_known(&self) {
        for user in self.live.users() {
            if let Some(entry) = self.cache.peek_known(&user) {
                self.live.apply(user, entry.as_deref_value());
            }
        }
    }

    /// Reads some records that memory has dropped, and a record that could not be read before.
    async fn read_unknown(&self) {
        if let Ok(user) = UserId::new(self.unreadable.load(Ordering::Relaxed)) {
            drop(self.get(user, &Consistency::Cached).await);
        }
        let mut users = self.live.users();
        users.retain(|user| self.cache.peek_known(user).is_none());
        if users.len() > READ_MAX {
            let from = rand::random_range(0..users.len());
            users.rotate_left(from);
            users.truncate(READ_MAX);
        }
        let found = self.cache.get_many(&users, &Consistency::Cached).await;
        for (user, found) in users.into_iter().zip(found) {
            if let Ok(entry) = found {
                self.live.apply(user, entry.as_deref_value());
            }
        }
    }
}

impl Accesses {
    /// A user whose sessions cannot be ended now is tried again.
    async fn end_sessions_of_suspended(&self, sessions: &dyn AccountCleanup) {
        let users: Vec<UserId> = self.suspended.lock().keys().copied().collect();
        for user in users {
            if matches!(sessions.clean_up(user).await, Ok(Cleaned::All)) {
                let mut suspended = self.suspended.lock();
                if suspended.get_mut(&user).is_some_and(|times| *times > 1) {
                    suspended.entry(user).and_modify(|times| *times -= 1);
                } else {
                    suspended.remove(&user);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kith_store::Version;

    use super::*;

    fn user() -> UserId {
        UserId::new(7).unwrap()
    }

    fn access() -> UserAccess {
        UserAccess { version: Version::FIRST, ..UserAccess::unrestricted(user()) }
    }

    /// Why an entry that began with a token issued then for this account ends, once this access is seen.
    fn denial(issued: Option<i64>, account: Option<u32>, access: &UserAccess) -> Option<AccessDenial> {
        let users = Arc::new(LiveUsers::default());
        let live = users.enter(user(), issued.map(Timestamp), account);
        users.apply(user(), Some(access));
        assert_eq!(live.ended().is_cancelled(), live.entry.denial.get().is_some());
        live.entry.denial.get().copied()
    }

    #[test]
    fn entries_end_by_what_their_user_lost() {
        let signed_out = UserAccess { tokens_from: Timestamp(50), ..access() };
        assert_eq!(denial(Some(50), Some(0), &signed_out), Some(AccessDenial::SignedOut));
        assert_eq!(denial(Some(51), Some(0), &signed_out), None);
        assert_eq!(denial(None, Some(0), &signed_out), None, "it has no token");
        let deleted = UserAccess { account: 1, ..access() };
        assert_eq!(denial(None, Some(0), &deleted), Some(AccessDenial::Deleted));
        assert_eq!(denial(None, Some(1), &deleted), None);
        assert_eq!(denial(None, None, &deleted), None, "the first account that is read is its own");
    }

    #[test]
    fn entries_are_forgotten_when_they_are_over() {
        let users = Arc::new(LiveUsers::default());
        let (one, other) = (users.enter(user(), None, None), users.enter(user(), None, None));
        drop(one);
        assert_eq!(users.users(), [user()]);
        drop(other);
        assert_eq!(users.users(), []);
    }
}
