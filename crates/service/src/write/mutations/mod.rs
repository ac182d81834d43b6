//! Writes as owned tasks: a cancelled call stops waiting, never the write or its invalidation.

use std::{fmt::Display, future::Future, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use kith_cache::{
    AdmissionQueue, Change, Key, LATE_WRITES_FOR, Node, Permit, TieredCache, Token, UNPUBLISHED, Version,
    WriteGuard, WriteParts,
    spans::{self, Step},
};
use kith_store::{Applied, GroupId, MemberKey, Outcome, StoreError};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, Span};

use crate::{
    error::Error,
    metric::MUTATIONS_SHED,
    write::{queue_permits::QueuePermits, shed_counter::ShedCounter},
};

/// The namespace in traces for writes that no tier caches.
const UNCACHED: &str = "uncached";

/// Is notified about a node's writes.
pub trait WriteListener: std::fmt::Debug + Send + Sync {
    /// A write was acknowledged that gave this key's record this version. Called on each write's way: it must
    /// not wait, nor cost more than it has to.
    fn wrote(&self, namespace: &'static str, key: &dyn Display, version: Version);
}

/// Runs and counts a node's mutations.
#[derive(Clone, Debug)]
pub struct Mutations {
    tasks: TaskTracker,
    node: Node,
    admission: Arc<AdmissionQueue>,
    queue_permits: Arc<QueuePermits>,
    /// Refused writes.
    shed: ShedCounter,
    /// See [`WriteLimits::takes`].
    limit: Duration,
    /// See [`answer_wait`].
    answer: Duration,
    /// Is notified about each acknowledged write.
    listener: Option<Arc<dyn WriteListener>>,
}

/// The limits for writes at the store.
#[derive(Clone, Copy, Debug)]
pub struct WriteLimits {
    /// How many writes are at the store at a time.
    pub at_once: usize,
    /// How long a write may wait for its permit.
    pub wait: Duration,
    /// How long the store may take before the outcome counts as unknown.
    pub takes: Duration,
    /// See [`answer_wait`].
    pub answer: Duration,
}

/// How long a call that writes waits for its answer: `least`, or two fifths of the time `left` to its
/// deadline if that is longer. Less than half, so that its caller has time for another node.
#[must_use]
pub fn answer_wait(least: Duration, left: Duration) -> Duration {
    least.max(left.mul_f64(0.4))
}

/// An acknowledged write, in the store and in this node's tiers.
#[derive(Clone, Debug)]
pub struct Committed<T> {
    /// The record as the write left it.
    pub record: Arc<T>,
    /// Reads that are at least as fresh as this token see it.
    pub token: Token,
}

/// One record's write, to be run by [`Mutations::write`].
pub struct RecordWrite<K, V, T> {
    /// The record's key.
    pub key: K,
    /// The write in the store.
    pub write: BoxFuture<'static, Result<Applied<T>, StoreError>>,
    /// The change in the tiers afterwards.
    pub change: fn(&Arc<T>) -> Change<V>,
}

/// One write to a group's members, to be run by [`Mutations::write_members`].
pub(crate) struct MembersWrite<V, R: Send + Sync + 'static, T> {
    /// The group that they are in.
    pub(crate) group: GroupId,
    /// The members whom it is expected to change; none: those are not known.
    pub(crate) keys: Vec<MemberKey>,
    /// The write of the group's roster, which has begun.
    pub(crate) roster: WriteGuard<GroupId, R>,
    /// The write in the store.
    pub(crate) write: BoxFuture<'static, Result<Applied<T>, StoreError>>,
    /// The changes in the tiers afterwards.
    pub(crate) changes: fn(&Applied<T>) -> MembersChanges<V, R>,
}

/// The changes in the tiers after a write to a group's members.
pub(crate) struct MembersChanges<V, R> {
    /// The changed members, who may be others than were expected. Expected members who are not named are
    /// dropped.
    pub(crate) members: Vec<(MemberKey, Change<V>)>,
    pub(crate) roster: Change<R>,
}

