//! The call for services that send pushes, on the wire.

use std::sync::Arc;

use kith_proto::message::v1 as wire;
use tokio::sync::Semaphore;
use tonic::{Request, Response};

use super::{
    OfflineLogs,
    watch::{OfflineStream, position},
};
use crate::{
    error::{Error, Reason},
    rpc::{call::RpcResult, page_token::PageTokens},
};

/// The most streams on a node: each reads the logs for itself.
const WATCHERS_MAX: usize = 16;

/// The call for services that send pushes, on the wire.
#[derive(Clone, Debug)]
pub struct OfflineRpc {
    /// `None`: they are off.
    logs: Option<OfflineLogs>,
    tokens: PageTokens,
    watcher_permits: Arc<Semaphore>,
}

impl OfflineRpc {
    /// Creates the calls over a deployment's logs. `tokens` issues cursors.
    #[must_use]
    pub fn new(logs: Option<OfflineLogs>, tokens: PageTokens) -> Self {
        Self { logs, tokens, watcher_permits: Arc::new(Semaphore::new(WATCHERS_MAX)) }
    }

    pub(crate) async fn watch_offline(
        &self,
        request: Request<wire::WatchOfflineRequest>,
    ) -> RpcResult<OfflineStream> {
        let request = request.into_inner();
        let logs = self.logs.as_ref().ok_or_else(offline_disabled)?;
        let position = position(&self.tokens, &request.cursor)?;
        let permit = Arc::clone(&self.watcher_permits).try_acquire_owned().map_err(|_| too_many())?;
        Ok(Response::new(logs.watch(position, self.tokens.clone(), permit).await?))
    }
}

fn offline_disabled() -> Error {
    Error::new(Reason::NotConfigured, "messages.offline is not set").with("setting", "messages.offline")
}

fn too_many() -> Error {
    Error::new(Reason::TooManyReceivers, format!("the node has {WATCHERS_MAX} streams of WatchOffline"))
}
