//! Answers that their peers have not read yet.
//!
//! A peer whose window is closed, or that does not read, would otherwise have the node hold an answer for
//! each call that it may make, each with up to 4 MiB, and the place of every stream for as long as a stream
//! may take.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use bytes::Bytes;

/// Smaller data is not counted: it costs about what its call's stream costs anyway, and there is a bound on
/// how many there are.
const COUNTED_FROM: usize = 1 << 10;

/// The answer bytes that the node holds for all connections, and the most that it may hold.
#[derive(Debug)]
pub(super) struct NodeUnread {
    bytes: ByteBudget,
    per_connection: usize,
}

/// One connection's answers that its peer has not read: their bytes, which also count for the node, and since
/// when they wait for the peer.
#[derive(Debug)]
pub(crate) struct ConnectionUnread {
    node: Arc<NodeUnread>,
    bytes: ByteBudget,
    /// Bodies that wait for the peer, by whether the period in which they began to is even.
    waiting: [AtomicUsize; 2],
    period: AtomicU64,
}

/// The connection, or the node, holds as many unread bytes as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadFull;

#[derive(Debug)]
struct ByteBudget {
    held: AtomicUsize,
    most: usize,
}

impl ByteBudget {
    const fn new(most: usize) -> Self {
        Self { held: AtomicUsize::new(0), most }
    }

    fn reserve(&self, bytes: usize) -> Result<(), UnreadFull> {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.most);
        let reserved = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        reserved.map(drop).map_err(|_| UnreadFull)
    }

    fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl NodeUnread {
    pub(super) fn new(node: usize, per_connection: usize) -> Arc<Self> {
        Arc::new(Self { bytes: ByteBudget::new(node), per_connection })
    }

    /// Counts for a new connection.
    pub(super) fn connection(self: &Arc<Self>) -> Arc<ConnectionUnread> {
        Arc::new(ConnectionUnread {
            node: Arc::clone(self),
            bytes: ByteBudget::new(self.per_connection),
            waiting: Default::default(),
            period: AtomicU64::new(0),
        })
    }

    /// How many bytes the node holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.held.load(Ordering::Relaxed)
    }
}

impl ConnectionUnread {
    /// Returns the same data, counted until its last byte is written to the peer.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(crate) fn hold(self: &Arc<Self>, data: Bytes) -> Result<Bytes, UnreadFull> {
        let bytes = data.len();
        if bytes < COUNTED_FROM {
            return Ok(data);
        }
        self.bytes.reserve(bytes)?;
        if let Err(full) = self.node.bytes.reserve(bytes) {
            self.bytes.release(bytes);
            return Err(full);
        }
        let since = self.begin_wait();
        Ok(Bytes::from_owner(UnreadData { data, since, unread: Arc::clone(self) }))
    }

    /// A body waits for the peer from now on. Returns what [`Self::end_wait`] takes.
    pub(crate) fn begin_wait(&self) -> u64 {
        let period = self.period.load(Ordering::Relaxed);
        self.waiting(period).fetch_add(1, Ordering::Relaxed);
        period
    }

    /// Ends a wait that began in this period.
    pub(crate) fn end_wait(&self, since: u64) {
        self.waiting(since).fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends a period. Returns true if something has waited for the peer during the whole period, and maybe
    /// during a part of the period before.
    pub(crate) fn end_period(&self) -> bool {
        let period = self.period.load(Ordering::Relaxed);
        // Counts answers from the period before, and none from any earlier period.
        if self.waiting(period.wrapping_add(1)).load(Ordering::Relaxed) > 0 {
            return true;
        }
        self.period.store(period.wrapping_add(1), Ordering::Relaxed);
        false
    }

    fn waiting(&self, period: u64) -> &AtomicUsize {
        &self.waiting[usize::from(period % 2 == 1)]
    }
}

/// Data that is counted until it is dropped.
struct UnreadData {
    data: Bytes,
    since: u64,
    unread: Arc<ConnectionUnread>,
}

impl AsRef<[u8]> for UnreadData {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for UnreadData {
    fn drop(&mut self) {
        let bytes = self.data.len();
        self.unread.end_wait(self.since);
        self.unread.bytes.release(bytes);
        self.unread.node.bytes.release(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(bytes: usize) -> Bytes {
        Bytes::from(vec![7; bytes])
    }

    #[test]
    fn bytes_are_held_until_the_last_part_is_dropped() {
        let node = NodeUnread::new(10_000, 10_000);
        let connection = node.connection();
        let mut whole = connection.hold(data(4_000)).unwrap();
        let part = whole.split_to(1_000);
        assert_eq!((node.bytes(), part.len() + whole.len()), (4_000, 4_000));
        drop(whole);
        assert_eq!(node.bytes(), 4_000);
        drop(part);
        assert_eq!(node.bytes(), 0);
    }

    #[test]
    fn unread_bytes_are_bounded_per_connection() {
        let node = NodeUnread::new(5_000, 3_000);
        let (one, other) = (node.connection(), node.connection());
        let first = one.hold(data(2_000)).unwrap();
        assert_eq!(one.hold(data(2_000)), Err(UnreadFull), "of the connection");
        let second = other.hold(data(2_000)).unwrap();
        let third = node.connection();
        assert_eq!(third.hold(data(2_000)), Err(UnreadFull), "of the node");
        assert!(third.hold(data(COUNTED_FROM - 1)).is_ok(), "small answers pass");
        drop(first);
        let fourth = third.hold(data(2_000)).unwrap();
        drop((second, fourth));
        assert_eq!(node.bytes(), 0, "a refusal holds nothing");
    }

    #[test]
    fn what_waits_through_a_whole_period_is_noticed() {
        let connection = NodeUnread::new(1 << 20, 1 << 20).connection();
        assert!(!connection.end_period() && !connection.end_period(), "nothing waits");
        let held = connection.hold(data(2_000)).unwrap();
        assert!(!connection.end_period(), "it has not waited for a whole period");
        drop(held);
        let held = connection.hold(data(2_000)).unwrap();
        assert!(!connection.end_period(), "this is another one");
        assert!(connection.end_period(), "it has");
        drop(held);
        let since = connection.begin_wait();
        assert!(!connection.end_period());
        assert!(connection.end_period(), "a body that is not asked for waits too");
        connection.end_wait(since);
        assert!(!connection.end_period());
    }
}
