//! Runs scripts of other crates, for data outside the tiers, with their own keys, on separate connections.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use fred::{
    error::Error,
    interfaces::ClientLike,
    types::{Value, config::Config},
};
use futures::future::join_all;
use tokio::{task::JoinSet, time::timeout};

use super::{
    RedisError, RedisOptions,
    breaker::Breaker,
    failures::{is_replica, meaning},
    frames::Subscription,
    link::{Link, hold},
    names::Names,
    scripts::{self, ScriptCall, publish_command},
};
use crate::remote::shared::SharedError;

/// Calls in one round trip; further ones wait for its answers, so that no call waits for long.
const AT_ONCE: usize = 250;

/// The value that a script returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing, or false.
    Nothing,
    /// A whole number.
    Number(i64),
    /// A text or other bytes.
    Text(Bytes),
    /// Several values in order.
    List(Vec<Reply>),
}

/// Runs scripts for other crates, on whichever server answers or only on a server that the caller accepts,
/// and receives what they publish. One runner is enough for a whole node. Connections are opened, and
/// reopened, in the background until it is dropped. Nothing replaces a script, so a call may take as long as
/// a connection may be silent, if that is longer than the command timeout; then it ends, whatever the server
/// does.
pub struct ScriptRunner {
    options: RedisOptions,
    config: Config,
    links: Vec<Arc<Link>>,
    /// Which link the next run takes.
    next: AtomicUsize,
    breaker: Arc<Breaker>,
    _tasks: JoinSet<()>,
}

/// The servers whose answers count for a run.
#[derive(Clone, Copy)]
enum Servers<'a> {
    Any,
    Accepted(&'a (dyn Fn(&str) -> bool + Sync)),
}

/// A link that a run may take. `count` is that of the connection whose answers count; `None`: any
/// connection's answers count.
struct ChosenLink<'a> {
    link: &'a Link,
    count: Option<u64>,
}

/// The messages on some channels, from when [`ScriptRunner::subscribe`] returns.
#[derive(Debug)]
pub struct ChannelSubscription(Subscription);

impl ScriptRunner {
    /// Begins to connect `script_pool` connections, and waits for them within the connect timeout; then it
    /// continues in the background. Needs a runtime.
    ///
    /// # Errors
    /// When the address or the prefix cannot be used; whether a server answers is not asked.
    pub async fn connect(options: RedisOptions) -> Result<Self, RedisError> {
        let options = options.patient();
        let config = options.config()?;
        Names::new(&options.prefix, options.database_id, config.database)?;
        let link = |_| Arc::new(Link::new(&options, config.clone()));
        let links: Vec<Arc<Link>> = (0..options.script_pool.max(1)).map(link).collect();
        let (breaker, mut tasks) = (Arc::new(Breaker::default()), JoinSet::new());
        for link in &links {
            tasks.spawn(hold(Arc::clone(link), Arc::clone(&breaker)));
        }
        // An unavailable server is no error here.
        drop(timeout(options.connect_timeout, join_all(links.iter().map(|link| link.asked()))).await);
        Ok(Self { options, config, links, next: AtomicUsize::new(0), breaker, _tasks: tasks })
    }

    /// The required beginning of keys and channels, within braces.
    #[must_use]
    pub fn tag(&self) -> String {
        self.options.tag()
    }

    /// The database that has the keys; all databases on a server share the channels.
    #[must_use]
    pub fn database(&self) -> u8 {
        self.config.database.unwrap_or_default()
    }

    /// Whether a run's keys must be in one slot: the servers that answered are a Redis Cluster, or in a
    /// cluster.
    #[must_use]
    pub fn has_slots(&self) -> bool {
        self.links.iter().any(|link| link.has_slots())
    }

    /// Whether channels have slots, too: a script publishes on a channel in its keys' slot, and a message
    /// reaches only that slot's servers.
    #[must_use]
    pub fn has_sharded_channels(&self) -> bool {
        self.config.server.is_clustered()
    }

