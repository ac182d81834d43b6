//! The node that the namespaces of a process share. Every memory hit checks its trust deadline; the bus
//! advances its position and renews its trust.

use std::{
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::{
    Acknowledge, Bus, CacheError, Clock, Consistency, Invalidation, LocalBus, Moment, Namespace, Position,
    Random, Session, SystemClock, ThreadRandom, Token, TokenIssuer, UNPUBLISHED, UNSEEN,
    api::wait_until::until,
    remote::PublishedChange,
    storage::Storage,
    testing::{
        failpoints::{Failpoint, reach},
        rules,
    },
};

/// The only partition so far.
const PARTITION: u16 = 0;
/// A partition that no node follows: reads that demand it ask the store.
const NO_PARTITION: u16 = 1;

/// The state that all namespaces of a node share: bus, clock, trust, and the position in the changes.
///
/// Cheap to clone; the clones are one node. Namespaces keep their node alive, not the other way round.
#[derive(Clone)]
pub struct Node(Arc<NodeState>);

/// The dependencies of a [`Node`].
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The epoch in which the bus counts, from the store.
    pub epoch: u64,
    /// The clock for expiry and trust.
    pub clock: Arc<dyn Clock>,
    /// The source of jitter.
    pub random: Arc<dyn Random>,
    /// The bus that orders and carries the changes.
    pub bus: Arc<dyn Bus>,
    /// How long a read may wait for a change that this node has yet to apply.
    pub token_wait: Duration,
    /// Issues the tokens of writes, and accepts those that clients send back.
    pub tokens: TokenIssuer,
    /// Until when memory may be served at first: [`Moment::NEVER`] for a node without peers; the default
    /// moment, which is past, for a node that has not received anything from its bus yet.
    pub trusted_until: Moment,
    /// How long namespaces that are not strict are still served after the deadline.
    pub trust_grace: Duration,
    /// Largest weight that all namespaces' copies may have, in bytes, with their keys and all bookkeeping. Up
    /// to 384 more copies may wait for the decision which copies stay, and small copies that were evicted and
    /// are still found take at most a third of it besides.
    pub memory_bytes: u64,
}

impl NodeConfig {
    /// Configures a node without peers: the machine's clock, the thread's generator, a bus within the
    /// process, trusted for ever. Waits 20 ms for a token; 1.5 s grace; 256 MiB.
    #[must_use]
    pub fn local(epoch: u64) -> Self {
        Self {
            epoch,
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(ThreadRandom),
            bus: Arc::new(LocalBus::new()),
            token_wait: Duration::from_millis(20),
            tokens: TokenIssuer::random(),
            trusted_until: Moment::NEVER,
            trust_grace: Duration::from_millis(1_500),
            memory_bytes: 256 << 20,
        }
    }

    /// A node that follows the others by this bus, and trusts its memory only then. Otherwise as
    /// [`Self::local`].
    #[must_use]
    pub fn following(bus: Arc<dyn Bus>) -> Self {
        Self { bus, trusted_until: Moment::default(), ..Self::local(0) }
    }
}

/// How many writes of a node were acknowledged before other nodes could see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HiddenWrites {
    /// Changes that were published later.
    unpublished: u64,
    /// Messages that their windows may not have.
    unseen: u64,
}

struct NodeState {
    epoch: AtomicU64,
    trusted_until: AtomicU64,
    /// When trust began that has not ended since.
    trusted_since: AtomicU64,
    applied: AtomicU64,
    /// Number of the last change of this epoch that was published here. It may be above `applied`.
    published: AtomicU64,
    /// See [`HiddenWrites`].
    unpublished: AtomicU64,
    unseen: AtomicU64,
    /// Wakes readers that wait for `applied`, in their order.
    reached: Notify,
    namespaces: RwLock<Vec<Weak<dyn Namespace>>>,
    storage: Arc<Storage>,
    config: NodeConfig,
}

impl Node {
    /// Creates a node without namespaces; each [`TieredCache::new`](crate::TieredCache::new) adds its
    /// namespace.
    #[must_use]
    pub fn new(config: NodeConfig) -> Self {
        Self(Arc::new(NodeState {
            epoch: AtomicU64::new(config.epoch),
            trusted_until: AtomicU64::new(config.trusted_until.get()),
            trusted_since: AtomicU64::new(config.clock.now().get()),
            applied: AtomicU64::new(config.bus.baseline()),
            published: AtomicU64::new(0),
            unpublished: AtomicU64::new(0),
            unseen: AtomicU64::new(0),
            reached: Notify::new(),
            namespaces: RwLock::default(),
            storage: Arc::new(Storage::new(config.memory_bytes)),
            config,
        }))
    }

    /// A node without peers, see [`NodeConfig::local`].
    #[must_use]
    pub fn local(epoch: u64) -> Self {
        Self::new(NodeConfig::local(epoch))
    }

