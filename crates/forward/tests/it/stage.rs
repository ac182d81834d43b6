//! A forwarder that runs, with small limits.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_forward::{
    AddressRule, ForwardState, Forwarder, Parked, Progress, Receiver, ReceiverUrl, Resolver, RetryRequest,
    SavedState, Secrets, Settings, StateError, StopReason,
};
use parking_lot::Mutex;
use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{receiver::TestReceiver, source::MemorySource};

pub(crate) const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// Limits that make failures quick.
pub(crate) fn settings() -> Settings {
    Settings {
        request: Duration::from_millis(500),
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(20),
        ..Settings::default()
    }
}

/// A state in memory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct MemoryState(pub(crate) Arc<Mutex<MemoryFiles>>);

#[derive(Default)]
pub(crate) struct MemoryFiles {
    pub(crate) saved: SavedState,
    pub(crate) retry: Option<RetryRequest>,
    pub(crate) is_full: bool,
}

impl MemoryState {
    pub(crate) fn new() -> Self {
        let state = Self::default();
        state.0.lock().saved.cursor = "0".to_owned();
        state
    }

    pub(crate) fn saved(&self) -> SavedState {
        self.0.lock().saved.clone()
    }

    /// The parked records with their reasons.
    pub(crate) fn parked(&self) -> Vec<(String, String)> {
        let parked = self.saved().parked.into_iter();
        parked.map(|Parked { change, reason }| (change.record, reason)).collect()
    }
}

#[async_trait]
impl ForwardState for MemoryState {
    async fn save(&mut self, state: SavedState) -> Result<(), StateError> {
        let mut files = self.0.lock();
        if files.is_full {
            return Err(StateError::Name);
        }
        files.saved = state;
        Ok(())
    }

    async fn take_retry(&mut self) -> Result<Option<RetryRequest>, StateError> {
        Ok(self.0.lock().retry.take())
    }
}

/// A forwarder in a task.
pub(crate) struct Running {
    pub(crate) progress: Arc<Progress>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), StopReason>>,
}

impl Running {
    pub(crate) fn start(
        source: &MemorySource,
        receiver: Receiver,
        state: &MemoryState,
        settings: Settings,
    ) -> Self {
        let source = Arc::new(source.clone());
        let forwarder =
            Forwarder::new(source, receiver, state.clone(), state.saved(), settings, Box::new(|_| {}));
        let (progress, stop) = (forwarder.progress(), forwarder.stop_token());
        Self { progress, stop, task: tokio::spawn(forwarder.run()) }
    }

    /// Stops it as a signal does.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Ends it at once, as a kill does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// Waits until it stops by itself.
    pub(crate) async fn stopped(self) -> StopReason {
        let ended = tokio::time::timeout(Duration::from_secs(30), self.task).await;
        ended.expect("it goes on").unwrap().unwrap_err()
    }
}

pub(crate) fn tls(roots: RootCertStore) -> Arc<ClientConfig> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    Arc::new(config.with_root_certificates(roots).with_no_client_auth())
}

pub(crate) fn receiver_at(url: &str, rule: AddressRule) -> Receiver {
    let url = ReceiverUrl::parse(url, true).unwrap();
    Receiver::new(url, Secrets::parse(SECRET).unwrap(), tls(RootCertStore::empty()), rule)
}

/// Everything that sends to a receiver in a test.
pub(crate) fn to(receiver: &TestReceiver) -> Receiver {
    receiver_at(&format!("http://{}/hook", receiver.address), AddressRule::Any)
}

pub(crate) fn to_name(resolver: impl Resolver + 'static, rule: AddressRule) -> Receiver {
    receiver_at("http://search.example:80/hook", rule).with_resolver(Box::new(resolver))
}

/// Waits until something is so, for 30 s at most.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(), "{what}");
}
