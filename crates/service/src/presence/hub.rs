//! One subscription of the node, shared by all watchers.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kith_presence::Event;
use kith_store::UserId;
use parking_lot::Mutex;
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore, SemaphorePermit,
        mpsc::{self, error::TrySendError},
        watch,
    },
    time::timeout,
};

use crate::error::{Error, Reason};

/// Watchers that read at the same time: more would delay Redis for all others.
const READERS: usize = 8;

/// A notification to a watcher.
#[derive(Clone, Debug)]
pub(super) enum PresenceUpdate {
    /// The gateways of a user changed.
    Event(Event),
    /// Changes may be missed, or users who are not seen are offline now instead of unknown: everything must be read
    /// again.
    ReadAgain,
}

/// Notifies watchers.
#[derive(Debug)]
pub(super) struct PresenceHub {
    places: Arc<Semaphore>,
    readers: Semaphore,
    behind_max: usize,
    watching: Mutex<Watchers>,
    next: AtomicU64,
    /// Whether the node receives changes.
    live: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Watchers {
    watchers: HashMap<u64, mpsc::Sender<PresenceUpdate>>,
    of_user: HashMap<UserId, HashSet<u64>>,
}

/// The registration of a watcher, which ends when it is dropped. It receives no more if it does not keep up.
#[derive(Debug)]
pub(super) struct WatchRegistration {
    pub(super) news: mpsc::Receiver<PresenceUpdate>,
    hub: Arc<PresenceHub>,
    number: u64,
    users: Vec<UserId>,
    _permit: OwnedSemaphorePermit,
}

impl PresenceHub {
    pub(super) fn new(most: usize, behind_max: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            readers: Semaphore::new(READERS),
            behind_max,
            watching: Mutex::default(),
            next: AtomicU64::new(0),
            live: watch::Sender::default(),
        }
    }

    /// Begins to notify of changes of these users. Each change after the call returned is delivered. Waits at most this
    /// time until the node receives events.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the maximum of watchers is reached, UNAVAILABLE.
    pub(super) async fn watch(
        self: &Arc<Self>,
        users: Vec<UserId>,
        limit: Duration,
    ) -> Result<WatchRegistration, Error> {
        let full =
            |_| Error::new(Reason::Overloaded, "presence is watched by as many as may (presence.watchers)");
        let permit = Arc::clone(&self.places).try_acquire_owned().map_err(full)?;
        let mut live = self.live.subscribe();
        let hears = timeout(limit, live.wait_for(|live| *live)).await;
        if !matches!(hears, Ok(Ok(_))) {
            return Err(Error::new(Reason::StoreUnavailable, "changes of presence cannot be heard now"));
        }
        let (sender, news) = mpsc::channel(self.behind_max);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut watching = self.watching.lock();
        watching.watchers.insert(number, sender);
        for user in &users {
            watching.of_user.entry(*user).or_default().insert(number);
        }
        drop(watching);
        Ok(WatchRegistration { news, hub: Arc::clone(self), number, users, _permit: permit })
    }

    /// Notifies the watchers of the user.
    pub(super) fn notify(&self, event: &Event) {
        let mut watching = self.watching.lock();
        let watchers = watching.of_user.get(&event.user).map(|all| all.iter().copied().collect::<Vec<_>>());
        for number in watchers.unwrap_or_default() {
            watching.send(number, PresenceUpdate::Event(event.clone()));
        }
    }

    /// Notifies all watchers to read again.
    pub(super) fn read_again(&self) {
        let mut watching = self.watching.lock();
        let all: Vec<u64> = watching.watchers.keys().copied().collect();
        for number in all {
            watching.send(number, PresenceUpdate::ReadAgain);
        }
    }

    /// A turn to read, released when it is dropped. Never `None`.
    pub(super) async fn reading(&self) -> Option<SemaphorePermit<'_>> {
        self.readers.acquire().await.ok()
    }

    /// Sets whether the node receives changes. If it did not before, all watchers read again.
    pub(super) fn hears(&self, hears: bool) {
        let before = self.live.send_replace(hears);
        if hears && !before {
            self.read_again();
        }
    }

    pub(super) fn count(&self) -> usize {
        self.watching.lock().watchers.len()
    }
}

impl Watchers {
    /// A watcher that does not keep up receives no more.
    fn send(&mut self, number: u64, news: PresenceUpdate) {
        let sent = self.watchers.get(&number).map(|watcher| watcher.try_send(news));
        if matches!(sent, Some(Err(TrySendError::Full(_)))) {
            self.watchers.remove(&number);
        }
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        let mut watching = self.hub.watching.lock();
        watching.watchers.remove(&self.number);
        for user in &self.users {
            if let Some(numbers) = watching.of_user.get_mut(user) {
                numbers.remove(&self.number);
                if numbers.is_empty() {
                    watching.of_user.remove(user);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::user;

    fn event(id: i64, version: i64) -> Event {
        Event { user: user(id), version, gateways: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_watcher_is_dropped_and_others_stay() {
        let hub = Arc::new(PresenceHub::new(2, 2));
        hub.hears(true);
        let mut slow = hub.watch(vec![user(1), user(2)], Duration::ZERO).await.unwrap();
        let mut quick = hub.watch(vec![user(1)], Duration::ZERO).await.unwrap();
        for version in 1..=3 {
            hub.notify(&event(1, version));
            assert!(
                matches!(quick.news.recv().await, Some(PresenceUpdate::Event(event)) if event.version == version)
            );
        }
        hub.notify(&event(2, 9));
        assert!(slow.news.recv().await.is_some() && slow.news.recv().await.is_some());
        assert!(slow.news.recv().await.is_none(), "its news have ended");
        assert_eq!(hub.count(), 1);
        drop((slow, quick));
        assert!(hub.watching.lock().of_user.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn watchers_are_bounded_and_need_events() {
        let hub = Arc::new(PresenceHub::new(1, 2));
        let away = hub.watch(vec![user(1)], Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(away.reason(), Reason::StoreUnavailable);
        hub.hears(true);
        let first = hub.watch(vec![user(1)], Duration::ZERO).await.unwrap();
        let full = hub.watch(vec![user(1)], Duration::ZERO).await.unwrap_err();
        assert_eq!(full.reason(), Reason::Overloaded);
        drop(first);
        hub.watch(vec![user(1)], Duration::ZERO).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn all_read_again_once_it_is_heard_again() {
        let hub = Arc::new(PresenceHub::new(1, 4));
        hub.hears(true);
        let mut one = hub.watch(vec![user(1)], Duration::ZERO).await.unwrap();
        hub.hears(true);
        hub.hears(false);
        hub.hears(true);
        assert!(matches!(one.news.try_recv(), Ok(PresenceUpdate::ReadAgain)));
        assert!(one.news.try_recv().is_err());
    }
}