impl<K: std::fmt::Debug, V, T> std::fmt::Debug for RecordWrite<K, V, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordWrite").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Mutations {
    /// Creates it for the caches of `node`.
    #[must_use]
    pub fn new(node: Node, limits: &WriteLimits) -> Self {
        let admission = Arc::new(AdmissionQueue::new(limits.at_once, limits.wait));
        let queue_permits = Arc::new(QueuePermits::new(Arc::clone(&admission)));
        let (tasks, shed) = (TaskTracker::new(), ShedCounter::of(&MUTATIONS_SHED));
        Self {
            tasks,
            node,
            admission,
            queue_permits,
            shed,
            limit: limits.takes,
            answer: limits.answer,
            listener: None,
        }
    }

    /// Adds a listener, which samples some writes.
    #[must_use]
    pub fn with_listener(self, listener: Arc<dyn WriteListener>) -> Self {
        Self { listener: Some(listener), ..self }
    }

    /// How many have begun and not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.tasks.len()
    }

    /// How many were refused since the start because the store could not be expected to begin them in time.
    #[must_use]
    pub fn shed(&self) -> u64 {
        self.shed.number()
    }

    /// Waits until all that have begun have ended. False when `limit` passed first.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.tasks.close();
        timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Runs `work` to its end in a separate task, even if the caller goes away, or `deadline` passes.
    ///
    /// # Errors
    /// Returns what `work` returns; DEADLINE_EXCEEDED if the deadline had passed before it began.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        if Instant::now() >= deadline {
            return Err(Error::deadline());
        }
        match self.tasks.spawn(work.in_current_span()).await {
            Ok(result) => result,
            Err(_panicked) => Err(Error::internal()),
        }
    }

    /// Like [`Self::run`], for a client's call: answers it after [`answer_wait`] even if the work continues.
    /// Every step counts, including ids, reads and other nodes' confirmations.
    ///
    /// # Errors
    /// The errors of [`Self::run`]; UNAVAILABLE with unknown outcome when it takes longer.
    pub async fn call<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let limit = answer_wait(self.answer, deadline.saturating_duration_since(Instant::now()));
        match timeout(limit, self.run(deadline, work)).await {
            Ok(result) => result,
            Err(_late) => Err(Error::store("write", &unknown("no answer in time"))),
        }
    }

    /// Writes one record for a client's call: like [`Self::write`] within [`Self::call`].
    ///
    /// # Errors
    /// The errors of both; store errors name the kind of record after which the cache is named.
    pub async fn write_record<K: Key, V: Send + Sync + 'static, T: Send + Sync + 'static>(
        &self,
        cache: &TieredCache<K, V>,
        deadline: Instant,
        write: RecordWrite<K, V, T>,
    ) -> Result<Committed<T>, Error> {
        let (this, cache) = (self.clone(), cache.clone());
        let work = async move {
            this.write(&cache, write).await.map_err(|error| Error::store(cache.name(), &error))
        };
        self.call(deadline, work).await
    }

    /// Invalidates the cached record, writes it to the store, then updates the cache: the new value on
    /// success, nothing if the outcome is unknown, the previous value on failure. Must be called within
    /// [`Self::run`]: a dropped future leaves an unknown outcome.
    ///
    /// # Errors
    /// The store's errors. [`StoreError::Unavailable`] with unknown outcome if the namespace is strict and
    /// the change could not be published to other nodes in time: it is committed, and is published later.
    /// [`StoreError::Overloaded`] at once if the store cannot be expected to begin in time; then nothing is
    /// marked or written.
    pub async fn write<K: Key, V: Send + Sync + 'static, T: Send + 'static>(
        &self,
        cache: &TieredCache<K, V>,
        job: RecordWrite<K, V, T>,
    ) -> Result<Committed<T>, StoreError> {
        self.write_with(cache, job, None).await
    }

    /// Like [`Self::write`], but also changes others: lists that may show the record, records that may end
    /// with it. Their guards have begun. Everything is one publication, which the token covers; a repeated
    /// request publishes it again, because its first attempt may not have.
    ///
    /// # Errors
    /// The errors of [`Self::write`]; strict if the record or another changed item is.
    pub async fn write_with<K: Key, V: Send + Sync + 'static, T: Send + 'static>(
        &self,
        cache: &TieredCache<K, V>,
        job: RecordWrite<K, V, T>,
        others: impl IntoIterator<Item = WriteParts>,
    ) -> Result<Committed<T>, StoreError> {
        let RecordWrite { key, write, change } = job;
        let (permit, others) = self.permit_with(others).await?;
        let guard = cache.begin_write(std::slice::from_ref(&key)).await;
        let written = self.bounded(Step::StoreWrite.span(cache.name(), 1), write).await;
        permit.finish();
        let applied = match written {
            Ok(applied) => applied,
            Err(error) => return Err(failed(guard.invalidating().and(others), error).await),
        };
        let record = Arc::new(applied.record);
        let change = match (change(&record), applied.replayed) {
            (change, false) => change,
            // Another call changed it, perhaps on another node, and there may be later changes.
            (change, true) => Change::Invalidate { version: change.version() },
        };
        let version = change.version();
        let token = self.publish(guard.changing(vec![(key.clone(), change)]).and(others)).await?;
        if let (Some(listener), Some(version)) = (&self.listener, version.filter(|_| is_published(&token))) {
            listener.wrote(cache.name(), &key, version);
        }
        Ok(Committed { record, token })
    }

    /// Like [`Self::write`], for many records that one store call writes in an unknown way: memory drops
    /// them. Returns a token for them all.
    ///
    /// # Errors
    /// The errors of [`Self::write`].
    pub async fn write_all<K: Key, V: Send + Sync + 'static, T: Send + Sync + 'static>(
        &self,
        cache: &TieredCache<K, V>,
        keys: Vec<K>,
        write: BoxFuture<'static, Result<T, StoreError>>,
    ) -> Result<Committed<T>, StoreError> {
        self.write_all_with(cache, keys, None, write).await
    }

    /// Like [`Self::write_all`], but also changes others.
    ///
    /// # Errors
    /// The errors of [`Self::write_with`].
    pub async fn write_all_with<K: Key, V: Send + Sync + 'static, T: Send + Sync + 'static>(
        &self,
        cache: &TieredCache<K, V>,
        keys: Vec<K>,
        others: impl IntoIterator<Item = WriteParts>,
        write: BoxFuture<'static, Result<T, StoreError>>,
    ) -> Result<Committed<T>, StoreError> {
        let (permit, others) = self.permit_with(others).await?;
        let guard = cache.begin_write(&keys).await;
        let written = self.bounded(Step::StoreWrite.span(cache.name(), keys.len()), write).await;
        permit.finish();
        self.settle(guard.invalidating().and(others), written).await
    }

    /// Like [`Self::write_all`], but the store says how it has changed the records: `changes` has the change
    /// of each key.
    ///
    /// # Errors
    /// The errors of [`Self::write`].
    pub(crate) async fn write_each<K: Key, V: Send + Sync + 'static, T: Send + Sync + 'static>(
        &self,
        cache: &TieredCache<K, V>,
        keys: Vec<K>,
        write: BoxFuture<'static, Result<T, StoreError>>,
        changes: impl FnOnce(&T) -> Vec<(K, Change<V>)> + Send,
    ) -> Result<Committed<T>, StoreError> {
        let permit = self.permit().await?;
        let guard = cache.begin_write(&keys).await;
        let written = self.bounded(Step::StoreWrite.span(cache.name(), keys.len()), write).await;
        permit.finish();
        let parts = match &written {
            Ok(record) => guard.changing(changes(record)),
            Err(_) => guard.invalidating(),
        };
        self.settle(parts, written).await
    }

    /// Like [`Self::write_with`], but for members: the store decides a group's writes together, and all
    /// waiting writes for the group share a permit.
    ///
    /// # Errors
    /// The errors of [`Self::write_with`].
    pub(crate) async fn write_members<V, R, T>(
        &self,
        cache: &TieredCache<MemberKey, V>,
        job: MembersWrite<V, R, T>,
        others: Vec<WriteParts>,
    ) -> Result<Committed<T>, StoreError>
    where
        V: Send + Sync + 'static,
        R: Send + Sync + 'static,
        T: Send + Sync + 'static,
    {
        let MembersWrite { group, keys, roster, write, changes } = job;
        let Some(_permit) = self.queue_permits.acquire(group).await else {
            roster.aborted().await;
            return Err(refused(others, self.overloaded()));
        };
        let guard = cache.begin_write(&keys).await;
        let written = self.bounded(Step::StoreWrite.span(cache.name(), keys.len()), write).await;
        let parts = match &written {
            Ok(applied) => {
                let changes = changes(applied);
                let roster = roster.changing(vec![(group, changes.roster)]);
                guard.invalidating_but(changes.members).and([roster])
            }
            Err(_) => guard.invalidating().and([roster.invalidating()]),
        };
        self.settle(parts.and(others), written.map(|applied| applied.record)).await
    }

    /// Ends a write by its outcome.
    async fn settle<T>(
        &self,
        parts: WriteParts,
        written: Result<T, StoreError>,
    ) -> Result<Committed<T>, StoreError> {
        match written {
            Ok(record) => Ok(Committed { record: Arc::new(record), token: self.publish(parts).await? }),
            Err(error) => Err(failed(parts, error).await),
        }
    }

    /// Publishes what a committed write has changed.
    async fn publish(&self, parts: WriteParts) -> Result<Token, StoreError> {
        let is_strict = parts.is_strict();
        match parts.committed().await {
            Ok(token) => Ok(token),
            Err(_) if is_strict => Err(unknown("other nodes may not know of the write yet")),
            Err(_) => Ok(self.token_without_publish()),
        }
    }

    /// Writes data that no tier caches, in its permit and within the same time. Must be called within
    /// [`Self::run`], and never within another write, which has a permit already.
    ///
    /// # Errors
    /// The store's errors; [`StoreError::Overloaded`] at once if it cannot be expected to begin in time.
    pub(crate) async fn run_uncached<T: Send + 'static>(
        &self,
        write: BoxFuture<'static, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let permit = self.permit().await?;
        let written = self.bounded(Step::StoreWrite.span(UNCACHED, 1), write).await;
        permit.finish();
        written
    }

    /// A permit for a write that also changes these; without one they are unchanged.
    async fn permit_with(
        &self,
        others: impl IntoIterator<Item = WriteParts>,
    ) -> Result<(Permit<'_>, Vec<WriteParts>), StoreError> {
        let others: Vec<WriteParts> = others.into_iter().collect();
        match self.permit().await {
            Ok(permit) => Ok((permit, others)),
            Err(error) => Err(refused(others, error)),
        }
    }

    async fn permit(&self) -> Result<Permit<'_>, StoreError> {
        self.admission.acquire().await.ok_or_else(|| self.overloaded())
    }

    fn overloaded(&self) -> StoreError {
        self.shed.increment();
        StoreError::Overloaded
    }

    /// The token for a change that is published later: no memory certainly has it.
    pub(crate) fn token_without_publish(&self) -> Token {
        self.node.token_without_publish()
    }

    /// A driver's future must not be dropped early: after the limit it continues by itself, and the write's
    /// outcome counts as unknown. Copies that were loaded meanwhile may have no expiry, so if the write ends
    /// after its last repeated invalidation, the node's memory is emptied.
    async fn bounded<T: Send + 'static>(
        &self,
        span: Span,
        mut write: BoxFuture<'static, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let ended = timeout(self.limit, (&mut write).instrument(span.clone())).await;
        if ended.as_ref().map_or(true, |result| result.as_ref().is_err_and(is_fault)) {
            spans::fail(&span);
        }
        if let Ok(result) = ended {
            return result;
        }
        let (node, began) = (self.node.clone(), Instant::now());
        drop(self.tasks.spawn(async move {
            drop(write.await);
            if began.elapsed() >= LATE_WRITES_FOR {
                node.flush();
            }
        }));
        Err(unknown("the store did not answer in time"))
    }
}

