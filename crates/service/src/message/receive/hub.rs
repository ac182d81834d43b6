//! This node's receivers: one subscription wakes them all.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kith_delivery::{Generation, ReadFrom, SentMessages, Wake, WokenUser};
use kith_store::{ConversationId, UserId};
use parking_lot::Mutex;
use prost::bytes::Bytes;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::Instant,
};

use super::{
    super::{
        Inboxes,
        deliver::{ABANDONED_AFTER, UnconfirmedRanges},
    },
    ReceiverLiveness,
    waker::{FreshMessages, ReceiverWaker, WokenEntry},
};
use crate::{
    error::{Error, Reason},
    metric::RECEIVERS,
};

/// Receivers that read from inboxes, or read earlier entries' messages, at the same time: more would delay
/// all other calls.
const READERS: usize = 8;
/// Receivers that deliver the messages of a wake at the same time: a message to a large group is a wake for
/// all its members on the node.
const DELIVERERS: usize = 64;
/// Receivers that start at the same time. Each reads its user, its inbox and the user's groups, with a
/// backlog also where all conversations end: after a node's death, ten thousand may start on another node.
const STARTERS: usize = 8;
/// A receiver whose client has not answered a ping for this long gives way to its user's new receiver.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(10);

/// Wakes this node's receivers.
#[derive(Debug)]
pub(super) struct ReceiverHub {
    inboxes: Inboxes,
    receiver_permits: Arc<Semaphore>,
    /// The most receivers for one user.
    of_user_max: usize,
    /// Whether another node is to know what receivers have confirmed, in case this one dies.
    notes_confirmed: bool,
    read_permits: Semaphore,
    delivery_permits: Semaphore,
    start_permits: Semaphore,
    users: Mutex<HashMap<UserId, UserReceivers>>,
    /// The receivers that read conversations without their inboxes.
    logs: Mutex<HashMap<ConversationId, HashMap<u64, Arc<ReceiverWaker>>>>,
    next: AtomicU64,
}

/// A user's receivers by their number.
type UserReceivers = HashMap<u64, Arc<ReceiverWaker>>;

/// A receiver's registration in the hub. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct ReceiverRegistration {
    pub(super) waker: Arc<ReceiverWaker>,
    hub: Arc<ReceiverHub>,
    user: UserId,
    /// No other receiver on the node has it.
    pub(super) number: u64,
    logs: HashSet<ConversationId>,
    _permit: OwnedSemaphorePermit,
}

