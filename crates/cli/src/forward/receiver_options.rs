//! Where events are sent, and how.

use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use kith_forward::{AddressRule, Receiver, ReceiverUrl, Secrets};
use kith_server::auth::{
    secret_file::{self, Content},
    trusted::trusted,
};

/// The receiver of events.
#[derive(Debug, clap::Args)]
pub(super) struct ReceiverOptions {
    /// Address of the receiver: https://HOST/PATH
    #[arg(long)]
    url: String,
    /// File with the secret that signs events, which only its owner may read; during a rotation two lines
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// Allow an address with http: everyone on the way can read the records
    #[arg(long)]
    allow_http: bool,
    /// Allow addresses that are not public: of this machine, or of a private network
    #[arg(long)]
    allow_private: bool,
    /// Certificates that the receiver's must be signed by, in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    url_ca_file: Option<PathBuf>,
}

impl ReceiverOptions {
    /// Makes the receiver. Fails if the address, the secret or the certificates cannot be used, or if the
    /// address is not public and has to be.
    pub(super) async fn receiver(&self) -> Result<Receiver> {
        let url = ReceiverUrl::parse(&self.url, self.allow_http).map_err(|why| anyhow!("--url {why}"))?;
        let tls =
            trusted(self.url_ca_file.as_deref(), "--url-ca-file").map_err(|why| anyhow!("--url{why}"))?;
        let rule = if self.allow_private { AddressRule::Any } else { AddressRule::Public };
        let receiver = Receiver::new(url, self.secrets()?, tls, rule);
        receiver.check_address().await.map_err(|why| anyhow!("--url: the receiver {why}"))?;
        Ok(receiver)
    }

    fn secrets(&self) -> Result<Secrets> {
        let file = secret_file::read(&self.secret_file, Content::PrivateKey).context("--secret-file")?;
        let named = || format!("--secret-file {}", self.secret_file.display());
        let text = std::str::from_utf8(&file.bytes).map_err(|_| anyhow!("{} is no text", named()))?;
        Secrets::parse(text).map_err(|why| anyhow!("{} {why}", named()))
    }
}
