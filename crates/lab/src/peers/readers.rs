use std::{
    fmt,
    ops::Range,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use super::{Peer, Staleness, Store};

/// What readers met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads that were answered.
    pub answered: u64,
    /// Reads that failed.
    pub failed: u64,
    /// How long the longest took, failed ones too.
    pub longest: Duration,
    /// How old versions were when they were asked for; of all reads the oldest.
    pub stalest: Staleness,
    /// The last read of a version that had been old for more than [`LATE`], counted from the acknowledgement of
    /// a later one.
    pub late: Option<Instant>,
    /// How late the machine woke a thread that does nothing else, at worst: of a busy one, this is part of what a
    /// read takes.
    pub pause: Duration,
}

/// How old what is read may be.
pub const LATE: Duration = Duration::from_secs(3);

impl Tally {
    fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.longest = self.longest.max(other.longest);
        self.late = self.late.max(other.late);
        self.stalest.told = self.stalest.told.max(other.stalest.told);
        self.stalest.acknowledged = self.stalest.acknowledged.max(other.stalest.acknowledged);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, failed, longest, stalest, late: _, pause } = self;
        let Staleness { told, acknowledged } = stalest;
        write!(f, "{answered} reads, {failed} failed, longest {longest:.1?} (of the machine {pause:.1?}), ")?;
        write!(f, "stalest {told:.1?} after it was told, {acknowledged:.1?} after it was acknowledged")
    }
}

/// Tasks that read keys of a peer at random until they are stopped.
#[derive(Debug)]
pub struct Readers {
    end: watch::Sender<bool>,
    made: watch::Sender<u64>,
    tasks: JoinSet<Tally>,
    pauses: JoinHandle<Duration>,
}

impl Readers {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        let end = watch::Sender::new(false);
        let ended = end.subscribe();
        let pauses = thread::spawn(move || longest_pause(&ended));
        Self { end, made: watch::Sender::new(0), tasks: JoinSet::new(), pauses }
    }

    /// One more, of these keys on this peer, with a pause between two reads.
    pub fn add(&mut self, peer: &Arc<Peer>, store: &Store, keys: Range<u64>, pause: Duration) {
        let (peer, store) = (Arc::clone(peer), store.clone());
        let (end, made) = (self.end.subscribe(), self.made.clone());
        let seed = u64::try_from(self.tasks.len()).unwrap_or_default();
        self.tasks.spawn(async move {
            let (mut tally, mut random) = (Tally::default(), SmallRng::seed_from_u64(seed));
            while !*end.borrow() {
                tally.add(read(&peer, &store, random.random_range(keys.clone())).await);
                made.send_modify(|reads| *reads += 1);
                sleep(pause).await;
            }
            tally
        });
    }

    /// Returns when they have made this many reads together, failed ones too.
    pub async fn until_made(&self, reads: u64) {
        // The sender is here: it cannot be gone.
        drop(self.made.subscribe().wait_for(|made| *made >= reads).await);
    }

    /// Ends them; the sum of what they met.
    pub async fn end(mut self) -> Tally {
        self.end.send_replace(true);
        // The thread does nothing that could panic.
        let mut sum = Tally { pause: self.pauses.join().unwrap_or_default(), ..Tally::default() };
        while let Some(tally) = self.tasks.join_next().await {
            // A reader that panicked has failed.
            sum.add(tally.unwrap_or(Tally { failed: 1, ..Tally::default() }));
        }
        sum
    }
}

impl Default for Readers {
    fn default() -> Self {
        Self::new()
    }
}

/// Between two looks at the clock of the machine.
const LOOK: Duration = Duration::from_millis(2);

/// How late the machine woke this thread at worst, until it is ended.
pub(crate) fn longest_pause(ended: &watch::Receiver<bool>) -> Duration {
    let mut longest = Duration::ZERO;
    // Without the readers no signal ends it.
    while !*ended.borrow() && ended.has_changed().is_ok() {
        let began = Instant::now();
        thread::sleep(LOOK);
        longest = longest.max(began.elapsed().saturating_sub(LOOK));
    }
    longest
}

async fn read(peer: &Peer, store: &Store, key: u64) -> Tally {
    let began = Instant::now();
    let read = peer.read(key).await;
    let longest = began.elapsed();
    match read {
        Ok(version) => {
            let stalest = store.staleness(key, version, began);
            let late = (stalest.acknowledged > LATE).then_some(began);
            Tally { answered: 1, longest, stalest, late, ..Tally::default() }
        }
        Err(_) => Tally { failed: 1, longest, ..Tally::default() },
    }
}