impl ReceiverHub {
    /// Creates a hub for at most `most` receivers, and at most `of_user_max` for one user.
    pub(super) fn new(inboxes: Inboxes, most: usize, of_user_max: usize) -> Self {
        Self {
            inboxes,
            receiver_permits: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            of_user_max,
            notes_confirmed: false,
            read_permits: Semaphore::new(READERS),
            delivery_permits: Semaphore::new(DELIVERERS),
            start_permits: Semaphore::new(STARTERS),
            users: Mutex::default(),
            logs: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Lets another node know what receivers have confirmed.
    pub(super) fn noting_confirmed(self, notes_confirmed: bool) -> Self {
        Self { notes_confirmed, ..self }
    }

    pub(super) const fn notes_confirmed(&self) -> bool {
        self.notes_confirmed
    }

    /// Registers a receiver for this user. From now on, wakes on this node reach it. If the user has as many
    /// as it may, the receiver whose client has not answered for longest gives way.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if the user, or the node, has as many as it may.
    pub(super) fn register(
        self: &Arc<Self>,
        user: UserId,
        liveness: Arc<ReceiverLiveness>,
    ) -> Result<ReceiverRegistration, Error> {
        let full = |_| too_many("the node has as many receivers as it may (messages.receivers)");
        let permit = Arc::clone(&self.receiver_permits).try_acquire_owned().map_err(full)?;
        let waker = Arc::new(ReceiverWaker::new(liveness));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut users = self.users.lock();
        let of_user = users.entry(user).or_default();
        if of_user.len() >= self.of_user_max && !one_gives_way(of_user) {
            return Err(too_many("the user has as many receivers as it may (messages.receivers_of_user)"));
        }
        of_user.insert(number, Arc::clone(&waker));
        metrics::gauge!(RECEIVERS.name).increment(1.0);
        let (hub, logs) = (Arc::clone(self), HashSet::new());
        Ok(ReceiverRegistration { waker, hub, user, number, logs, _permit: permit })
    }

    /// Wakes the receivers that a wake on this node is for.
    pub(super) fn wake(&self, wake: Wake) {
        match wake {
            Wake::Messages { sent, woken, lost } => {
                self.wake_all(sent, &woken);
                lost.into_iter().for_each(|user| self.wake_user(user, ReceiverWaker::inbox_lost));
            }
            // The inbox must be read: there may be any entries.
            Wake::Entries { user, .. } => self.wake_user(user, ReceiverWaker::request_read),
            Wake::Lost { user } => self.wake_user(user, ReceiverWaker::inbox_lost),
            Wake::Signal { user, signal } => self.signal(user, &signal),
            Wake::Conversation(sent) => self.add_log(sent),
        }
    }

    /// Makes all receivers read: wakes may be lost.
    pub(super) fn read_again(&self) {
        self.users.lock().values().flat_map(HashMap::values).for_each(|waker| waker.request_read());
    }

    /// Makes this user's receivers read their inbox.
    pub(super) fn request_read(&self, user: UserId) {
        self.wake_user(user, ReceiverWaker::request_read);
    }

    /// This user's inbox was renewed, in this generation.
    pub(super) fn inbox_renewed(&self, user: UserId, generation: Generation) {
        self.wake_user(user, |waker| waker.inbox_renewed(generation));
    }

    /// The users that have receivers.
    pub(super) fn users(&self) -> Vec<UserId> {
        self.users.lock().keys().copied().collect()
    }

    /// A permit to read, released when it is dropped. Never `None`.
    pub(super) async fn read_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.read_permits.acquire().await.ok()
    }

    /// Waits likewise for a permit to deliver a wake's messages.
    pub(super) async fn delivery_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.delivery_permits.acquire().await.ok()
    }

