//! Connects the command line to nodes.

mod key;
mod starting;

use std::{path::PathBuf, pin::Pin, time::Duration};

use anyhow::{Context as _, Result, bail};
use kith_server::start_error::StartError;
use tokio::time::{Instant, timeout};
use tonic::{
    Code, Request, Response, Status,
    service::interceptor::InterceptedService,
    transport::{self, Certificate, ClientTlsConfig, Endpoint},
};

pub(super) use self::key::{Credential, KeyOptions};
use super::output::one_line;

/// A connection to a node. Each call over it carries the key, if a key is given.
pub(super) type Channel = InterceptedService<transport::Channel, Credential>;

const CONNECT: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// The default time limit for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The default time limit for each message in a stream.
const STREAMED: Duration = Duration::from_secs(60);

/// Runs a command that talks to a node.
pub(super) fn block_on(command: impl Future<Output = Result<u8>>) -> Result<u8, StartError> {
    // All commands share this type: otherwise the compiler generates three copies of each command.
    let command: Pin<Box<dyn Future<Output = Result<u8>> + '_>> = Box::pin(command);
    super::runtime()?.block_on(command).map_err(|why| StartError::new(format!("{why:#}")))
}

/// The node to talk to.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Target {
    /// Address of a node
    #[arg(
        long,
        env = "KITH_ADDR",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = "http://127.0.0.1:7600"
    )]
    pub(super) addr: String,
    #[command(flatten)]
    pub(super) options: ConnectOptions,
    #[command(flatten)]
    pub(super) key: KeyOptions,
}

/// The node to talk to by a command that sends no key.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct KeylessTarget {
    /// Address of a node
    #[arg(
        long,
        env = "KITH_ADDR",
        hide_env_values = true,
        value_name = "ADDRESS",
        default_value = "http://127.0.0.1:7600"
    )]
    addr: String,
    #[command(flatten)]
    options: ConnectOptions,
}

/// The nodes to ask.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Targets {
    /// Address of a node; for several, repeat it or use commas
    #[arg(
        long,
        env = "KITH_ADDR",
        hide_env_values = true,
        value_name = "ADDRESS",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7600"
    )]
    addr: Vec<String>,
    #[command(flatten)]
    options: ConnectOptions,
    #[command(flatten)]
    key: KeyOptions,
}

/// How a node is reached, and how long it is waited for.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct ConnectOptions {
    /// Certificates to trust, in PEM; for an address with https
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long an answer may take: 500ms, 10s [default: 5s; 60s for each message of a stream]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// How long to wait for a node that is starting: 500ms, 1m [default: 10s on this machine, else 0s; 0s for
    /// status, top, check, doctor and ping, which report it as unreachable]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
}

impl ConnectOptions {
    /// Returns how long the answer to a call may take.
    pub(super) fn answer_limit(&self) -> Duration {
        self.timeout.unwrap_or(ANSWER)
    }

    /// Returns how long each message in a stream may take.
    pub(super) fn message_limit(&self) -> Duration {
        self.timeout.unwrap_or(STREAMED)
    }
}

impl KeylessTarget {
    pub(super) fn target(&self) -> Target {
        Target { addr: self.addr.clone(), options: self.options.clone(), key: KeyOptions::default() }
    }
}

impl Targets {
    /// Returns each node separately, in the given order.
    pub(super) fn each(&self) -> impl ExactSizeIterator<Item = Target> {
        let addresses = self.addr.iter();
        addresses.map(|addr| Target {
            addr: addr.clone(),
            options: self.options.clone(),
            key: self.key.clone(),
        })
    }
}

impl Target {
    /// Makes the options for a node at `addr`, with defaults and without a key.
    pub(super) fn at(addr: String, timeout: Duration) -> Self {
        let options = ConnectOptions { timeout: Some(timeout), ..ConnectOptions::default() };
        Self { addr, options, key: KeyOptions::default() }
    }

    /// Adds the key in this file.
    pub(super) fn with_key_file(mut self, file: Option<PathBuf>) -> Self {
        self.key.api_key_file = file;
        self
    }

    /// Connects, so that a wrong address is an immediate error; waits for a starting node, see
    /// [`ConnectOptions`]. The channel reconnects by itself. Fails if the address, the certificates or the
    /// key cannot be used, or no node answers.
    pub(super) async fn connect(&self) -> Result<Channel> {
        let endpoint = self.endpoint()?;
        let credential = self.key.credential(&endpoint)?;
        let limit = self.options.wait.unwrap_or_else(|| starting::default_wait(&endpoint));
        starting::wait_for(self, &endpoint, credential, limit).await
    }

