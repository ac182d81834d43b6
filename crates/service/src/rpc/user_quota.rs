//! How much a user may do in a period, on this node: enough for a person, too little to read everything or to
//! keep a node busy.

use std::{collections::HashMap, num::NonZeroU32, sync::Arc, time::Duration};

use kith_store::UserId;
use metrics::Counter;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    error::{Error, Reason},
    metric,
    rpc::rights::CallerId,
};

/// How many users are counted separately. Further users share counts.
const USERS_MAX: usize = 100_000;
/// The table's parts, each with its own lock.
const SHARDS: usize = 16;
/// The counts in each part that users share if it is full: few enough to stay within memory, and enough that
/// a user who does too much affects few.
const SHARED: usize = 256;
/// The shortest time between two sweeps over a part: each walks over its users.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The kind that a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// Searches by keyword and by name, in a minute.
    Searches,
    /// Calls, in a second.
    Calls,
    /// Calls that change something or concern secrets, in a second.
    Writes,
    /// Records that are read, in a minute.
    Records,
}

impl QuotaKind {
    /// The metric's label, and the `quota` in the error.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Searches => "searches",
            Self::Calls => "calls",
            Self::Writes => "writes",
            Self::Records => "records",
        }
    }

    const fn period(self) -> Duration {
        match self {
            Self::Searches | Self::Records => Duration::from_secs(60),
            Self::Calls | Self::Writes => Duration::from_secs(1),
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Searches => "too many searches by this user within a minute",
            Self::Calls => "too many calls by this user within a second",
            Self::Writes => "too many writes by this user within a second",
            Self::Records => "too many records read by this user within a minute",
        }
    }
}

/// One quota for each user, as a token bucket: `most` at once, and as many again within the period, evenly.
/// Cheap to clone; clones share the counts.
///
/// A count locks a sixteenth of the table for one lookup. The table has at most 100,000 users and 4,096
/// shared counts, about 5 MB. A user whose bucket is full again needs no entry after the next sweep. If the
/// table is full, further users share counts by their ids: each is still counted, and may be refused for what
/// another did.
#[derive(Clone, Debug)]
pub struct UserQuota {
    kind: QuotaKind,
    /// `None`: nothing is counted.
    table: Option<Arc<QuotaTable>>,
    refused: Counter,
}

/// Identifies who is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QuotaSubject {
    User(UserId),
    Caller(CallerId),
    /// Users who share a count.
    Shared(usize),
}

impl QuotaSubject {
    /// Consecutive for users, so that they spread evenly over the table's parts.
    fn number(self) -> usize {
        let id = match self {
            Self::User(user) => user.get().unsigned_abs(),
            Self::Caller(caller) => caller.get().into(),
            Self::Shared(count) => return count,
        };
        usize::try_from(id).unwrap_or_default()
    }
}

/// The counted amount, so that a part can be given back.
#[derive(Debug)]
pub(crate) struct TakenQuota {
    shard: usize,
    subject: QuotaSubject,
    many: u32,
}

/// A quota that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuotaExceeded {
    kind: QuotaKind,
    /// The time until the request is within the quota.
    wait: Duration,
}

impl From<QuotaExceeded> for Error {
    fn from(exceeded: QuotaExceeded) -> Self {
        let QuotaExceeded { kind, wait } = exceeded;
        Self::new(Reason::QuotaExceeded, kind.text()).with("quota", kind.name()).after(wait)
    }
}

impl UserQuota {
    /// Allows `most` at once and in each period of the kind; 0: nothing is counted.
    #[must_use]
    pub fn new(kind: QuotaKind, most: u32) -> Self {
        Self::with_room_for(USERS_MAX, kind, most)
    }

    fn with_room_for(users_max: usize, kind: QuotaKind, most: u32) -> Self {
        let table = |most| Arc::new(QuotaTable::new(users_max, QuotaRate::new(kind.period(), most)));
        let refused = metrics::counter!(metric::USER_QUOTA_REFUSED.name, "quota" => kind.name());
        Self { kind, table: NonZeroU32::new(most).map(table), refused }
    }

    /// Counts one event. `None` is not counted: services answer for themselves.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED, with the time until a further event is available.
    pub fn count(&self, user: Option<UserId>) -> Result<(), Error> {
        match user {
            Some(user) => self.take(QuotaSubject::User(user), 1).map(drop).map_err(Error::from),
            None => Ok(()),
        }
    }

    /// Counts many events for a user together, or none. More than the whole quota count as the whole.
    ///
    /// # Errors
    /// QUOTA_EXCEEDED, with the time until they are available.
    pub fn count_many(&self, user: UserId, many: usize) -> Result<(), Error> {
        match many {
            0 => Ok(()),
            many => self.take(QuotaSubject::User(user), many).map(drop).map_err(Error::from),
        }
    }