    /// Waits likewise for a permit to start. A task with such a permit must not wait for another of the same
    /// kind.
    pub(super) async fn start_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.start_permits.acquire().await.ok()
    }

    fn wake_all(&self, sent: SentMessages, woken: &[WokenUser]) {
        let fresh = FreshMessages { sent: Arc::new(sent), received_at: Instant::now() };
        for WokenUser { user, generation, position, first } in woken {
            let (generation, position, first) = (*generation, *position, *first);
            self.wake_user(*user, |waker| {
                waker.add_entry(WokenEntry { generation, position, first, fresh: fresh.clone() });
            });
        }
    }

    fn signal(&self, user: UserId, signal: &Bytes) {
        self.wake_user(user, |waker| waker.add_signal(signal));
    }

    /// A conversation that is not written to inboxes has these messages.
    pub(super) fn add_log(&self, sent: SentMessages) {
        let fresh = FreshMessages { sent: Arc::new(sent), received_at: Instant::now() };
        if let Some(readers) = self.logs.lock().get(&fresh.sent.conversation) {
            readers.values().for_each(|waker| waker.add_log(&fresh));
        }
    }

    /// Gives a lost receiver's unconfirmed messages to another receiver of the user. False: it has none here.
    pub(super) fn hand_over(&self, user: UserId, unconfirmed: &mut UnconfirmedRanges) -> bool {
        let users = self.users.lock();
        let Some(of_user) = users.get(&user) else { return false };
        // A receiver whose connection says nothing gets the messages, too.
        if let Some(other) = of_user.values().map(|waker| waker.liveness()).find(|other| other.has_signs()) {
            other.take_over(std::mem::take(unconfirmed));
        }
        true
    }

    /// Where this user's inbox begins to be unconfirmed, by the receiver that has confirmed most; `None`: the
    /// user has no receiver in this generation here.
    pub(super) fn confirmed(&self, user: UserId, generation: Generation) -> Option<ReadFrom> {
        let users = self.users.lock();
        let confirmed = users.get(&user)?.values().filter_map(|waker| waker.liveness().confirmed(generation));
        confirmed.max().map(|after| ReadFrom { user, generation, after })
    }

    /// The conversations that receivers on this node read without their inboxes.
    pub(super) fn logs(&self) -> Vec<ConversationId> {
        self.logs.lock().keys().copied().collect()
    }

    fn wake_user(&self, user: UserId, wake: impl Fn(&ReceiverWaker)) {
        if let Some(of_user) = self.users.lock().get(&user) {
            of_user.values().for_each(|waker| wake(waker));
        }
    }

    fn has(&self, user: UserId) -> bool {
        self.users.lock().contains_key(&user)
    }

    /// Ends the wakes for a user who has no receiver here any more, and whose receivers were not lost.
    async fn end(self: Arc<Self>, user: UserId) {
        Arc::clone(&self).close(user).await;
        self.forget(user).await;
    }

    /// Forgets what this user's receivers have confirmed. If that fails, it is forgotten when it is not
    /// renewed.
    pub(super) async fn forget(&self, user: UserId) {
        if self.notes_confirmed && !self.has(user) {
            let Inboxes { keeper, node } = &self.inboxes;
            keeper.forget(node, &[user], ABANDONED_AFTER).await.ok();
        }
    }

    /// Ends the wakes for a user who has no receiver here any more.
    pub(super) async fn close(self: Arc<Self>, user: UserId) {
        if self.has(user) {
            return;
        }
        self.inboxes.keeper.close(&self.inboxes.node, user).await.ok();
        // A receiver that began in between may have opened the inbox before it was closed.
        if self.has(user) {
            drop(self.inboxes.keeper.open(&self.inboxes.node, &[user]).await);
            self.request_read(user);
        }
    }
}

impl ReceiverRegistration {
    /// Begins to wake the receiver for messages of these conversations.
    pub(super) fn subscribe_logs(&mut self, conversations: &[ConversationId]) {
        let mut logs = self.hub.logs.lock();
        for conversation in conversations {
            logs.entry(*conversation).or_default().insert(self.number, Arc::clone(&self.waker));
            self.logs.insert(*conversation);
        }
    }

    /// Ends that for all other conversations.
    pub(super) fn retain_logs(&mut self, keep: impl Fn(&ConversationId) -> bool) {
        let mut logs = self.hub.logs.lock();
        for conversation in self.logs.extract_if(|conversation| !keep(conversation)) {
            if let Some(readers) = logs.get_mut(&conversation) {
                readers.remove(&self.number);
                if readers.is_empty() {
                    logs.remove(&conversation);
                }
            }
        }
    }
}

impl ReceiverRegistration {
    /// Ends the receiver's wakes. Returns whether it was its user's last receiver.
    pub(super) fn leave(&mut self) -> bool {
        self.retain_logs(|_| false);
        let mut users = self.hub.users.lock();
        let Some(of_user) = users.get_mut(&self.user) else { return false };
        let is_last = of_user.remove(&self.number).is_some() && of_user.is_empty();
        if is_last {
            users.remove(&self.user);
        }
        is_last
    }

    /// Ends the wakes for a user whose last receiver has left.
    pub(super) fn end_user(&self) {
        // Without a runtime the node has ended, and is forgotten after a while.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(Arc::clone(&self.hub).end(self.user));
        }
    }
}

impl Drop for ReceiverRegistration {
    fn drop(&mut self) {
        metrics::gauge!(RECEIVERS.name).decrement(1.0);
        if self.leave() {
            self.end_user();
        }
    }
}

