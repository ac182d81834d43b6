//! The connection for probes and confirmations. Nothing else is sent over it, and its task runs where the
//! node follows the log: a probe waits neither behind the node's commands nor behind its calls.

use std::{fmt, sync::Arc};

use fred::{clients::Client, types::config::Config};
use tokio::{task::JoinHandle, time::timeout};

use super::{
    RedisOptions,
    breaker::Breaker,
    link::{Link, hold},
};

/// A connection that is held until this is dropped, or the runtime on which it began ends.
pub(super) struct ProofLink {
    link: Arc<Link>,
    held: JoinHandle<()>,
}

impl ProofLink {
    /// Begins to connect on the caller's runtime, and waits for it within the connect timeout.
    ///
    /// An answer is useful as long as it comes before trust ends, so it may take as long as a connection may
    /// be silent. Trust is counted from when the probe was sent, however long its answer takes.
    pub(super) async fn begin(options: &RedisOptions, config: Config, breaker: Arc<Breaker>) -> Self {
        let link = Arc::new(Link::new(&options.clone().patient(), config));
        let held = tokio::spawn(hold(Arc::clone(&link), breaker));
        let this = Self { link, held };
        // An unavailable server is no error here.
        drop(timeout(options.connect_timeout, this.link.asked()).await);
        this
    }

    /// Whether it goes on. It does not after the end of its runtime.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_finished()
    }

    pub(super) fn client(&self) -> &Client {
        &self.link.client
    }
}

impl Drop for ProofLink {
    fn drop(&mut self) {
        self.held.abort();
    }
}

impl fmt::Debug for ProofLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofLink").field("link", &self.link).finish_non_exhaustive()
    }
}
