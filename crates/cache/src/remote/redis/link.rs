//! A connection that knows which server it leads to.
//!
//! The client reopens a broken connection by itself, to whichever server answers at the address: the same
//! server, the same server restarted with an old dump, a replica that was promoted. An answer from such a
//! server must not be taken for the accepted server's answer, not even the answer to the first command. The
//! client asks for the credentials when it begins a connection, before it sends anything else on it; each
//! time is counted. A link is good as long as the count is what it was when the server behind it was asked
//! for its name. A command is sent only over a good link, and its answer counts only if the count did not
//! change meanwhile: then no connection was begun in between, and the command was sent over the connection
//! whose server was asked.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, ClusterInterface},
    types::{
        ClusterHash, ConnectHandle, CustomCommand,
        config::{Config, CredentialProvider, Server},
    },
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use super::{RedisOptions, breaker::Breaker};

/// Pause between two requests to a server that does not return its name.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause before a client that has given up is restarted.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    begun: Arc<BegunConnections>,
    /// The count at which the server was the accepted server; 0: never.
    good: AtomicU64,
    known: Mutex<KnownServer>,
    /// Raised whenever a server has returned its name.
    asked: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct KnownServer {
    /// Which server answered, and at which count.
    server: Option<(u64, String)>,
    accepted: Option<String>,
    /// Whether it is a server of a Redis Cluster, also where the address does not say so.
    has_slots: bool,
}

/// Counts the connections that were begun.
struct BegunConnections {
    count: AtomicU64,
    moved: Notify,
    user: Option<String>,
    password: Option<String>,
}

impl Link {
    /// Creates a link that is not connected yet.
    pub(super) fn new(options: &RedisOptions, config: Config) -> Self {
        let begun = Arc::new(BegunConnections {
            count: AtomicU64::new(0),
            moved: Notify::new(),
            user: config.username.clone(),
            password: config.password.clone(),
        });
        let client = options.client(config, Arc::clone(&begun) as Arc<dyn CredentialProvider>);
        let (good, known) = (AtomicU64::new(0), Mutex::default());
        Self { client, begun, good, known, asked: watch::Sender::default() }
    }

    /// The count, if the link leads to the accepted server.
    pub(super) fn good(&self) -> Option<u64> {
        let count = self.begun.count.load(Ordering::Acquire);
        (count == self.good.load(Ordering::Acquire) && count > 0).then_some(count)
    }

    /// The count, if the server behind the link has returned its name and `accept` accepts it.
    pub(super) fn leads_to(&self, accept: impl Fn(&str) -> bool) -> Option<u64> {
        let known = self.known.lock();
        let (count, server) = known.server.as_ref()?;
        (*count == self.begun.count.load(Ordering::Acquire) && accept(server)).then_some(*count)
    }

    /// Whether the keys of a call must be in one slot.
    pub(super) fn has_slots(&self) -> bool {
        self.client.is_clustered() || self.known.lock().has_slots
    }