    /// The epoch in which the bus counts.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Acquire)
    }

    /// Number of the last change applied here; all before it are applied too.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.0.applied.load(Ordering::Acquire)
    }

    /// Whether the trust deadline lies ahead.
    #[must_use]
    pub fn trusted(&self) -> bool {
        self.now() < self.trusted_until()
    }

    /// The position of this node now.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token_of(self.applied())
    }

    /// The token of this number in the present epoch.
    #[must_use]
    pub fn token_of(&self, number: u64) -> Token {
        self.0.config.tokens.issue(Position { partition: PARTITION, epoch: self.epoch(), number })
    }

    /// Accepts the tokens that clients send back.
    #[must_use]
    pub fn tokens(&self) -> &TokenIssuer {
        &self.0.config.tokens
    }

    /// Whether this node has applied everything that the tokens demand. A read with a token that it has not
    /// reached may ask the store.
    #[must_use]
    pub fn has_reached(&self, tokens: &[Token]) -> bool {
        let applied = self.applied();
        let mut positions = tokens.iter().flat_map(Token::positions);
        positions.all(|position| self.is_current(position) && position.number <= applied)
    }

    /// Waits, as reads with a token do, until this node has applied everything that the session demands.
    /// Returns the position that reads have to demand from the store; `None`: memory has everything.
    pub async fn reach_session(&self, session: &Session) -> Option<Position> {
        let tokens = session.tokens();
        if self.has_reached(tokens) {
            return None;
        }
        let mut demand = Position { partition: NO_PARTITION, epoch: 0, number: UNPUBLISHED };
        let positions = || tokens.iter().flat_map(Token::positions);
        if positions().all(|position| self.is_current(position) && position.number < UNSEEN) {
            demand = positions().max_by_key(|position| position.number).copied().unwrap_or(demand);
            if self.reached(demand.number).await {
                return None;
            }
        }
        Some(demand)
    }

    /// What this node has acknowledged and other nodes may not see yet, see [`Self::extend_session`].
    #[must_use]
    pub fn hidden_writes(&self) -> HiddenWrites {
        HiddenWrites {
            unpublished: self.0.unpublished.load(Ordering::Acquire),
            unseen: self.0.unseen.load(Ordering::Acquire),
        }
    }

    /// Makes the session demand what this node has applied, and all writes that this node has acknowledged in
    /// this epoch. `before`: the counts before a write, which may be among those that were counted since;
    /// `None` for a read.
    pub fn extend_session(&self, session: &mut Session, before: Option<HiddenWrites>) {
        session.add(self.token_of(self.applied().max(self.0.published.load(Ordering::Acquire))));
        let (Some(before), now) = (before, self.hidden_writes()) else { return };
        if before.unpublished != now.unpublished {
            session.add(self.token_of(UNPUBLISHED));
        }
        if before.unseen != now.unseen {
            session.add(self.token_of(UNSEEN));
        }
    }

    /// Counts a change that is acknowledged now and published later, and returns its token.
    #[must_use]
    pub fn token_without_publish(&self) -> Token {
        self.0.unpublished.fetch_add(1, Ordering::AcqRel);
        self.token_of(UNPUBLISHED)
    }

    /// Counts a message that is acknowledged now, and that its window may not have.
    pub fn count_unseen(&self) {
        self.0.unseen.fetch_add(1, Ordering::AcqRel);
    }

    /// The namespaces with live caches, in the order of their creation.
    #[must_use]
    pub fn namespaces(&self) -> Vec<Arc<dyn Namespace>> {
        self.0.namespaces.read().iter().filter_map(Weak::upgrade).collect()
    }

    /// The namespace with this name.
    #[must_use]
    pub fn namespace(&self, name: &str) -> Option<Arc<dyn Namespace>> {
        let namespaces = self.0.namespaces.read();
        namespaces.iter().filter_map(Weak::upgrade).find(|namespace| namespace.name() == name)
    }

    /// Empties the memory of all namespaces: nothing loaded before is served or filled afterwards.
    pub fn flush(&self) {
        self.namespaces().iter().for_each(|namespace| namespace.flush());
    }

    /// Brings the metrics up to date. Call it before metrics are rendered.
    pub fn export_metrics(&self) {
        self.namespaces().iter().for_each(|namespace| namespace.export_metrics());
    }
}

/// These functions are for bus implementations.
impl Node {
    /// Applies another node's changes, then [`reach`](Self::reach)es their number. Must be called in the
    /// order of the numbers, without gaps. A namespace that this node does not have is skipped.
    pub fn apply(&self, number: u64, changes: &[Invalidation]) {
        changes.iter().for_each(|change| self.apply_change(&PublishedChange::of(change)));
        self.reach(number);
    }

    /// Applies one received change. A namespace that this node does not have is skipped.
    pub(crate) fn apply_change(&self, change: &PublishedChange<'_>) {
        if let Some(namespace) = self.namespace(change.namespace) {
            namespace.apply(change.key, change.version);
        }
    }

    /// Every change up to this number is applied. A number below the present one changes nothing.
    pub fn reach(&self, number: u64) {
        if self.0.applied.fetch_max(number, Ordering::AcqRel) < number {
            self.0.reached.notify_waiters();
        }
    }

