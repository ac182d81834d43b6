//! The connections to Redis. Reads and changes of cells begin with `begin_call` and end with
//! `AcceptedCall::finish`, which discards the answer if the connection no longer leads to the accepted
//! server.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{Value, config::Config},
};
use futures::future::join_all;
use tokio::{sync::Mutex, task::JoinSet, time::timeout};

use super::{
    BreakerState, RedisError, RedisOptions,
    breaker::{Breaker, Trial},
    failures::{is_replica, meaning},
    link::{Link, hold},
    names::Names,
    proof_link::ProofLink,
    scripts::{Scripts, publish_command},
    values,
};
use crate::{metrics::counters::Counter, remote::shared::SharedError};

/// By how much copies may expire earlier, so that copies written together do not expire together.
const JITTER: f64 = 0.1;

/// Redis as the shared server: `Cells`, `Log` and `Registry`. Connections are opened, and reopened, in the
/// background until it is dropped. A call ends within the command timeout, whatever the server does.
pub struct RedisShared {
    pub(super) options: RedisOptions,
    pub(super) config: Config,
    pub(super) names: Arc<Names>,
    pub(super) scripts: Scripts,
    /// Links for cells and changes. It is known which server they lead to.
    data: Vec<Arc<Link>>,
    /// The link for requests that any server may answer, and for those that may block a connection.
    pub(super) control: Arc<Link>,
    /// The link for probes and confirmations alone. `None` before the first.
    proof: Mutex<Option<Arc<ProofLink>>>,
    next: AtomicUsize,
    breaker: Arc<Breaker>,
    pub(super) probes: Counter,
    /// Invalid messages on a channel.
    pub(super) garbled: Arc<Counter>,
    _tasks: JoinSet<()>,
}

/// A call in progress over a link that leads to the accepted server.
pub(super) struct AcceptedCall<'a> {
    shared: &'a RedisShared,
    link: &'a Link,
    count: u64,
    trial: Trial<'a>,
}

impl RedisShared {
    /// Begins to connect, and waits for it within the connect timeout; then it continues in the background,
    /// so that a node can start while Redis is unavailable. Needs a runtime.
    ///
    /// # Errors
    /// When the address or the prefix cannot be used; whether a server answers is not asked.
    pub async fn connect(options: RedisOptions) -> Result<Arc<Self>, RedisError> {
        let config = options.config()?;
        let names = Arc::new(Names::new(&options.prefix, options.database_id, config.database)?);
        let scripts = Scripts::new(publish_command(config.server.is_clustered()));
        let link = || Arc::new(Link::new(&options, config.clone()));
        let data: Vec<Arc<Link>> = (0..options.pool.max(1)).map(|_| link()).collect();
        let (control, breaker) = (link(), Arc::new(Breaker::default()));
        let mut tasks = JoinSet::new();
        for link in data.iter().chain([&control]) {
            tasks.spawn(hold(Arc::clone(link), Arc::clone(&breaker)));
        }
        let asked = join_all(data.iter().chain([&control]).map(|link| link.asked()));
        // An unavailable server is no error here.
        drop(timeout(options.connect_timeout, asked).await);
        Ok(Arc::new(Self {
            names,
            config,
            scripts,
            data,
            control,
            proof: Mutex::default(),
            next: AtomicUsize::new(0),
            breaker,
            probes: Counter::default(),
            garbled: Arc::default(),
            options,
            _tasks: tasks,
        }))
    }

    /// Whether reads and changes are let through to the server.
    #[must_use]
    pub fn breaker(&self) -> BreakerState {
        self.breaker.state()
    }

    /// How often the breaker has opened since the start.
    #[must_use]
    pub fn breaker_opened(&self) -> u64 {
        self.breaker.opened()
    }

    /// Messages received on the channels of wakes and confirmations that no node can have sent, since the
    /// start.
    #[must_use]
    pub fn garbled(&self) -> u64 {
        self.garbled.get()
    }

    /// Begins a call to the accepted server.
    pub(super) fn begin_call(&self) -> Result<AcceptedCall<'_>, SharedError> {
        let trial = self.breaker.enter().ok_or(SharedError::Unavailable)?;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let links = (0..self.data.len()).map(|at| &self.data[(first + at) % self.data.len()]);
        let mut good = links.filter_map(|link| link.good().map(|count| (link, count)));
        let Some((link, count)) = good.find(|(link, _)| link.client.is_connected()) else {
            trial.end(false);
            return Err(SharedError::Unavailable);
        };
        Ok(AcceptedCall { shared: self, link, count, trial })
    }

    /// Interprets an error. A server that has become a replica may have another server's data: it is asked
    /// again for its name.
    pub(super) fn failure(&self, error: &Error) -> SharedError {
        if is_replica(error) {
            self.data.iter().for_each(|link| link.ask_again());
        }
        meaning(error)
    }

    /// The connection for probes and confirmations. The first probe begins it, on its caller's runtime.
    pub(super) async fn proof_link(&self) -> Arc<ProofLink> {
        let mut proof = self.proof.lock().await;
        if let Some(link) = proof.as_ref().filter(|link| link.is_held()) {
            return Arc::clone(link);
        }
        let (config, breaker) = (self.config.clone(), Arc::clone(&self.breaker));
        Arc::clone(proof.insert(Arc::new(ProofLink::begin(&self.options, config, breaker).await)))
    }

    pub(super) fn accept_server(&self, server: &str) {
        let mut good = false;
        for link in &self.data {
            good |= link.accept(server);
        }
        if good {
            self.breaker.close();
        }
    }

    pub(super) fn wakes(&self) -> Value {
        Value::from(self.names.wakes.as_str())
    }

    /// The TTL of a copy, reduced a little at random.
    pub(super) fn jittered(&self, ttl: Duration) -> Duration {
        ttl.mul_f64(1.0 - JITTER * self.options.random.unit())
    }

    pub(super) fn tombs(&self) -> Value {
        values::duration(self.options.retention.tombs)
    }
}

impl AcceptedCall<'_> {
    pub(super) fn client(&self) -> &Client {
        &self.link.client
    }

    /// The answer, or an error if another server may have given it.
    pub(super) fn finish<T>(self, answer: Result<T, Error>) -> Result<T, SharedError> {
        let answer = answer.map_err(|error| self.shared.failure(&error));
        let answer = if self.link.good() == Some(self.count) {
            answer
        } else {
            answer.and(Err(SharedError::Unavailable))
        };
        self.trial.end(!matches!(answer, Err(SharedError::Unavailable | SharedError::Timeout)));
        answer
    }
}

impl fmt::Debug for RedisShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisShared").field("prefix", &self.options.prefix).finish_non_exhaustive()
    }
}
