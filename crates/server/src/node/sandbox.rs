//! Sandboxes on a node for tests: each name has its own store, tiers and ids behind the same port.

use std::{
    collections::HashMap,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use kith_service::error::{Error, Reason};
use kith_store_sqlite::SqliteHandle;
use parking_lot::Mutex;
use tokio::{sync::OnceCell, time::Instant};
use tonic::{Status, body::Body};
use tower::Service;

use crate::{
    admin::NodeStatus,
    config::Config,
    edge::{Load, Routes, SandboxName},
    health::Reporter,
    node::{
        ephemeral::SandboxTemplate,
        services::{self, Services},
        store::OpenStore,
    },
    start_error::StartError,
};

/// The limit on a sandbox's memory tier, so that a node with all sandboxes fits into a test machine.
const MEMORY_BYTES: u64 = 8 << 20;

/// The node's state for sandboxes.
#[derive(Clone, Debug)]
pub(crate) struct HostState {
    pub(crate) health: Reporter,
    pub(crate) load: Load,
}

/// The sandboxes on a node. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Sandboxes(Arc<SandboxesInner>);

#[derive(Debug)]
struct SandboxesInner {
    template: SandboxTemplate,
    config: Config,
    most: usize,
    idle: Duration,
    by_name: Mutex<HashMap<SandboxName, Arc<Sandbox>>>,
}

/// One sandbox. Calls hold it, so its reference count shows whether it is in use.
#[derive(Debug, Default)]
struct Sandbox {
    /// Created by the first call; others wait for it.
    node: OnceCell<SandboxNode>,
    /// When its last call came or ended.
    used: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct SandboxNode {
    /// The services, whose tasks end with the sandbox.
    services: Services,
    _store: SqliteHandle,
}

impl Sandboxes {
    /// Creates the state for a node whose store was just opened. `None` if its data is durable.
    pub(crate) async fn of(config: &Config, store: &OpenStore) -> Result<Option<Self>, StartError> {
        let template = match store {
            OpenStore::Sqlite(store) if config.ephemeral.enabled => {
                SandboxTemplate::of(config, store).await?
            }
            OpenStore::Sqlite(_) => return Ok(None),
            #[cfg(feature = "cluster")]
            OpenStore::Cluster(_) => return Ok(None),
        };
        let (most, idle) = (config.ephemeral.sandboxes, config.ephemeral.sandbox_idle);
        let mut config = config.clone();
        config.cache.memory_bytes = config.cache.memory_bytes.min(MEMORY_BYTES);
        Ok(Some(Self(Arc::new(SandboxesInner { template, config, most, idle, by_name: Mutex::default() }))))
    }

    /// Routes calls that name a sandbox to it, and others to `own`.
    pub(crate) fn route_sandboxes(&self, own: Routes, host: HostState) -> Routes {
        Routes::all(Dispatch { own, sandboxes: self.clone(), host })
    }

    /// The sandbox with this name, created if necessary.
    async fn enter(&self, name: SandboxName, host: &HostState) -> Result<SandboxUse, Status> {
        let held = SandboxUse(self.find_or_add(name)?);
        held.0.node.get_or_try_init(|| self.open_node(host)).await.map_err(|error| {
            tracing::error!(%error, "a sandbox cannot be made");
            Error::new(Reason::StoreUnavailable, "the store of the sandbox cannot be opened")
        })?;
        Ok(held)
    }

    fn find_or_add(&self, name: SandboxName) -> Result<Arc<Sandbox>, Error> {
        // Dropped after the lock is released: a store ends then.
        let _dropped;
        let mut by_name = self.0.by_name.lock();
        if let Some(sandbox) = by_name.get(&name) {
            return Ok(Arc::clone(sandbox));
        }
        if by_name.len() >= self.0.most {
            _dropped = self.0.make_room(&mut by_name)?;
        }
        Ok(Arc::clone(by_name.entry(name).or_default()))
    }

    async fn open_node(&self, host: &HostState) -> Result<SandboxNode, StartError> {
        let store = self.0.template.open().await?;
        let HostState { health, load } = host;
        let node_status = NodeStatus::new(health.clone(), load.clone(), &store.stores());
        let services = services::services(&store.stores(), &self.0.config, node_status).await;
        let services = services.map_err(|error| StartError::new(error.to_string()))?;
        services.start();
        Ok(SandboxNode { services, _store: store })
    }
}

impl SandboxesInner {
    /// Removes the sandbox that has been unused for the longest time, if that is long enough.
    fn make_room(
        &self,
        by_name: &mut HashMap<SandboxName, Arc<Sandbox>>,
    ) -> Result<Option<Arc<Sandbox>>, Error> {
        // No call can acquire one while the map is locked.
        let unused = by_name.iter().filter(|(_, sandbox)| Arc::strong_count(sandbox) == 1);
        let oldest = unused.map(|(name, sandbox)| (*sandbox.used.lock(), name)).min_by_key(|(used, _)| *used);
        match oldest {
            Some((used, name)) if used.is_none_or(|used| used.elapsed() >= self.idle) => {
                let name = name.clone();
                Ok(by_name.remove(&name))
            }
            Some(_) | None => Err(Error::new(
                Reason::Overloaded,
                format!(
                    "the node has {} sandboxes, all used within the last {}",
                    self.most,
                    humantime::format_duration(self.idle)
                ),
            )),
        }
    }
}

/// A sandbox in use; notes when the use ends.
struct SandboxUse(Arc<Sandbox>);

impl Drop for SandboxUse {
    fn drop(&mut self) {
        *self.0.used.lock() = Some(Instant::now());
    }
}

/// Routes calls to the sandbox that they name.
#[derive(Clone)]
struct Dispatch {
    own: Routes,
    sandboxes: Sandboxes,
    host: HostState,
}

impl Service<Request<Body>> for Dispatch {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(name) = request.extensions_mut().remove::<SandboxName>() else {
            return Box::pin(self.own.call(request));
        };
        let (sandboxes, host) = (self.sandboxes.clone(), self.host.clone());
        Box::pin(async move {
            let held = match sandboxes.enter(name, &host).await {
                Ok(held) => held,
                Err(status) => return Ok(status.into_http()),
            };
            let Some(mut routes) = held.0.node.get().map(|node| node.services.routes.clone()) else {
                unreachable!("who entered finds it made");
            };
            let response = routes.call(request).await?;
            Ok(response.map(|body| Body::new(HeldBody { body, _held: held })))
        })
    }
}

/// An answer that is still being sent: a stream uses its sandbox until its end.
struct HeldBody {
    body: Body,
    _held: SandboxUse,
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