    /// Returns how many are available at once to a user who has done nothing; `None`: any number.
    pub(crate) fn most(&self) -> Option<usize> {
        self.table.as_ref().map(|table| usize::try_from(table.rate.most).unwrap_or(usize::MAX))
    }

    /// Counts `many` together, or none. More than the whole quota count as the whole. `None`: nothing is
    /// counted.
    pub(crate) fn take(
        &self,
        subject: QuotaSubject,
        many: usize,
    ) -> Result<Option<TakenQuota>, QuotaExceeded> {
        let Some(table) = &self.table else { return Ok(None) };
        let many = u32::try_from(many).unwrap_or(u32::MAX).min(table.rate.most);
        table.take(subject, many).map(Some).map_err(|wait| {
            self.refused.increment(1);
            QuotaExceeded { kind: self.kind, wait }
        })
    }

    /// Gives back what is above `many`.
    pub(crate) fn give_back(&self, taken: &TakenQuota, many: usize) {
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        if let (Some(table), Some(unused)) = (&self.table, taken.many.checked_sub(many)) {
            table.shards[taken.shard].lock().give_back(taken.subject, table.rate.time_of(unused));
        }
    }
}

/// How fast a bucket fills. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
struct QuotaRate {
    most: u32,
    unit_nanos: u64,
}

impl QuotaRate {
    fn new(period: Duration, most: NonZeroU32) -> Self {
        let unit_nanos = nanos(period) / u64::from(most.get());
        Self { most: most.get(), unit_nanos: unit_nanos.max(1) }
    }

