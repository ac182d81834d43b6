//! The node's one subscription, shared by all watchers.

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
        Semaphore, SemaphorePermit,
        mpsc::{self, error::TrySendError},
        watch,
    },
    time::timeout,
};

use super::watch_places::{WatchPlace, WatchPlaces};
use crate::{
    error::{Error, Reason},
    rpc::call::Principal,
};

/// Watchers that read at the same time: more would delay Redis for all others.
const READERS: usize = 8;

/// A notification to a watcher.
#[derive(Clone, Debug)]
pub(super) enum PresenceUpdate {
    /// A user's gateways changed.
    Event(Event),
    /// Changes may be missed, or users who are not seen are offline now instead of unknown: everything must
    /// be read again.
    ReadAgain,
}

/// Notifies watchers.
#[derive(Debug)]
pub(super) struct PresenceHub {
    places: Arc<WatchPlaces>,
    read_permits: Semaphore,
    queue_max: usize,
    registered: Mutex<RegisteredWatchers>,
    next: AtomicU64,
    /// Whether the node receives changes.
    live: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct RegisteredWatchers {
    watchers: HashMap<u64, mpsc::Sender<PresenceUpdate>>,
    of_user: HashMap<UserId, HashSet<u64>>,
}

/// A watcher's registration. It ends when it is dropped. It receives no more if it does not keep up.
#[derive(Debug)]
pub(super) struct WatchRegistration {
    pub(super) updates: mpsc::Receiver<PresenceUpdate>,
    hub: Arc<PresenceHub>,
    number: u64,
    users: Vec<UserId>,
    _place: WatchPlace,
}

impl PresenceHub {
    pub(super) fn new(places: Arc<WatchPlaces>, queue_max: usize) -> Self {
        Self {
            places,
            read_permits: Semaphore::new(READERS),
            queue_max,
            registered: Mutex::default(),
            next: AtomicU64::new(0),
            live: watch::Sender::default(),
        }
    }

    /// Subscribes to these users' changes, for an acting user or a service. Each change after the call
    /// returned is delivered. Waits at most this time until the node receives events.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the user, or the node, has the most watchers, UNAVAILABLE.
    pub(super) async fn watch(
        self: &Arc<Self>,
        users: Vec<UserId>,
        principal: Principal,
        limit: Duration,
    ) -> Result<WatchRegistration, Error> {
        let place = self.places.take(principal.user())?;
        let mut live = self.live.subscribe();
        let is_live = timeout(limit, live.wait_for(|live| *live)).await;
        if !matches!(is_live, Ok(Ok(_))) {
            return Err(Error::new(Reason::StoreUnavailable, "changes of presence cannot be received now"));
        }
        let (sender, updates) = mpsc::channel(self.queue_max);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut registered = self.registered.lock();
        registered.watchers.insert(number, sender);
        for user in &users {
            registered.of_user.entry(*user).or_default().insert(number);
        }
        drop(registered);
        Ok(WatchRegistration { updates, hub: Arc::clone(self), number, users, _place: place })
    }

    /// Notifies the user's watchers.
    pub(super) fn notify(&self, event: &Event) {
        let mut registered = self.registered.lock();
        let watchers = registered.of_user.get(&event.user).map(|all| all.iter().copied().collect::<Vec<_>>());
        for number in watchers.unwrap_or_default() {
            registered.send(number, PresenceUpdate::Event(event.clone()));
        }
    }

    /// Notifies all watchers to read again.
    pub(super) fn read_again(&self) {
        let mut registered = self.registered.lock();
        let all: Vec<u64> = registered.watchers.keys().copied().collect();
        for number in all {
            registered.send(number, PresenceUpdate::ReadAgain);
        }
    }

    /// A permit to read, released when it is dropped. Never `None`.
    pub(super) async fn read_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.read_permits.acquire().await.ok()
    }

    /// Sets whether the node receives changes. If it did not before, all watchers read again.
    pub(super) fn set_live(&self, live: bool) {
        let before = self.live.send_replace(live);
        if live && !before {
            self.read_again();
        }
    }

    pub(super) fn count(&self) -> usize {
        self.registered.lock().watchers.len()
    }
}

impl RegisteredWatchers {
    /// A watcher that does not keep up receives no more.
    fn send(&mut self, number: u64, update: PresenceUpdate) {
        let sent = self.watchers.get(&number).map(|watcher| watcher.try_send(update));
        if matches!(sent, Some(Err(TrySendError::Full(_)))) {
            self.watchers.remove(&number);
        }
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        let mut registered = self.hub.registered.lock();
        registered.watchers.remove(&self.number);
        for user in &self.users {
            if let Some(numbers) = registered.of_user.get_mut(user) {
                numbers.remove(&self.number);
                if numbers.is_empty() {
                    registered.of_user.remove(user);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::user;

    fn hub(most: usize, queue_max: usize) -> Arc<PresenceHub> {
        Arc::new(PresenceHub::new(WatchPlaces::new(most, most), queue_max))
    }

    fn event(id: i64, version: i64) -> Event {
        Event { user: user(id), version, gateways: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_watcher_is_dropped_and_others_stay() {
        let hub = hub(2, 2);
        hub.set_live(true);
        let mut slow = hub.watch(vec![user(1), user(2)], Principal::Service, Duration::ZERO).await.unwrap();
        let mut quick = hub.watch(vec![user(1)], Principal::Service, Duration::ZERO).await.unwrap();
        for version in 1..=3 {
            hub.notify(&event(1, version));
            assert!(
                matches!(quick.updates.recv().await, Some(PresenceUpdate::Event(event)) if event.version == version)
            );
        }
        hub.notify(&event(2, 9));
        assert!(slow.updates.recv().await.is_some() && slow.updates.recv().await.is_some());
        assert!(slow.updates.recv().await.is_none(), "its channel is closed");
        assert_eq!(hub.count(), 1);
        drop((slow, quick));
        assert!(hub.registered.lock().of_user.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn watchers_are_bounded_and_need_events() {
        let hub = hub(1, 2);
        let unavailable =
            hub.watch(vec![user(1)], Principal::Service, Duration::from_secs(2)).await.unwrap_err();
        assert_eq!(unavailable.reason(), Reason::StoreUnavailable);
        hub.set_live(true);
        let first = hub.watch(vec![user(1)], Principal::Service, Duration::ZERO).await.unwrap();
        let full = hub.watch(vec![user(1)], Principal::Service, Duration::ZERO).await.unwrap_err();
        assert_eq!(full.reason(), Reason::Overloaded);
        drop(first);
        hub.watch(vec![user(1)], Principal::Service, Duration::ZERO).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn all_read_again_after_a_reconnection() {
        let hub = hub(1, 4);
        hub.set_live(true);
        let mut one = hub.watch(vec![user(1)], Principal::Service, Duration::ZERO).await.unwrap();
        hub.set_live(true);
        hub.set_live(false);
        hub.set_live(true);
        assert!(matches!(one.updates.try_recv(), Ok(PresenceUpdate::ReadAgain)));
        assert!(one.updates.try_recv().is_err());
    }
}
