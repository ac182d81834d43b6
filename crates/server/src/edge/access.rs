//! Decides whether a user's call is let in: one lookup in memory for each such call.
//!
//! This is checked where a call reaches the services of its node or sandbox, which have the records. Streams
//! are ended when their user loses its access, see [`kith_service::user::Accesses::enter`].

use std::{convert::Infallible, fmt, sync::Arc};

use http::{Request, Response};
use kith_service::{
    rpc::call::Call,
    user::{AccessDenial, Accesses, LiveAccess},
};
use kith_store::UserId;
use tonic::{Status, body::Body};

use super::routes::{RouteFuture, RouteService};
use crate::{auth::RefusedCall, telemetry::audit::RefusalLog};

/// Lets users in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AccessGuard {
    accesses: Accesses,
    refusals: Arc<RefusalLog>,
}

/// A user's call for which memory has no answer, or a stream.
struct GuardedCall {
    call: Call,
    user: UserId,
    known: Option<Result<u32, AccessDenial>>,
}

/// Carries the access that ends an answer's streams, on its way to the edge.
#[derive(Clone)]
struct LiveStream(Arc<LiveAccess>);

/// Takes the access that ends the answer's stream.
pub(super) fn take_live(response: &mut Response<Body>) -> Option<Arc<LiveAccess>> {
    response.extensions_mut().remove::<LiveStream>().map(|live| live.0)
}

impl AccessGuard {
    pub(crate) fn new(accesses: Accesses) -> Self {
        Self { accesses, refusals: Arc::new(RefusalLog::new()) }
    }

    /// Logs how many calls were refused since it was called last.
    pub(super) fn report_refusals(&self) {
        self.refusals.report();
    }

    /// Has the service answer, if the call's user is let in. Services as themselves always are.
    pub(super) fn answer(&self, service: &Arc<dyn RouteService>, mut request: Request<Body>) -> RouteFuture {
        let Some(call) = request.extensions_mut().get_mut::<Call>() else { return service.answer(request) };
        let Some(user) = call.principal.user() else { return service.answer(request) };
        let known = self.accesses.known(user, call.access.issued);
        if let (Some(Ok(account)), false) = (known, call.access.streams) {
            call.access.account = account;
            return service.answer(request);
        }
        let guarded = GuardedCall { call: *call, user, known };
        Box::pin(self.clone().answer_later(Arc::clone(service), request, guarded))
    }

    async fn answer_later(
        self,
        service: Arc<dyn RouteService>,
        mut request: Request<Body>,
        GuardedCall { mut call, user, known }: GuardedCall,
    ) -> Result<Response<Body>, Infallible> {
        let account = match self.decided(&call, user, known).await {
            Ok(Ok(account)) => Some(account),
            Ok(Err(denial)) => return Ok(self.refuse(denial, user, request.uri().path()).into_http()),
            Err(status) if call.access.writes => return Ok(status.into_http()),
            // Reads go on.
            Err(_) => None,
        };
        call.access.account = account.unwrap_or_default();
        request.extensions_mut().insert(call);
        // This comes before the handler begins: every later change ends the stream.
        let live = call.access.streams.then(|| self.accesses.enter(user, call.access.issued, account));
        let mut response = service.answer(request).await?;
        if let Some(live) = live {
            response.extensions_mut().insert(LiveStream(Arc::new(live)));
        }
        Ok(response)
    }

    async fn decided(
        &self,
        call: &Call,
        user: UserId,
        known: Option<Result<u32, AccessDenial>>,
    ) -> Result<Result<u32, AccessDenial>, Status> {
        match known {
            Some(known) => Ok(known),
            None => Ok(self.accesses.check(user, call.access.issued, call.access.writes).await?),
        }
    }

    fn refuse(&self, denial: AccessDenial, user: UserId, path: &str) -> Status {
        let refused = RefusedCall::by_access(denial, user);
        let mut parts = path.split('/').skip(1);
        let method = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        self.refusals.add(&refused, method, None);
        refused.error.into()
    }
}

impl fmt::Debug for AccessGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessGuard").finish_non_exhaustive()
    }
}