    /// Returns the time until so many are available again.
    fn time_of(self, many: u32) -> u64 {
        self.unit_nanos.saturating_mul(many.into())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct QuotaTable {
    rate: QuotaRate,
    start: Instant,
    shards: [Mutex<QuotaShard>; SHARDS],
}

/// The buckets for some users. A bucket that is not in here is full.
#[derive(Debug)]
struct QuotaShard {
    /// When the bucket is full again, in nanoseconds since the table started.
    full_at: HashMap<QuotaSubject, u64>,
    users_max: usize,
    swept: u64,
}

impl QuotaTable {
    fn new(users_max: usize, rate: QuotaRate) -> Self {
        let shard =
            || QuotaShard { full_at: HashMap::new(), users_max: users_max.div_ceil(SHARDS), swept: 0 };
        Self { rate, start: Instant::now(), shards: std::array::from_fn(|_| Mutex::new(shard())) }
    }

    /// The error is the time to wait.
    fn take(&self, subject: QuotaSubject, many: u32) -> Result<TakenQuota, Duration> {
        let shard = subject.number() % SHARDS;
        let mut part = self.shards[shard].lock();
        // Behind the lock, so that time does not go back for a user.
        let now = nanos(self.start.elapsed());
        let subject = part.counted_as(subject, now);
        part.take(subject, many, self.rate, now)?;
        Ok(TakenQuota { shard, subject, many })
    }
}

impl QuotaShard {
    /// Takes `many` from a bucket. The error is the time to wait.
    fn take(&mut self, subject: QuotaSubject, many: u32, rate: QuotaRate, now: u64) -> Result<(), Duration> {
        let (time, whole) = (rate.time_of(many), rate.time_of(rate.most));
        let full_at = self.full_at.get(&subject).copied().unwrap_or_default().max(now);
        let after = full_at.saturating_add(time);
        let latest = now.saturating_add(whole);
        if after > latest {
            return Err(Duration::from_nanos(after - latest));
        }
        if time > 0 {
            self.full_at.insert(subject, after);
        }
        Ok(())
    }

    fn give_back(&mut self, subject: QuotaSubject, time: u64) {
        if let Some(full_at) = self.full_at.get_mut(&subject) {
            *full_at = full_at.saturating_sub(time);
        }
    }

    /// The subject itself while there is room, else users who share a count. Callers are configured, so that
    /// there are few.
    fn counted_as(&mut self, subject: QuotaSubject, now: u64) -> QuotaSubject {
        if self.full_at.len() < self.users_max
            || !matches!(subject, QuotaSubject::User(_))
            || self.full_at.contains_key(&subject)
        {
            return subject;
        }
        self.sweep(now);
        if self.full_at.len() < self.users_max {
            return subject;
        }
        QuotaSubject::Shared(subject.number() / SHARDS % SHARED)
    }

    /// Forgets buckets that are full.
    fn sweep(&mut self, now: u64) {
        if now.saturating_sub(self.swept) >= nanos(SWEEP_EVERY) {
            self.swept = now;
            self.full_at.retain(|_, full_at| *full_at > now);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::sample::user;

    const MS: Duration = Duration::from_millis(1);

    fn subject(number: i64) -> QuotaSubject {
        QuotaSubject::User(user(number))
    }

    /// How many are counted until the first is refused, and how long to wait then.
    fn counted(quota: &UserQuota, number: i64) -> (usize, Duration) {
        let mut counted = 0;
        loop {
            match quota.take(subject(number), 1) {
                Ok(_) => counted += 1,
                Err(exceeded) => return (counted, exceeded.wait),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quota_is_full_at_start_and_refills_evenly() {
        let quota = UserQuota::new(QuotaKind::Calls, 50);
        assert_eq!(counted(&quota, 1), (50, 20 * MS));
        advance(19 * MS).await;
        assert_eq!(counted(&quota, 1), (0, MS));
        advance(MS).await;
        assert_eq!(counted(&quota, 1), (1, 20 * MS));
        advance(500 * MS).await;
        assert_eq!(counted(&quota, 1).0, 25);
        advance(Duration::from_secs(3600)).await;
        assert_eq!(counted(&quota, 1).0, 50, "no more than the whole is saved up");
    }

    #[tokio::test(start_paused = true)]
    async fn each_user_has_a_quota_and_services_have_none() {
        let quota = UserQuota::new(QuotaKind::Writes, 10);
        assert_eq!(counted(&quota, 1), (10, 100 * MS));
        assert_eq!(counted(&quota, 2), (10, 100 * MS));
        for _ in 0..100 {
            quota.count(None).unwrap();
        }
        let refused = quota.count(Some(user(1))).unwrap_err();
        assert_eq!(refused.reason(), Reason::QuotaExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn zero_counts_nothing() {
        let quota = UserQuota::new(QuotaKind::Records, 0);
        for _ in 0..10_000 {
            quota.count(Some(user(1))).unwrap();
        }
        assert!(quota.take(subject(1), usize::MAX).unwrap().is_none());
        assert_eq!(quota.most(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn many_are_counted_together_or_not_at_all() {
        let quota = UserQuota::new(QuotaKind::Records, 60);
        quota.take(subject(1), 40).unwrap();
        for many in [21, 60, 61, usize::MAX] {
            assert!(quota.take(subject(1), many).is_err(), "{many}");
        }
        quota.take(subject(1), 20).unwrap();
        quota.take(subject(1), 0).unwrap();
        assert_eq!(counted(&quota, 1), (0, Duration::from_secs(1)));
        let refused = quota.take(subject(1), 30).unwrap_err();
        assert_eq!(refused.wait, Duration::from_secs(30));
        // A count larger than the whole quota is not refused for ever.
        quota.take(subject(2), usize::MAX).unwrap();
        assert_eq!(counted(&quota, 2).0, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unused_part_is_given_back() {
        let quota = UserQuota::new(QuotaKind::Records, 60);
        let taken = quota.take(subject(1), 50).unwrap().unwrap();
        assert_eq!(counted(&quota, 1).0, 10);
        quota.give_back(&taken, 20);
        assert_eq!(counted(&quota, 1).0, 30);
        quota.give_back(&taken, 51);
        assert_eq!(counted(&quota, 1).0, 0, "nothing was unused");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_all_users_are_counted() {
        let quota = UserQuota::with_room_for(160, QuotaKind::Searches, 3);
        let most = 160 + SHARDS * SHARED;
        let held = || -> usize {
            let table = quota.table.as_ref().unwrap();
            table.shards.iter().map(|shard| shard.lock().full_at.len()).sum()
        };
        assert_eq!(counted(&quota, 1).0, 3);
        let counts = (2..=100_000).filter(|number| quota.count(Some(user(*number))).is_ok()).count();
        assert!(held() <= most, "{} are held", held());
        assert!(counts <= 3 * most, "{counts} were counted");
        assert_eq!(counted(&quota, 1).0, 0, "who was there first keeps its own count");
    }

    #[tokio::test(start_paused = true)]
    async fn users_with_a_full_bucket_make_room() {
        let quota = UserQuota::with_room_for(160, QuotaKind::Searches, 3);
        (1..=100_000).for_each(|number| drop(quota.count(Some(user(number)))));
        advance(Duration::from_secs(60)).await;
        for number in 200_001..=200_020 {
            assert_eq!(counted(&quota, number).0, 3);
            let table = quota.table.as_ref().unwrap();
            assert!(table.shards.iter().any(|shard| shard.lock().full_at.contains_key(&subject(number))));
        }
    }
}
