//! Places whose number is limited. Peers that prove nothing must not be able to keep them from others.
//!
//! Nothing is limited by address: behind a load balancer all clients have one address. While there is room,
//! everyone gets a place. When four fifths are taken, a newcomer gets the place of the oldest stranger at the
//! address with most strangers. A stranger is a peer that has not made a call with a credential, which takes
//! an honest client one round trip.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kith_service::metric;
use metrics::Counter;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The bits in an IPv6 address that its owner cannot choose.
const NETWORK_BITS: u32 = 64;

/// The purpose of the places. This is the metric's label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlaceKind {
    /// Connections on the gRPC port.
    Connections,
    /// Sockets whose user is not known yet.
    Sockets,
    /// Health and reflection streams.
    HealthWatches,
    /// Connections on the operations port.
    Operations,
}

impl PlaceKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Sockets => "sockets_waiting",
            Self::HealthWatches => "health_watches",
            Self::Operations => "operations",
        }
    }
}

/// A limited number of places.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    displaced: Counter,
    table: Mutex<PlaceTable>,
}

/// A place, until dropped. It may be given to another peer before.
#[derive(Debug)]
pub(crate) struct HeldPlace {
    id: u64,
    peer: Arc<RemotePeer>,
    places: Arc<Places>,
    displaced: CancellationToken,
}

/// A connection's other end. All places that a connection holds belong to one peer.
#[derive(Debug)]
pub(crate) struct RemotePeer {
    network: IpAddr,
    is_proven: AtomicBool,
    /// The places that it has as a stranger.
    places: Mutex<Vec<(Arc<Places>, u64)>>,
}

/// No place is free, and none can be made free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacesFull;

/// The peers that have a place. Ids rise, so that the lowest id is the oldest.
#[derive(Debug, Default)]
struct PlaceTable {
    next: u64,
    /// Places that are taken.
    taken: usize,
    /// How many places strangers have.
    strangers: usize,
    by_network: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
    /// The last entry has most strangers. Among entries with equally many it has the oldest stranger.
    order: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
}

impl Places {
    pub(crate) fn new(kind: PlaceKind, most: usize) -> Arc<Self> {
        let displaced = metrics::counter!(metric::PLACES_DISPLACED.name, "kind" => kind.name());
        Arc::new(Self { most, displaced, table: Mutex::default() })
    }

    /// How many there are.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Takes a place for this peer. Also returns whether it was another peer's place.
    ///
    /// # Errors
    /// When all places are taken by peers that are no strangers.
    pub(crate) fn take(self: &Arc<Self>, peer: &Arc<RemotePeer>) -> Result<(HeldPlace, bool), PlacesFull> {
        // Locked, so that the peer becomes no caller meanwhile.
        let mut places_of_peer = peer.places.lock();
        let is_proven = peer.is_proven();
        let displaced = CancellationToken::new();
        let mut table = self.table.lock();
        let makes_room = self.is_crowded(&table, is_proven) && table.displace();
        if table.taken >= self.most {
            return Err(PlacesFull);
        }
        let id = table.take();
        if !is_proven {
            table.add(peer.network, id, displaced.clone());
            places_of_peer.push((Arc::clone(self), id));
        }
        drop(table);
        drop(places_of_peer);
        if makes_room {
            self.displaced.increment(1);
        }
        Ok((HeldPlace { id, peer: Arc::clone(peer), places: Arc::clone(self), displaced }, makes_room))
    }

    /// Ends one stranger's place. Returns whether there was a stranger.
    pub(crate) fn make_room(&self) -> bool {
        let made = self.table.lock().displace();
        if made {
            self.displaced.increment(1);
        }
        made
    }

    /// Whether a newcomer has to get a stranger's place. Callers use all places, and strangers at least a
    /// tenth: with fewer, no newcomer would have time to prove anything.
    fn is_crowded(&self, table: &PlaceTable, is_proven: bool) -> bool {
        let above_four_fifths = table.taken >= self.most - self.most / 5;
        table.taken >= self.most
            || (!is_proven && above_four_fifths && table.strangers >= (self.most / 10).max(1))
    }
}

