//! How the command line reaches a node.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use kith_proto::admin::v1::{GetNodeRequest, admin_service_client::AdminServiceClient};
use tokio::time::{Instant, sleep, timeout};
use tonic::{
    Code, Request, Response, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};
use tonic_types::StatusExt as _;

use super::output::one_line;
use crate::{
    error::{ERROR_DOMAIN, Reason},
    start::StartError,
};

const CONNECT: Duration = Duration::from_secs(5);
/// How long a node of this machine is waited for that does not listen yet, or has no store yet.
const STARTING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// From when on a command says that it waits.
const ANNOUNCED: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// For the answer to a call when nothing is said.
const ANSWER: Duration = Duration::from_secs(5);
/// The same for each message of a stream.
const STREAMED: Duration = Duration::from_secs(60);

/// Runs a command that talks to a node.
pub(super) fn block_on(command: impl Future<Output = Result<u8>>) -> Result<u8, StartError> {
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
    pub(super) reach: Reach,
}

/// The nodes to ask.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Targets {
    /// Address of a node; may be given for each of several, or with commas between them
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
    reach: Reach,
}

/// How a node is reached, and how long it is waited for.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Reach {
    /// Certificates to trust, in PEM; for an address with https
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long an answer may take: 500ms, 10s [default: 5s; 60s for each message of a stream]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// How long to wait for a node that is starting: 500ms, 1m [default: 10s if it is on this machine, else 0s; 0s for
    /// status, top, check, doctor and ping, which show that it is away]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,
}

impl Reach {
    /// For the answer to a call.
    pub(super) fn answer(&self) -> Duration {
        self.timeout.unwrap_or(ANSWER)
    }

    /// For each message of a stream.
    pub(super) fn streamed(&self) -> Duration {
        self.timeout.unwrap_or(STREAMED)
    }
}

impl Targets {
    /// Each node by itself, in the order in which they were given.
    pub(super) fn each(&self) -> impl ExactSizeIterator<Item = Target> {
        let addresses = self.addr.iter();
        addresses.map(|addr| Target { addr: addr.clone(), reach: self.reach.clone() })
    }
}

impl Target {
    /// Of a node at `addr` that is reached in the usual way.
    pub(super) fn at(addr: String, timeout: Duration) -> Self {
        Self { addr, reach: Reach { timeout: Some(timeout), ..Reach::default() } }
    }

    /// Connects, so that a wrong address is an error at once; waits for a node that is starting, see [`Reach`]. The
    /// channel connects again by itself.
    ///
    /// # Errors
    /// When the address or the certificates cannot be used, or no node answers.
    pub(super) async fn connect(&self) -> Result<Channel> {
        let endpoint = self.endpoint()?;
        let default = if is_loopback(&endpoint) { STARTING } else { Duration::ZERO };
        self.wait_for(&endpoint, self.reach.wait.unwrap_or(default)).await
    }

