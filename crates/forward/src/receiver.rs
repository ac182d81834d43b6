//! Posts signed events to a receiver.

use std::{
    fmt,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::time::timeout;

use crate::{
    AddressRule, Answer, ReceiverUrl, Resolver, Secrets, SystemResolver,
    connection::{Connection, read_rest},
};

/// How many addresses of a name are tried.
const ADDRESSES_MAX: usize = 8;
/// How many connections are kept for later requests.
const KEPT_MAX: usize = 16;

const NOT_PUBLIC: &str = "has an address that is not public; --allow-private allows it";

/// A receiver of events. Posts may run at the same time; each uses a connection of its own.
pub struct Receiver {
    url: ReceiverUrl,
    secrets: Secrets,
    tls: Arc<ClientConfig>,
    rule: AddressRule,
    resolver: Box<dyn Resolver>,
    kept: Mutex<Vec<Connection>>,
}

impl Receiver {
    /// Makes a receiver. `tls` decides which certificates are trusted.
    #[must_use]
    pub fn new(url: ReceiverUrl, secrets: Secrets, tls: Arc<ClientConfig>, rule: AddressRule) -> Self {
        Self { url, secrets, tls, rule, resolver: Box::new(SystemResolver), kept: Mutex::default() }
    }

    /// Replaces what finds the addresses of the receiver's name.
    #[must_use]
    pub fn with_resolver(self, resolver: Box<dyn Resolver>) -> Self {
        Self { resolver, ..self }
    }

    /// Checks the addresses of the receiver's name once, if they are known now.
    ///
    /// # Errors
    /// When one of them is not allowed, in words that follow "the receiver".
    pub async fn check_address(&self) -> Result<(), &'static str> {
        match self.addresses().await {
            Err(NOT_PUBLIC) => Err(NOT_PUBLIC),
            _ => Ok(()),
        }
    }

    /// Posts an event, signed now, and returns the answer's status; an answer's body is ignored. Ends after
    /// `limit`, and at most 1 s later to read the rest of an answer. Invariant: every address of the name is
    /// checked, and one of those that were checked is connected to.
    pub async fn post(&self, id: &str, body: Bytes, limit: Duration) -> Answer {
        match timeout(limit, self.exchange(id, body)).await {
            Ok(Ok((connection, response))) => self.answer(connection, response).await,
            Ok(Err(why)) => Answer::None(why),
            Err(_elapsed) => Answer::None("does not answer in time"),
        }
    }

    async fn exchange(
        &self,
        id: &str,
        body: Bytes,
    ) -> Result<(Connection, Response<Incoming>), &'static str> {
        if let Some(mut kept) = self.kept() {
            // The receiver may have closed a kept connection: a new one decides.
            if let Ok(response) = kept.send(self.request(id, body.clone())?).await {
                return Ok((kept, response));
            }
        }
        let mut connection = Connection::open(&self.addresses().await?, &self.url, &self.tls).await?;
        let response = connection.send(self.request(id, body)?).await?;
        Ok((connection, response))
    }

    async fn answer(&self, connection: Connection, response: Response<Incoming>) -> Answer {
        let status = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        if read_rest(response.into_body()).await {
            let mut kept = self.kept.lock();
            if kept.len() < KEPT_MAX {
                kept.push(connection);
            }
        }
        Answer::Status { status, retry_after: retry_after.map(Duration::from_secs) }
    }

    fn kept(&self) -> Option<Connection> {
        let mut kept = self.kept.lock();
        std::iter::from_fn(|| kept.pop()).find(Connection::is_usable)
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, &'static str> {
        let found = self.resolver.resolve(self.url.host(), self.url.port()).await;
        let mut addresses = found.map_err(|_| "has a name without a known address")?;
        if addresses.is_empty() {
            return Err("has a name without a known address");
        }
        if !addresses.iter().all(|address| self.rule.allows(address.ip())) {
            return Err(NOT_PUBLIC);
        }
        addresses.truncate(ADDRESSES_MAX);
        Ok(addresses)
    }

    fn request(&self, id: &str, body: Bytes) -> Result<Request<Full<Bytes>>, &'static str> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Request::post(self.url.target())
            .header(header::HOST, self.url.authority())
            .header(header::USER_AGENT, concat!("kith/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", self.secrets.sign(id, now, &body))
            .body(Full::new(body))
            .map_err(|_| "cannot be sent this event")
    }
}

/// Prints no secret, and no path.
impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver")
            .field("url", &self.url.to_string())
            .field("rule", &self.rule)
            .finish_non_exhaustive()
    }
}