/// Ends a write that was not begun.
fn refused(parts: Vec<WriteParts>, error: StoreError) -> StoreError {
    parts.into_iter().for_each(WriteParts::aborted);
    error
}

/// Ends a write that was not applied, or whose outcome is not known.
async fn failed(parts: WriteParts, error: StoreError) -> StoreError {
    if error.outcome() == Outcome::Unknown {
        // The cache queues what could not be published to other nodes now; nothing is left to do here.
        drop(parts.unknown().await);
    } else {
        parts.aborted();
    }
    error
}

/// Whether the store failed, and did not refuse the write by what it holds.
const fn is_fault(error: &StoreError) -> bool {
    use StoreError::{Corrupt, Full, Internal, Unavailable};
    matches!(error, Unavailable { .. } | Full { .. } | Corrupt { .. } | Internal { .. })
}

pub(crate) fn unknown(why: &'static str) -> StoreError {
    let source = Arc::new(std::io::Error::new(std::io::ErrorKind::TimedOut, why));
    StoreError::Unavailable { outcome: Outcome::Unknown, source }
}

/// A token that covers the write in `later` and the write before it. Numbers rise, but a write that is not
/// published yet has none.
pub(crate) fn covering(earlier: Option<Token>, later: Token) -> Token {
    earlier.filter(|token| !is_published(token)).unwrap_or(later)
}

/// Whether the write was published to the other nodes before it was acknowledged.
pub fn is_published(token: &Token) -> bool {
    token.positions().iter().all(|position| position.number != UNPUBLISHED)
}

#[cfg(test)]
mod tests;