    /// Continues from this number of this epoch, after possible gaps. Always flushes.
    pub fn adopt(&self, epoch: u64, number: u64) {
        self.0.epoch.store(epoch, Ordering::Release);
        if rules::adopt_flushes() {
            self.flush();
        }
        self.0.published.store(0, Ordering::Release);
        self.0.applied.store(number, Ordering::Release);
        self.0.reached.notify_waiters();
    }

    /// Memory may be served until then. Only an answer to a probe of this node renews trust, counted from the
    /// moment the probe was sent.
    pub fn trust_until(&self, deadline: Moment) {
        let now = self.now();
        let before = self.0.trusted_until.swap(deadline.get(), Ordering::AcqRel);
        if now >= Moment::new(before) {
            self.0.trusted_since.store(now.get(), Ordering::Release);
        }
    }
}

impl Node {
    /// The copies of all namespaces.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.0.storage
    }

    pub(crate) fn now(&self) -> Moment {
        self.0.config.clock.now()
    }

    /// A random number, never 0: identifies loads and entries.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "chance, not a quantity")]
    pub(crate) fn random_id(&self) -> u64 {
        let half = || (self.random_unit() * 4_294_967_296.0) as u64;
        (half() << 32 | half()).max(1)
    }

    /// A random number from 0 to below 1.
    pub(crate) fn random_unit(&self) -> f64 {
        self.0.config.random.unit()
    }

    /// Whether memory may be served at this moment.
    #[inline]
    pub(crate) fn may_serve(&self, now: Moment, strict: bool) -> bool {
        let until = self.trusted_until();
        let lenient = || !strict && now < until.after(self.0.config.trust_grace);
        now < until || lenient() || !rules::trust_deadline()
    }

    /// How long the node has trusted its memory without an interruption; zero if it does not.
    pub(crate) fn trusted_for(&self) -> Duration {
        let since = Moment::new(self.0.trusted_since.load(Ordering::Acquire));
        if self.trusted() { self.now().since(since) } else { Duration::ZERO }
    }

    /// Time since the proof by which memory is, or was, trusted for so long; `None` before the first.
    pub(crate) fn since_proof(&self, trust: Duration) -> Option<Duration> {
        let (until, now) = (self.trusted_until(), self.now());
        let passed = || trust.saturating_sub(until.since(now)) + now.since(until);
        (until > Moment::default()).then(passed)
    }

    /// Whether memory was served before, but not for so long that nothing of it may be served now.
    pub(crate) fn has_lapsed(&self, now: Moment) -> bool {
        let until = self.trusted_until();
        until > Moment::default() && now >= until.after(self.0.config.trust_grace)
    }

    /// # Panics
    /// When a live namespace has the name.
    pub(crate) fn register(&self, namespace: &Arc<dyn Namespace>) {
        let mut namespaces = self.0.namespaces.write();
        namespaces.retain(|known| known.strong_count() > 0);
        let taken = namespaces.iter().filter_map(Weak::upgrade).any(|known| known.name() == namespace.name());
        assert!(!taken, "the node has a namespace {} already", namespace.name());
        namespaces.push(Arc::downgrade(namespace));
    }

    /// Publishes. Without changes, returns the present position.
    pub(crate) async fn publish(
        &self,
        changes: &[Invalidation],
        acknowledge: Acknowledge,
    ) -> Result<Token, CacheError> {
        if changes.is_empty() {
            return Ok(self.token());
        }
        reach(Failpoint::BeforePublish).await;
        let position = self.0.config.bus.publish(self, changes, acknowledge).await;
        reach(Failpoint::AfterPublish).await;
        let position = position.map_err(CacheError::Bus)?;
        self.note_published(position);
        Ok(self.0.config.tokens.issue(position))
    }

    /// A change of an earlier epoch has no number that sessions could demand.
    fn note_published(&self, position: Position) {
        if position.number == UNPUBLISHED || position.epoch != self.epoch() {
            self.0.unpublished.fetch_add(1, Ordering::AcqRel);
        } else {
            self.0.published.fetch_max(position.number, Ordering::AcqRel);
        }
    }

    /// Whether a read of this consistency may use memory, waiting a little for changes on their way.
    pub(crate) async fn may_use_memory(&self, consistency: &Consistency) -> bool {
        match consistency {
            Consistency::Cached => true,
            Consistency::Strong => !rules::strong_leads(),
            Consistency::AtLeast(tokens) => {
                let positions = || tokens.iter().flat_map(Token::positions);
                let here = positions().all(|position| self.is_current(position));
                let number = positions().map(|position| position.number).max().unwrap_or(0);
                here && self.reached(number).await
            }
        }
    }

    fn is_current(&self, position: &Position) -> bool {
        let same = position.partition == PARTITION && position.epoch == self.epoch();
        same || !rules::token_epoch()
    }

    async fn reached(&self, number: u64) -> bool {
        if self.applied() >= number || !rules::token_ahead() {
            return true;
        }
        let wait = until(&self.0.reached, || self.applied() >= number);
        tokio::time::timeout(self.0.config.token_wait, wait).await.is_ok()
    }

    fn trusted_until(&self) -> Moment {
        Moment::new(self.0.trusted_until.load(Ordering::Acquire))
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("epoch", &self.epoch())
            .field("applied", &self.applied())
            .finish_non_exhaustive()
    }
}