    /// Like [`Self::connect`], but for commands that show a node's state: an unavailable or starting node is
    /// shown as such, unless `--wait` sets a time to wait. Fails as [`Self::connect`].
    pub(super) async fn connect_now(&self) -> Result<Channel> {
        let endpoint = self.endpoint()?;
        let credential = self.key.credential(&endpoint)?;
        starting::wait_for(self, &endpoint, credential, self.options.wait.unwrap_or_default()).await
    }

    /// Like [`Self::connect`], but without a key: health needs none. Fails if the address or the certificates
    /// cannot be used, or no node answers.
    pub(super) async fn connect_without_key(&self) -> Result<Channel> {
        let wait = self.options.wait.unwrap_or_default();
        starting::wait_for(self, &self.endpoint()?, Credential::default(), wait).await
    }

    /// Returns the answer to a call, or DEADLINE_EXCEEDED if it does not arrive in time.
    pub(super) async fn answer<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let (begun, limit) = (Instant::now(), self.options.answer_limit());
        match timeout(limit, call).await {
            // Tonic reports this error for a request whose time limit has passed.
            Ok(Err(status)) if status.code() == Code::Cancelled && begun.elapsed() >= limit => {
                Err(self.timed_out())
            }
            Ok(answer) => answer,
            Err(_) => Err(self.timed_out()),
        }
    }

    /// Returns the node's answer to a call. Fails with the node's error, or with an error for a missing
    /// answer.
    pub(super) async fn response<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T> {
        let response = self.answer(call).await.map(Response::into_inner);
        response.map_err(|status| {
            anyhow::anyhow!("{} answers {:?}: {}", self.addr, status.code(), message_of(&status))
        })
    }

    /// Makes a request with its answer's deadline.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.options.answer_limit());
        request
    }

    fn timed_out(&self) -> Status {
        let limit = humantime::format_duration(self.options.answer_limit());
        Status::new(
            Code::DeadlineExceeded,
            format!("{} does not answer within {limit}; --timeout gives it longer", self.addr),
        )
    }

    fn endpoint(&self) -> Result<Endpoint> {
        // The address that a node prints has no scheme; TLS must be requested explicitly.
        let scheme = if self.addr.contains("://") { "" } else { "http://" };
        let endpoint = Endpoint::from_shared(format!("{scheme}{}", self.addr))
            .ok()
            .filter(|endpoint| matches!(endpoint.uri().scheme_str(), Some("http" | "https")))
            .with_context(|| format!("--addr {} is not an address like http://127.0.0.1:7600", self.addr))?
            .connect_timeout(CONNECT.min(self.options.answer_limit()))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let tls = endpoint.uri().scheme_str() == Some("https");
        match (&self.options.ca_file, tls) {
            (None, false) => Ok(endpoint),
            (None, true) => bail!("--addr {} needs --ca-file: the certificates to trust", self.addr),
            (Some(_), false) => bail!("--ca-file is for an address with https, not for {}", self.addr),
            (Some(file), true) => {
                let pem =
                    std::fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
                let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
                endpoint
                    .tls_config(config)
                    .with_context(|| format!("{} holds no usable certificates", file.display()))
            }
        }
    }
}

/// Returns whether a later attempt of the same call may succeed.
pub(super) const fn may_pass(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable
            | Code::ResourceExhausted
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::Cancelled
            | Code::Unknown
    )
}

/// Returns one line about a failed call, without control characters.
pub(super) fn message_of(status: &Status) -> String {
    one_line(status.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(addr: &str, ca_file: Option<&str>) -> Target {
        let ca_file = ca_file.map(PathBuf::from);
        Target {
            addr: addr.to_owned(),
            options: ConnectOptions { ca_file, ..ConnectOptions::default() },
            key: KeyOptions::default(),
        }
    }

    #[test]
    fn addresses_that_cannot_work_are_refused() {
        for (addr, ca_file, words) in [
            ("127.0.0.1 7600", None, "is not an address like"),
            ("", None, "is not an address like"),
            ("ftp://127.0.0.1", None, "is not an address like"),
            ("https://127.0.0.1:7600", None, "needs --ca-file"),
            ("http://127.0.0.1:7600", Some("ca.pem"), "is for an address with https"),
            ("https://127.0.0.1:7600", Some("absent.pem"), "could not read absent.pem"),
        ] {
            let error = target(addr, ca_file).endpoint().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_address_may_be_given_as_a_node_prints_it() {
        assert_eq!(target("127.0.0.1:7600", None).endpoint().unwrap().uri(), "http://127.0.0.1:7600/");
    }

    #[tokio::test]
    async fn silent_node_is_named_with_the_flag_to_change() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = target(&format!("http://{free}"), None).connect_now().await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("no node answers at http://{free}")), "{error}");
        assert!(error.contains("--addr"), "{error}");
    }
}
