//! How the command line reaches a node.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::start::StartError;

const CONNECT: Duration = Duration::from_secs(5);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// Largest message taken from a node: a batch of 500 records of the largest size.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Runs a command that talks to a node.
pub(super) fn block_on(command: impl Future<Output = Result<u8>>) -> Result<u8, StartError> {
    super::runtime()?.block_on(command).map_err(|why| StartError::new(format!("{why:#}")))
}

/// The node to talk to.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Target {
    /// Address of a node.
    #[arg(long, default_value = "http://127.0.0.1:7600")]
    pub(super) addr: String,
    /// Certificates to trust, in PEM; for an address with https.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl Target {
    /// Connects, so that a wrong address is told at once. The channel connects again by itself.
    ///
    /// # Errors
    /// When the address or the certificates cannot be used, or no node answers.
    pub(super) async fn connect(&self) -> Result<Channel> {
        let endpoint = self.endpoint()?;
        let channel = endpoint.connect().await.map_err(|why| {
            let cause = root_cause(&why);
            anyhow::anyhow!("no node answers at {} ({cause})", self.addr)
        })?;
        Ok(channel)
    }

    fn endpoint(&self) -> Result<Endpoint> {
        let endpoint = Endpoint::from_shared(self.addr.clone())
            .ok()
            .filter(|endpoint| matches!(endpoint.uri().scheme_str(), Some("http" | "https")))
            .with_context(|| format!("--addr {} is not an address like http://127.0.0.1:7600", self.addr))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let tls = endpoint.uri().scheme_str() == Some("https");
        match (&self.ca_file, tls) {
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
        Target { addr: addr.to_owned(), ca_file: ca_file.map(PathBuf::from) }
    }

    #[test]
    fn addresses_that_cannot_work_are_refused_in_words() {
        for (addr, ca_file, words) in [
            ("127.0.0.1:7600", None, "is not an address like"),
            ("ftp://127.0.0.1", None, "is not an address like"),
            ("https://127.0.0.1:7600", None, "needs --ca-file"),
            ("http://127.0.0.1:7600", Some("ca.pem"), "is for an address with https"),
            ("https://127.0.0.1:7600", Some("absent.pem"), "could not read absent.pem"),
        ] {
            let error = target(addr, ca_file).endpoint().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[tokio::test]
    async fn a_node_that_does_not_answer_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = target(&format!("http://{free}"), None).connect().await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("no node answers at http://{free}")), "{error}");
    }
}