    /// The command by which scripts publish on channels that [`Self::subscribe`] receives.
    #[must_use]
    pub fn publish_command(&self) -> &'static str {
        publish_command(self.has_sharded_channels())
    }

    /// Runs each call, and returns the results in their order; one round trip for every 250. They are not
    /// atomic together: other calls may run between them, and a call may fail while others do not. A call
    /// that failed with another error than [`SharedError::Refused`] may have been run. The answers come from
    /// whichever server answers.
    pub async fn run(&self, calls: &[ScriptCall<'_>]) -> Vec<Result<Reply, SharedError>> {
        self.run_on(calls, Servers::Any).await
    }

    /// Like [`Self::run`], but an answer counts only if `accept` accepts its server; others are
    /// [`SharedError::Unavailable`]. `accept` gets the server's name, like
    /// [`Registry::accept`](crate::remote::shared::Registry::accept). Nothing is sent over a connection that
    /// leads to another server. If the connection broke meanwhile, the calls may have been run on any server.
    pub async fn run_accepted(
        &self,
        calls: &[ScriptCall<'_>],
        accept: impl Fn(&str) -> bool + Send + Sync,
    ) -> Vec<Result<Reply, SharedError>> {
        self.run_on(calls, Servers::Accepted(&accept)).await
    }

    /// Subscribes. When it returns, whatever is published from then on is received.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn subscribe(&self, channels: Vec<String>) -> Result<ChannelSubscription, SharedError> {
        let client = self.options.subscriber(self.config.clone());
        let bound = self.options.connect_timeout + self.options.unresponsive;
        Subscription::begin(client, bound, channels).await.map(ChannelSubscription)
    }

    async fn run_on(
        &self,
        calls: &[ScriptCall<'_>],
        servers: Servers<'_>,
    ) -> Vec<Result<Reply, SharedError>> {
        let mut answers = Vec::with_capacity(calls.len());
        for calls in calls.chunks(AT_ONCE) {
            answers.extend(self.run_some(calls, servers).await);
        }
        answers
    }

    async fn run_some(
        &self,
        calls: &[ScriptCall<'_>],
        servers: Servers<'_>,
    ) -> Vec<Result<Reply, SharedError>> {
        let failed = |why: SharedError| calls.iter().map(|_| Err(why)).collect();
        let Some(trial) = self.breaker.enter() else { return failed(SharedError::Unavailable) };
        let Some(chosen) = self.choose_link(servers) else {
            // That none is accepted is no failure of the server, and does not count for callers who accept
            // it.
            if !self.is_connected() {
                trial.end(false);
            }
            return failed(SharedError::Unavailable);
        };
        let answers = match send(chosen.link, calls).await {
            Ok(answers) => answers,
            Err(why) => failed(why),
        };
        let unanswered = |answer: &_| matches!(answer, Err(SharedError::Unavailable | SharedError::Timeout));
        trial.end(!answers.iter().any(unanswered));
        if chosen.still_leads_to(servers) { answers } else { discarded(answers) }
    }

    fn is_connected(&self) -> bool {
        self.links.iter().any(|link| link.client.is_connected())
    }

    fn choose_link<'a>(&'a self, servers: Servers<'_>) -> Option<ChosenLink<'a>> {
        let mut connected = self.in_turn().filter(|link| link.client.is_connected());
        connected.find_map(|link| ChosenLink::of(link, servers))
    }

    /// All links, each time beginning with another link.
    fn in_turn(&self) -> impl Iterator<Item = &Link> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        (0..self.links.len()).map(move |at| &*self.links[first.wrapping_add(at) % self.links.len()])
    }
}

impl<'a> ChosenLink<'a> {
    /// `None`: the link does not lead to any of the servers now.
    fn of(link: &'a Link, servers: Servers<'_>) -> Option<Self> {
        let count = match servers {
            Servers::Any => None,
            Servers::Accepted(accept) => Some(link.leads_to(accept)?),
        };
        Some(Self { link, count })
    }

    /// Whether the link still leads to the same server: no other server can have answered in between.
    fn still_leads_to(&self, servers: Servers<'_>) -> bool {
        match servers {
            Servers::Any => true,
            Servers::Accepted(accept) => self.link.leads_to(accept) == self.count,
        }
    }
}

/// Runs each on one link. A server that has become a replica is asked again for its name.
async fn send(link: &Link, calls: &[ScriptCall<'_>]) -> Result<Vec<Result<Reply, SharedError>>, SharedError> {
    let failure = |error: &Error| {
        if is_replica(error) {
            link.ask_again();
        }
        meaning(error)
    };
    let read = |answer: Result<Value, Error>| match answer {
        Ok(value) => reply(value).ok_or(SharedError::Unexpected),
        Err(error) => Err(failure(&error)),
    };
    let answers = scripts::run_all(&link.client, calls).await.map_err(|error| failure(&error))?;
    Ok(answers.into_iter().map(read).collect())
}

/// The result as if no server had answered; other failures are unchanged.
fn discarded(answers: Vec<Result<Reply, SharedError>>) -> Vec<Result<Reply, SharedError>> {
    answers.into_iter().map(|answer| answer.and(Err(SharedError::Unavailable))).collect()
}

impl fmt::Debug for ScriptRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptRunner").field("prefix", &self.options.prefix).finish_non_exhaustive()
    }
}

