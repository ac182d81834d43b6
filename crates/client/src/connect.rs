//! How a client is made.

use std::{
    env, fmt, fs,
    net::IpAddr,
    sync::{Arc, OnceLock, atomic::AtomicU64},
    time::Duration,
};

use tokio::time::Instant;
use tonic::{
    Status,
    transport::{Channel, ClientTlsConfig, Endpoint},
};

use crate::{
    call::Client,
    credential::{Credential, bearer},
    retry::RetryBudget,
};

/// Options of a [`Client`]. Without an address or a credential it reads `KITH_ADDR` and `KITH_API_KEY_FILE`.
#[derive(Default)]
#[must_use]
pub struct Builder {
    addresses: Vec<String>,
    key: Option<String>,
    is_insecure: bool,
    pub(crate) pause: Option<Duration>,
    contract: Option<u32>,
    on_older_node: Option<Box<dyn Fn(u32) + Send + Sync>>,
    has_warned: OnceLock<()>,
    pub(crate) credential: Credential,
    pub(crate) budget: RetryBudget,
    /// Ended calls that may have changed a user or a group.
    pub(crate) writes: AtomicU64,
}

impl Builder {
    /// Adds the address of a node, such as `https://kith.example:7600`. Calls are spread over several.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Calls with the key of a caller.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Calls as a user, with tokens that `source` returns, each with the time for which it is valid. It is
    /// called once at a time: when four fifths of that time are over, and once after a refusal.
    pub fn tokens<F>(mut self, source: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(String, Duration), Status>> + Send + 'static,
    {
        self.credential.source = Some(Box::new(move || Box::pin(source())));
        self
    }

    /// Allows to send the key or the tokens without TLS to another machine.
    pub fn insecure(self) -> Self {
        Self { is_insecure: true, ..self }
    }

    /// The first pause before a try that the node sets no delay for. Default 50 ms; it doubles each time, up
    /// to 2 s.
    pub fn pause(self, pause: Duration) -> Self {
        Self { pause: Some(pause), ..self }
    }

    /// The number of the contract that the program needs. Default: that of the crate.
    pub fn contract(self, contract: u32) -> Self {
        Self { contract: Some(contract), ..self }
    }

    /// Is called once, with its number, when a node's contract is older. Default: a warning of `tracing`.
    pub fn on_older_node(self, warn: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self { on_older_node: Some(Box::new(warn)), ..self }
    }

    /// Makes the client. It connects at its first call, so call this within a Tokio runtime.
    ///
    /// # Errors
    /// If an address or the key is malformed, the file of the key cannot be read, or the key or the tokens
    /// would be sent without TLS to another machine.
    pub fn connect(mut self) -> Result<Client, Status> {
        let has_secret = self.key.is_some() || self.credential.source.is_some();
        if let Some(file) = from_environment("KITH_API_KEY_FILE").filter(|_| !has_secret) {
            let read = fs::read_to_string(&file);
            self.key =
                Some(read.map_err(|why| Status::invalid_argument(format!("cannot read {file}: {why}")))?);
        }
        let needs_tls = !self.is_insecure && (has_secret || self.key.is_some());
        let key = self.key.take().map(|key| bearer(&key)).transpose()?;
        self.credential.held = key.map(|value| (value, Instant::now())).into();
        if self.addresses.is_empty() {
            let given = from_environment("KITH_ADDR");
            self.addresses.push(given.unwrap_or_else(|| "http://127.0.0.1:7600".to_owned()));
        }
        let addresses = self.addresses.join(",");
        let endpoints = addresses.split(',').map(|address| endpoint(address.trim(), needs_tls));
        let channel = match &*endpoints.collect::<Result<Vec<_>, _>>()? {
            [one] => one.connect_lazy(),
            several => Channel::balance_list(several.iter().cloned()),
        };
        let (options, deadline) = (Arc::new(self), Duration::from_secs(5));
        Ok(Client { channel, options, deadline, acting: None, session: None })
    }

    /// Warns once of a node that has an older contract. A node that says no number is older than all.
    pub(crate) fn check_contract(&self, number: u32) {
        if number < self.contract.unwrap_or(kith_proto::CONTRACT) {
            self.has_warned.get_or_init(|| match &self.on_older_node {
                Some(warn) => warn(number),
                None => tracing::warn!(node = number, "a node has an older contract than this client"),
            });
        }
    }
}

/// Does not show the key.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

#[expect(clippy::disallowed_methods, reason = "these two variables are part of the client's interface")]
fn from_environment(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn endpoint(address: &str, needs_tls: bool) -> Result<Endpoint, Status> {
    let wrong = |why: &str| Status::invalid_argument(format!("the address {address} is wrong: {why}"));
    let full = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let endpoint = Endpoint::from_shared(full).map_err(|why| wrong(&why.to_string()))?;
    // A node that is gone without a word is noticed within 20 s.
    let endpoint = endpoint
        .connect_timeout(Duration::from_secs(5))
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(10));
    if endpoint.uri().scheme_str() == Some("https") {
        let tls = ClientTlsConfig::new().with_native_roots();
        return endpoint.tls_config(tls).map_err(|why| wrong(&why.to_string()));
    }
    if needs_tls && !endpoint.uri().host().is_some_and(is_loopback) {
        return Err(wrong("the key or a token would be sent without TLS: use https:// or allow insecure"));
    }
    Ok(endpoint)
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why there is no client.
    fn refusal(builder: Builder) -> Option<String> {
        builder.connect().err().map(|status| status.message().to_owned())
    }

    #[tokio::test]
    async fn key_is_not_sent_in_plaintext_to_others() {
        let with_key = |address: &str| Client::builder().key("secret").address(address);
        for address in ["kith.example:7600", "http://kith.example", "127.0.0.1:1,10.0.0.1:1", "[::2]:1"] {
            let why = refusal(with_key(address)).unwrap_or_default();
            assert!(why.contains("without TLS") && !why.contains("secret"), "{address}: {why}");
            assert_eq!(refusal(with_key(address).insecure()), None, "{address}");
            assert_eq!(refusal(Client::builder().address(address)), None, "{address}");
        }
        let tokens = Client::builder().tokens(async || Err(Status::unavailable("none")));
        assert!(refusal(tokens.address("kith.example:7600")).is_some());
        for address in ["127.0.0.1:1", "http://LocalHost:1", "[::1]:1"] {
            assert_eq!(refusal(with_key(address)), None, "{address}");
        }
        // Without roots of the system it is refused, too.
        let why = refusal(with_key("https://kith.example")).unwrap_or_default();
        assert!(!why.contains("without TLS"), "{why}");
    }
}