    /// The same for commands that show how a node is: one that is away or starting is shown so, unless `--wait` says
    /// how long to wait.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub(super) async fn connect_now(&self) -> Result<Channel> {
        self.wait_for(&self.endpoint()?, self.reach.wait.unwrap_or_default()).await
    }

    /// The answer to a call, or DEADLINE_EXCEEDED when it does not come in time.
    pub(super) async fn answer<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let (begun, limit) = (Instant::now(), self.reach.answer());
        match timeout(limit, call).await {
            // What tonic says when a request has had the time that it asked for.
            Ok(Err(status)) if status.code() == Code::Cancelled && begun.elapsed() >= limit => {
                Err(self.late())
            }
            Ok(answer) => answer,
            Err(_) => Err(self.late()),
        }
    }

    /// What the node says to a call.
    ///
    /// # Errors
    /// What it says instead, or that it says nothing in time.
    pub(super) async fn said<T>(&self, call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T> {
        let said = self.answer(call).await.map(Response::into_inner);
        said.map_err(|status| anyhow::anyhow!("{} answers {:?}: {}", self.addr, status.code(), told(&status)))
    }

    /// A request that tells the node how long its answer may take.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.reach.answer());
        request
    }

    fn late(&self) -> Status {
        let limit = humantime::format_duration(self.reach.answer());
        Status::new(
            Code::DeadlineExceeded,
            format!("{} does not answer within {limit}; --timeout gives it longer", self.addr),
        )
    }

    /// Connects as soon as a node listens, and waits until it has its store, for at most `limit` in all. A node that
    /// still starts then answers calls with why.
    async fn wait_for(&self, endpoint: &Endpoint, limit: Duration) -> Result<Channel> {
        let end = Instant::now() + limit;
        let mut pauses = Pauses { begun: Instant::now(), announced: false };
        loop {
            let left = end > Instant::now();
            match endpoint.connect().await {
                Ok(channel) if !left || !self.is_starting(&channel).await => return Ok(channel),
                Err(why) if !left || !is_refused(&why) => return Err(self.away(&why)),
                Ok(_) | Err(_) => pauses.next(&self.addr, limit).await,
            }
        }
    }

    /// Whether a node listens whose store is not there yet.
    async fn is_starting(&self, channel: &Channel) -> bool {
        let mut client = AdminServiceClient::new(channel.clone());
        let answer = self.answer(client.get_node(self.request(GetNodeRequest {}))).await;
        let details = answer.err().map(|status| status.get_error_details());
        let info = details.as_ref().and_then(|details| details.error_info());
        info.is_some_and(|info| info.domain == ERROR_DOMAIN && info.reason == Reason::Starting.name())
    }

    fn away(&self, why: &tonic::transport::Error) -> anyhow::Error {
        let cause = root_cause(why);
        anyhow::anyhow!(
            "no node answers at {} ({cause}); start one with kith serve, or name another with --addr",
            self.addr
        )
    }

    fn endpoint(&self) -> Result<Endpoint> {
        // What a node prints of itself has no scheme; TLS is asked for in words.
        let scheme = if self.addr.contains("://") { "" } else { "http://" };
        let endpoint = Endpoint::from_shared(format!("{scheme}{}", self.addr))
            .ok()
            .filter(|endpoint| matches!(endpoint.uri().scheme_str(), Some("http" | "https")))
            .with_context(|| format!("--addr {} is not an address like http://127.0.0.1:7600", self.addr))?
            .connect_timeout(CONNECT.min(self.reach.answer()))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let tls = endpoint.uri().scheme_str() == Some("https");
        match (&self.reach.ca_file, tls) {
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

/// One line about a call that failed, without what could steer a terminal.
pub(super) fn told(status: &Status) -> String {
    one_line(status.message())
}

/// Pauses between two tries to reach a node that starts.
struct Pauses {
    begun: Instant,
    announced: bool,
}

impl Pauses {
    /// Waits a little. Says once that it does, when that may be noticed.
    async fn next(&mut self, addr: &str, limit: Duration) {
        if !self.announced && self.begun.elapsed() >= ANNOUNCED {
            self.announced = true;
            let limit = humantime::format_duration(limit);
            eprintln!("kith: waits up to {limit} for a node at {addr}; --wait sets how long");
        }
        sleep(PAUSE).await;
    }
}

/// Whether nothing listens at the address, as before a node has started.
fn is_refused(error: &tonic::transport::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.kind() == std::io::ErrorKind::ConnectionRefused;
        }
        cause = error.source();
    }
    false
}

fn is_loopback(endpoint: &Endpoint) -> bool {
    let host = endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(addr: &str, ca_file: Option<&str>) -> Target {
        let ca_file = ca_file.map(PathBuf::from);
        Target { addr: addr.to_owned(), reach: Reach { ca_file, ..Reach::default() } }
    }

    #[test]
    fn addresses_that_cannot_work_are_refused_in_words() {
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
    async fn a_node_that_does_not_answer_is_named_with_the_flag_that_names_another() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = target(&format!("http://{free}"), None).connect_now().await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("no node answers at http://{free}")), "{error}");
        assert!(error.contains("--addr"), "{error}");
    }

    #[tokio::test]
    async fn node_that_listens_late_is_waited_for() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let target = target(&free.to_string(), None);
        target.connect_now().await.unwrap_err();
        let (_, health) = tonic_health::server::health_reporter();
        let serve = tonic::transport::Server::builder().add_service(health).serve(free);
        tokio::select! {
            biased;
            connected = target.connect() => assert!(connected.is_ok(), "{connected:?}"),
            ended = serve => panic!("{ended:?}"),
        }
    }

    #[tokio::test]
    async fn node_is_waited_for_no_longer_than_asked() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut target = target(&free.to_string(), None);
        target.reach.wait = Some(Duration::from_millis(120));
        let begun = Instant::now();
        assert!(target.connect().await.unwrap_err().to_string().starts_with("no node answers at"));
        assert!(begun.elapsed() >= Duration::from_millis(120));
    }

    #[test]
    fn only_nodes_of_this_machine_are_waited_for() {
        for (addr, here) in [
            ("127.0.0.1:7600", true),
            ("http://[::1]:7600", true),
            ("localhost:7600", true),
            ("10.0.0.1:7600", false),
            ("node.example:7600", false),
        ] {
            assert_eq!(is_loopback(&target(addr, None).endpoint().unwrap()), here, "{addr}");
        }
    }
}