impl ChannelSubscription {
    /// The next message; `None`: some may be lost, and the subscription has ended.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            let message = self.0.next().await?;
            // A message that is no text was not sent by a node.
            if let Ok(bytes) = message.value.convert::<Bytes>() {
                return Some(bytes);
            }
        }
    }
}

fn reply(value: Value) -> Option<Reply> {
    Some(match value {
        Value::Null => Reply::Nothing,
        Value::Integer(number) => Reply::Number(number),
        Value::Array(values) => Reply::List(values.into_iter().map(reply).collect::<Option<_>>()?),
        other => Reply::Text(other.into_bytes()?),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A runner whose port has no server.
    async fn unreachable_runner(script_pool: usize) -> ScriptRunner {
        let options = RedisOptions {
            url: "redis://127.0.0.1:1".to_owned(),
            connect_timeout: Duration::from_millis(10),
            script_pool,
            ..RedisOptions::default()
        };
        ScriptRunner::connect(options).await.unwrap()
    }

    #[tokio::test]
    async fn runs_take_the_connections_in_turn() {
        let runner = unreachable_runner(3).await;
        let first: Vec<*const Link> =
            (0..4).map(|_| std::ptr::from_ref(runner.in_turn().next().unwrap())).collect();
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
        assert_eq!(first[3], first[0]);
        assert_eq!(runner.in_turn().count(), 3);
        assert_eq!(unreachable_runner(0).await.in_turn().count(), 1);
    }

    #[tokio::test]
    async fn answers_count_while_the_server_is_accepted() {
        let runner = unreachable_runner(1).await;
        let link = runner.in_turn().next().unwrap();
        let one = |server: &str| server == "one";
        let accepted = Servers::Accepted(&one);
        assert!(ChosenLink::of(link, accepted).is_none(), "no server has reported its name");
        link.learned("one");
        let chosen = ChosenLink::of(link, accepted).unwrap();
        assert!(chosen.still_leads_to(accepted));
        link.ask_again();
        assert!(!chosen.still_leads_to(accepted), "another server may have answered");
        assert!(ChosenLink::of(link, accepted).is_none());
        link.learned("another");
        assert!(ChosenLink::of(link, accepted).is_none());
        assert!(ChosenLink::of(link, Servers::Any).is_some_and(|chosen| chosen.still_leads_to(Servers::Any)));
    }

    #[test]
    fn what_another_server_answered_does_not_count() {
        let answers = vec![Ok(Reply::Number(1)), Err(SharedError::Refused)];
        assert_eq!(discarded(answers), [Err(SharedError::Unavailable), Err(SharedError::Refused)]);
    }
}