impl PlaceTable {
    fn take(&mut self) -> u64 {
        self.taken += 1;
        self.next += 1;
        self.next
    }

    fn add(&mut self, network: IpAddr, id: u64, displaced: CancellationToken) {
        self.change(network, |strangers| strangers.insert(id, displaced));
        self.strangers += 1;
    }

    /// The place no longer belongs to a stranger. Returns false if it did not.
    fn remove(&mut self, network: IpAddr, id: u64) -> bool {
        let is_removed = self.change(network, |strangers| strangers.remove(&id)).is_some();
        self.strangers -= usize::from(is_removed);
        is_removed
    }

    fn change<T>(
        &mut self,
        network: IpAddr,
        change: impl FnOnce(&mut BTreeMap<u64, CancellationToken>) -> T,
    ) -> T {
        let strangers = self.by_network.entry(network).or_default();
        if let Some(before) = order_of(network, strangers) {
            self.order.remove(&before);
        }
        let changed = change(strangers);
        match order_of(network, strangers) {
            Some(after) => {
                self.order.insert(after);
            }
            None => {
                self.by_network.remove(&network);
            }
        }
        changed
    }

    /// Ends the place of the oldest stranger at the address with most strangers.
    fn displace(&mut self) -> bool {
        let Some((_, Reverse(oldest), network)) = self.order.last().copied() else { return false };
        if let Some(displaced) = self.change(network, |strangers| strangers.remove(&oldest)) {
            self.strangers -= 1;
            self.taken -= 1;
            // Behind the lock: a place that is dropped later knows that it was counted.
            displaced.cancel();
        }
        true
    }
}

fn order_of(
    network: IpAddr,
    strangers: &BTreeMap<u64, CancellationToken>,
) -> Option<(usize, Reverse<u64>, IpAddr)> {
    strangers.first_key_value().map(|(oldest, _)| (strangers.len(), Reverse(*oldest), network))
}

impl HeldPlace {
    /// Cancelled when the place is given to another peer.
    pub(crate) const fn displaced(&self) -> &CancellationToken {
        &self.displaced
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut table = self.places.table.lock();
        if !self.displaced.is_cancelled() {
            table.remove(self.peer.network, self.id);
            table.taken -= 1;
        }
        drop(table);
        let is_other =
            |(places, id): &(Arc<Places>, u64)| *id != self.id || !Arc::ptr_eq(places, &self.places);
        self.peer.places.lock().retain(is_other);
    }
}

impl RemotePeer {
    /// A stranger at this address.
    pub(crate) fn new(address: IpAddr) -> Arc<Self> {
        Arc::new(Self {
            network: network(address),
            is_proven: AtomicBool::new(false),
            places: Mutex::default(),
        })
    }

    /// One within the process.
    pub(crate) fn internal() -> Arc<Self> {
        let peer = Self::new(Ipv6Addr::LOCALHOST.into());
        peer.prove();
        peer
    }

    /// Records a call with a credential: from now on nothing that the peer has is given to others.
    pub(crate) fn prove(&self) {
        if self.is_proven() {
            return;
        }
        let mut places = self.places.lock();
        self.is_proven.store(true, Ordering::Relaxed);
        for (places, id) in places.drain(..) {
            places.table.lock().remove(self.network, id);
        }
    }

    fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }
}