    /// Asks every server that it connects to for its name, until it is dropped. Calls `good` whenever the
    /// link has become good.
    pub(super) async fn ask(&self, good: impl Fn() + Send) {
        loop {
            // Read before the request: a connection begun since is not the connection that answers it.
            let count = self.begun.count.load(Ordering::Acquire);
            match primary(&self.client).await {
                Ok((server, has_slots)) => {
                    self.known.lock().has_slots = has_slots;
                    if self.learn(count, server) {
                        good();
                    }
                    self.begun.moved_from(count).await;
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Returns when a server has returned its name.
    pub(super) async fn asked(&self) {
        // The sender exists as long as `self`.
        drop(self.asked.subscribe().wait_for(|asked| *asked > 0).await);
    }

    /// See [`Registry::accept`](crate::remote::shared::Registry::accept). Returns whether that makes the link
    /// good.
    pub(super) fn accept(&self, server: &str) -> bool {
        let mut known = self.known.lock();
        known.accepted = Some(server.to_owned());
        self.update_good(&known)
    }

    /// The role of the server may have changed within the connection: it reports that it is a replica. It is
    /// asked again.
    pub(super) fn ask_again(&self) {
        self.begun.next();
    }

    /// Pretends that the server of this name had answered over the present connection.
    #[cfg(test)]
    pub(super) fn learned(&self, server: &str) {
        self.learn(self.begun.count.load(Ordering::Acquire), server.to_owned());
    }

    fn learn(&self, count: u64, server: String) -> bool {
        let mut known = self.known.lock();
        known.server = Some((count, server));
        self.asked.send_modify(|asked| *asked += 1);
        self.update_good(&known)
    }

    fn update_good(&self, known: &KnownServer) -> bool {
        let (count, server) = known.server.as_ref().map_or((0, None), |(count, name)| (*count, Some(name)));
        let good = if server.is_some() && server == known.accepted.as_ref() { count } else { 0 };
        self.good.store(good, Ordering::Release);
        good > 0
    }
}

impl BegunConnections {
    fn next(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.moved.notify_one();
    }

    async fn moved_from(&self, count: u64) {
        while self.count.load(Ordering::Acquire) == count {
            self.moved.notified().await;
        }
    }
}

#[async_trait::async_trait]
impl CredentialProvider for BegunConnections {
    async fn fetch(&self, _server: Option<&Server>) -> Result<(Option<String>, Option<String>), Error> {
        self.next();
        Ok((self.user.clone(), self.password.clone()))
    }
}

impl fmt::Debug for BegunConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BegunConnections").field("count", &self.count).finish_non_exhaustive()
    }
}

/// The task behind a client; dropped, the connection is cut.
#[derive(Debug)]
pub(super) struct Connection(ConnectHandle);

impl Connection {
    pub(super) fn begin(client: &Client) -> Self {
        Self(client.connect())
    }

    /// Connects within the bounds of the client, which connects once.
    ///
    /// # Errors
    /// What the server answered, or why there is no connection.
    pub(super) async fn open(client: &Client) -> Result<Self, Error> {
        client.init().await.map(Self)
    }

    /// Returns when the client has given up, with the reason if it gave any; must not be called again then.
    pub(super) async fn ended(&mut self) -> Option<Error> {
        (&mut self.0).await.ok().and_then(Result::err)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Keeps a link connected, and asks for the names of its servers.
pub(super) async fn hold(link: Arc<Link>, breaker: Arc<Breaker>) {
    let ask = link.ask(|| breaker.close());
    tokio::pin!(ask);
    loop {
        let mut connection = Connection::begin(&link.client);
        tokio::select! {
            () = &mut ask => return,
            // The client ends on configuration errors, such as a refused password; the server may still be
            // corrected.
            _why = connection.ended() => sleep(AGAIN).await,
        }
    }
}

/// The name of the server, if it accepts writes, and whether it has slots; for a cluster, one name for all
/// its primaries.
async fn primary(client: &Client) -> Result<(String, bool), Error> {
    let is_primary = |info: &String| field(info, "role") == Some("master");
    let infos = infos(client, &["server", "replication"]).await?;
    if !infos.iter().all(is_primary) {
        return Err(Error::new(ErrorKind::Unknown, "a replica"));
    }
    let has_slots = infos.iter().any(|info| field(info, "redis_mode") == Some("cluster"));
    Ok((name(client, &infos).ok_or_else(nameless)?, has_slots))
}

/// The name of the servers, from a request to each.
pub(super) async fn server_name(client: &Client) -> Result<String, Error> {
    name(client, &infos(client, &["server"]).await?).ok_or_else(nameless)
}

/// The result of INFO from the server, or from each primary in a cluster.
pub(super) async fn infos(client: &Client, sections: &[&str]) -> Result<Vec<String>, Error> {
    let info = || CustomCommand::new_static("INFO", ClusterHash::Random, false);
    let sections = sections.to_vec();
    if !client.is_clustered() {
        return Ok(vec![client.custom(info(), sections).await?]);
    }
    let routing = client.cached_cluster_state();
    let servers = routing.ok_or_else(nameless)?.unique_primary_nodes();
    let ask = servers.into_iter().map(|server| {
        let (client, sections) = (client.with_cluster_node(server), sections.clone());
        async move { client.custom(info(), sections).await }
    });
    try_join_all(ask).await
}

/// A line `name:value` of INFO.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| *found == name).map(|(_, value)| value.trim())
}

fn name(client: &Client, infos: &[String]) -> Option<String> {
    let mut names = infos.iter().map(|info| field(info, "run_id")).collect::<Option<Vec<_>>>()?;
    if !client.is_clustered() {
        return names.pop().map(str::to_owned);
    }
    names.sort_unstable();
    let hash = Sha256::digest(names.join(" "));
    Some(hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect())
}

fn nameless() -> Error {
    Error::new(ErrorKind::Protocol, "a server does not say who it is")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_the_server_that_answered() {
        let options = RedisOptions::default();
        let link = Link::new(&options, options.config().unwrap());
        assert_eq!(link.leads_to(|_| true), None, "no server has reported its name");
        link.begun.next();
        link.learn(1, "one".to_owned());
        assert_eq!(link.leads_to(|server| server == "one"), Some(1));
        assert_eq!(link.leads_to(|server| server == "another"), None);
        assert_eq!(link.good(), None, "it is accepted by this caller alone");
    }

    #[test]
    fn new_connection_has_no_server_until_asked() {
        let options = RedisOptions::default();
        let link = Link::new(&options, options.config().unwrap());
        link.begun.next();
        link.learn(1, "one".to_owned());
        link.begun.next();
        assert_eq!(link.leads_to(|_| true), None);
        link.learn(2, "two".to_owned());
        assert_eq!(link.leads_to(|server| server == "two"), Some(2));
    }
}