/// Removes the receiver whose client has not answered a ping for longest. False: all clients have answered
/// lately. Then they are pinged, so that a lost one gives way when the client comes again.
fn one_gives_way(of_user: &mut UserReceivers) -> bool {
    let silent = of_user.iter().filter_map(|(number, waker)| Some((waker.liveness().silent_for()?, *number)));
    let longest = silent.max().filter(|(silent_for, _)| *silent_for >= GIVES_WAY_AFTER);
    let Some((_, number)) = longest else {
        of_user.values().for_each(|waker| waker.liveness().request_ping());
        return false;
    };
    let waker = of_user.remove(&number);
    waker.iter().for_each(|waker| waker.liveness().give_way());
    true
}

fn too_many(why: &'static str) -> Error {
    Error::new(Reason::TooManyReceivers, why)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use kith_delivery::InboxKeeper as _;
    use kith_store::{NodeName, Timestamp};

    use super::{
        super::{super::faulty_inboxes::FaultyInboxes, ConnectionRequest},
        *,
    };
    use crate::sample::user;

    fn node() -> NodeName {
        "node".parse().unwrap()
    }

    fn sent(last: i64) -> SentMessages {
        SentMessages { conversation: "g9".parse().unwrap(), last, sent: Timestamp(0), entries: Vec::new() }
    }

    fn hub(most: usize, of_user_max: usize) -> (Arc<ReceiverHub>, Arc<FaultyInboxes>) {
        let keeper = Arc::new(FaultyInboxes::new());
        let inboxes = Inboxes::new(Arc::<FaultyInboxes>::clone(&keeper), node());
        (Arc::new(ReceiverHub::new(inboxes, most, of_user_max)), keeper)
    }

    fn register(hub: &Arc<ReceiverHub>, id: i64) -> Result<ReceiverRegistration, Error> {
        hub.register(user(id), Arc::new(ReceiverLiveness::without_signs()))
    }

    /// Whether a message to user 1 wakes the node.
    async fn is_woken(keeper: &FaultyInboxes, last: i64) -> bool {
        !keeper.fan_out(&sent(last), &[user(1)]).await.wakes.is_empty()
    }

    #[tokio::test]
    async fn receivers_are_bounded() {
        let (hub, _) = hub(3, 2);
        let first = [register(&hub, 1).unwrap(), register(&hub, 1).unwrap()];
        assert_eq!(register(&hub, 1).unwrap_err().reason(), Reason::TooManyReceivers);
        let _other = register(&hub, 2).unwrap();
        assert_eq!(register(&hub, 3).unwrap_err().reason(), Reason::TooManyReceivers);
        drop(first);
        assert!(register(&hub, 3).is_ok() && register(&hub, 1).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_receiver_gives_way_to_a_new_one() {
        let (hub, _) = hub(9, 2);
        let clients = [Arc::<ReceiverLiveness>::default(), Arc::default()];
        let of = |client: &Arc<ReceiverLiveness>| hub.register(user(1), Arc::clone(client));
        let registered = clients.each_ref().map(|client| of(client).unwrap());
        assert!(register(&hub, 1).is_err());
        for client in &clients {
            assert_eq!(client.next_request().await, ConnectionRequest::Ping, "whether it is still there");
            client.pinged();
        }
        clients[0].answered(true);
        tokio::time::advance(GIVES_WAY_AFTER - Duration::from_millis(1)).await;
        assert!(register(&hub, 1).is_err());
        tokio::time::advance(Duration::from_millis(1)).await;
        let new = register(&hub, 1).unwrap();
        assert_eq!(clients[1].next_request().await, ConnectionRequest::End);
        assert!(clients[1].is_lost() && !clients[0].is_lost());
        drop(registered);
        assert!(hub.has(user(1)), "the new one stays");
        drop(new);
        assert!(!hub.has(user(1)));
    }

    #[tokio::test]
    async fn wake_reaches_the_receivers_of_its_users() {
        let (hub, _) = hub(9, 9);
        let registered = [register(&hub, 1).unwrap(), register(&hub, 1).unwrap(), register(&hub, 2).unwrap()];
        let generation = Generation { epoch: 1, number: 1 };
        let woken = vec![WokenUser { user: user(1), generation, position: 5, first: Some(7) }];
        hub.wake(Wake::Messages { sent: sent(7), woken, lost: vec![user(2)] });
        for receiver in &registered[..2] {
            let entry = receiver.waker.next_work().await.entry.unwrap();
            assert_eq!((entry.position, entry.first, entry.fresh.sent.last), (5, Some(7), 7));
        }
        assert!(registered[2].waker.next_work().await.lost);
    }

    #[tokio::test]
    async fn wake_without_messages_makes_receivers_read() {
        let (hub, _) = hub(9, 9);
        let (receiver, other) = (register(&hub, 1).unwrap(), register(&hub, 2).unwrap());
        let generation = Generation { epoch: 1, number: 1 };
        hub.wake(Wake::Entries { user: user(1), generation, position: 5 });
        let work = receiver.waker.next_work().await;
        assert!(work.read && !work.lost);
        hub.wake(Wake::Lost { user: user(1) });
        let work = receiver.waker.next_work().await;
        assert!(work.lost && !work.read);
        assert!(futures::poll!(Box::pin(other.waker.next_work())).is_pending());
    }

    #[tokio::test]
    async fn conversation_wake_reaches_its_readers() {
        let (hub, _) = hub(9, 9);
        let (mut reader, other) = (register(&hub, 1).unwrap(), register(&hub, 2).unwrap());
        reader.subscribe_logs(&["g9".parse().unwrap(), "g8".parse().unwrap()]);
        hub.wake(Wake::Conversation(sent(7)));
        assert_eq!(reader.waker.next_work().await.logs[0].sent.last, 7);
        assert!(futures::poll!(Box::pin(other.waker.next_work())).is_pending());
        reader.retain_logs(|kept| *kept != "g9".parse().unwrap());
        hub.wake(Wake::Conversation(sent(8)));
        assert!(futures::poll!(Box::pin(reader.waker.next_work())).is_pending());
        assert_eq!(hub.logs(), ["g8".parse().unwrap()]);
        drop(reader);
        assert_eq!(hub.logs(), []);
    }

    #[tokio::test]
    async fn inbox_is_closed_with_its_last_receiver() {
        let (hub, keeper) = hub(9, 9);
        let registered = [register(&hub, 1).unwrap(), register(&hub, 1).unwrap()];
        keeper.open(&node(), &[user(1)]).await[0].as_ref().unwrap();
        let [first, second] = registered;
        drop(first);
        tokio::task::yield_now().await;
        assert!(is_woken(&keeper, 1).await);
        drop(second);
        tokio::task::yield_now().await;
        assert!(!is_woken(&keeper, 2).await);
    }

    #[tokio::test]
    async fn receiver_that_comes_at_the_close_is_woken() {
        let (hub, keeper) = hub(9, 9);
        let first = register(&hub, 1).unwrap();
        keeper.open(&node(), &[user(1)]).await[0].as_ref().unwrap();
        drop(first);
        // Its close has not begun.
        let second = register(&hub, 1).unwrap();
        keeper.open(&node(), &[user(1)]).await[0].as_ref().unwrap();
        tokio::task::yield_now().await;
        assert!(is_woken(&keeper, 1).await);
        drop(second);
    }

    #[tokio::test]
    async fn receiver_during_the_close_is_woken_and_reads() {
        let (hub, keeper) = hub(9, 9);
        let first = register(&hub, 1).unwrap();
        keeper.open(&node(), &[user(1)]).await[0].as_ref().unwrap();
        let (to, from) = std::sync::mpsc::channel();
        let (at, inboxes) = (Arc::clone(&hub), Arc::clone(&keeper));
        *keeper.before_close.lock() = Some(Box::new(move || {
            to.send(register(&at, 1).unwrap()).unwrap();
            inboxes.open(&node(), &[user(1)]).now_or_never().unwrap()[0].as_ref().unwrap();
        }));
        drop(first);
        tokio::task::yield_now().await;
        let second = from.try_recv().unwrap();
        assert!(is_woken(&keeper, 1).await);
        assert!(second.waker.next_work().await.read, "what came while the inbox was closed");
    }
}