/// The part of an address that its owner cannot choose.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << NETWORK_BITS)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize) -> Arc<Places> {
        Places::new(PlaceKind::Connections, most)
    }

    fn peer(address: &str) -> Arc<RemotePeer> {
        RemotePeer::new(address.parse().unwrap())
    }

    /// Strangers at this address, each on its own connection.
    fn strangers(places: &Arc<Places>, address: &str, count: usize) -> Vec<HeldPlace> {
        (0..count).map(|_| places.take(&peer(address)).unwrap().0).collect()
    }

    fn callers(places: &Arc<Places>, count: usize) -> Vec<HeldPlace> {
        let caller = || {
            let (place, _) = places.take(&peer("10.0.0.7")).unwrap();
            place.peer.prove();
            place
        };
        (0..count).map(|_| caller()).collect()
    }

    fn displaced(places: &[HeldPlace]) -> Vec<usize> {
        (0..places.len()).filter(|at| places[*at].displaced.is_cancelled()).collect()
    }

    #[test]
    fn all_places_are_free_up_to_four_fifths() {
        let places = places(100);
        let held = strangers(&places, "10.0.0.1", 80);
        assert_eq!(displaced(&held), [0; 0]);
        let more = strangers(&places, "10.0.0.1", 3);
        assert_eq!(displaced(&held), [0, 1, 2], "the oldest first");
        drop(more);
        let more = strangers(&places, "10.0.0.1", 3);
        assert_eq!(displaced(&held), [0, 1, 2], "there is room again");
        drop((held, more));
        assert_eq!(places.table.lock().taken, 0);
        assert!(places.table.lock().by_network.is_empty() && places.table.lock().order.is_empty());
    }

    #[test]
    fn address_with_most_strangers_gives_way() {
        let places = places(100);
        let honest = strangers(&places, "10.0.0.1", 1);
        let many = strangers(&places, "10.0.0.2", 50);
        let others: Vec<_> = (3..32).flat_map(|at| strangers(&places, &format!("10.0.0.{at}"), 1)).collect();
        let more = strangers(&places, "10.0.0.99", 49);
        assert_eq!((displaced(&honest), displaced(&others)), (vec![], vec![]));
        assert_eq!((displaced(&many).len(), displaced(&more).len()), (26, 23), "they have 24 and 26 left");
        let last = strangers(&places, "10.0.0.1", 1);
        assert_eq!((displaced(&honest).len(), displaced(&last).len(), displaced(&more).len()), (0, 0, 24));
    }

    #[test]
    fn an_ipv6_network_is_one_address() {
        let places = places(10);
        let held: Vec<_> = (0..7).flat_map(|at| strangers(&places, &format!("2001:db8::{at}"), 1)).collect();
        let other = strangers(&places, "2001:db8:0:1::1", 1);
        let mapped = strangers(&places, "::ffff:10.0.0.1", 1);
        let v4 = strangers(&places, "10.0.0.1", 1);
        assert_eq!(displaced(&held), [0, 1]);
        assert_eq!((displaced(&other), displaced(&mapped), displaced(&v4)), (vec![], vec![], vec![]));
        assert_eq!(places.table.lock().by_network.len(), 3);
    }

    #[test]
    fn callers_keep_their_places() {
        let places = places(100);
        let known = callers(&places, 75);
        let held = strangers(&places, "10.0.0.1", 500);
        assert_eq!(displaced(&known), [0; 0]);
        assert_eq!(displaced(&held).len(), 490, "strangers have a tenth");
        let more = callers(&places, 25);
        assert_eq!((displaced(&known), displaced(&more)), (vec![], vec![]));
        assert_eq!(displaced(&held).len(), 500, "callers take all places");
    }

    #[test]
    fn full_of_callers_there_is_no_place() {
        let places = places(10);
        let mut known = callers(&places, 9);
        let held = strangers(&places, "10.0.0.1", 1);
        known.extend(callers(&places, 1));
        assert_eq!(displaced(&held), [0], "the last stranger");
        assert_eq!(places.take(&peer("10.0.0.1")).err(), Some(PlacesFull));
        assert_eq!(places.take(&RemotePeer::internal()).err(), Some(PlacesFull));
        assert!(!places.make_room());
        drop(known.pop());
        assert!(places.take(&peer("10.0.0.1")).is_ok());
    }

    #[test]
    fn proof_holds_for_all_places_of_a_peer() {
        let (connections, watches) = (places(10), places(10));
        let peer = peer("10.0.0.1");
        let held = [connections.take(&peer).unwrap().0, watches.take(&peer).unwrap().0];
        peer.prove();
        let later = watches.take(&peer).unwrap().0;
        for places in [&connections, &watches] {
            drop(strangers(places, "10.0.0.2", 100));
            assert!(!places.make_room());
        }
        assert_eq!((displaced(&held), later.displaced.is_cancelled()), (vec![], false));
        drop((held, later));
        assert_eq!((connections.table.lock().taken, watches.table.lock().taken), (0, 0));
    }
}
