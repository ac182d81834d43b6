//! One call on its way through the edge.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll},
};

use http::{HeaderName, HeaderValue, Request, Response};
use kith_service::rpc::call::AnswerMetadata;
use tonic::{Status, body::Body};

use super::{
    access, answer,
    body::{EdgeBody, StreamBounds},
    bounded::{BoundedBody, RequestBody},
    connection::WatchPermit,
    ending::{CloseSignal, EndConditions},
    gate::{PendingSlot, Slot},
    methods::{CallRecord, MethodKind},
    routes::{RouteFuture, Routes},
    sessions::CarriedSession,
};

/// The metadata of each answer that says which contract the node serves.
pub(crate) const CONTRACT: HeaderName = HeaderName::from_static("kith-contract");
static CONTRACT_NUMBER: LazyLock<HeaderValue> = LazyLock::new(|| HeaderValue::from(kith_proto::CONTRACT));

/// The answer to one call. Dropping it drops the handler; a write that has begun goes on in its own task.
pub struct EdgeFuture<B> {
    stage: CallStage<B>,
}

enum CallStage<B> {
    /// Answered by the edge itself.
    Refused(Option<(CallRecord, Status)>),
    /// The user's token is being verified, or the node has not reached the call's session. Both cost more
    /// than a box.
    Verifying(Pin<Box<dyn Future<Output = EdgeFuture<B>> + Send>>),
    /// The call is in the queue; boxed because few calls ever wait.
    Waiting(Option<Box<QueuedCall<B>>>),
    /// The handler has the call.
    Running { handler: RouteFuture, running: Option<RunningCall>, slot: Option<Slot> },
}

struct QueuedCall<B> {
    slot: PendingSlot,
    routes: Routes,
    request: Request<BoundedBody<B>>,
    running: RunningCall,
}

/// The state that the edge keeps for a call while its handler runs.
pub(super) struct RunningCall {
    record: CallRecord,
    end_conditions: EndConditions,
    /// Set for a health or reflection stream.
    watch: Option<WatchPermit>,
    /// What the answer continues.
    session: Option<Box<CarriedSession>>,
}

impl RunningCall {
    pub(super) const fn new(
        record: CallRecord,
        end_conditions: EndConditions,
        session: Option<Box<CarriedSession>>,
    ) -> Self {
        Self { record, end_conditions, watch: None, session }
    }

    pub(super) fn kind(&self) -> MethodKind {
        self.record.method().kind
    }

    /// Holds the watch permit until the stream ends.
    pub(super) fn hold_watch(&mut self, watch: WatchPermit) {
        self.end_conditions.give_way(CloseSignal::new(watch.displaced().clone(), answer::displaced));
        self.watch = Some(watch);
    }

    /// The name of the service that answers.
    pub(super) fn service(&self) -> &str {
        &self.record.method().service
    }

    pub(super) fn into_record(self) -> CallRecord {
        self.record
    }

    fn refuse(mut self, status: Status) -> Response<EdgeBody> {
        self.record.answered_with(&status);
        refusal(status)
    }

    /// Turns the handler's answer into the caller's answer.
    fn finish(mut self, mut response: Response<Body>, slot: Option<Slot>) -> Response<EdgeBody> {
        if let Some(session) = self.session.take().filter(|_| self.kind() == MethodKind::Unary) {
            let code = response.extensions().get::<Status>().map(Status::code);
            session.answer(self.record.method().rule.writes(), code, response.headers_mut());
        }
        if let Some(status) = response.extensions().get::<Status>() {
            let other = answer::replacement(status.code(), status.message());
            self.record.answered_with(other.as_ref().unwrap_or(status));
            return other.map_or_else(|| response.map(EdgeBody::plain), refusal);
        }
        let served = response.extensions().get::<AnswerMetadata>().copied();
        if self.kind() != MethodKind::Unary
            && let Some(live) = access::take_live(&mut response)
        {
            self.end_conditions.add_access(live);
        }
        let life = match self.record.method().kind {
            MethodKind::Unary => None,
            MethodKind::Stream => Some(StreamBounds::new(self.end_conditions, slot, None)),
            // Its domain bounds open watches. They must not take the place of calls that end soon.
            MethodKind::Watch => {
                drop(slot);
                Some(StreamBounds::new(self.end_conditions, None, self.watch))
            }
        };
        let record = self.record;
        response.map(|body| EdgeBody::new(body, served, record, life))
    }
}

fn refusal(status: Status) -> Response<EdgeBody> {
    status.into_http::<Body>().map(EdgeBody::plain)
}

impl<B> EdgeFuture<B> {
    pub(super) const fn refused(record: CallRecord, status: Status) -> Self {
        Self { stage: CallStage::Refused(Some((record, status))) }
    }

    pub(super) fn verifying(verify: impl Future<Output = Self> + Send + 'static) -> Self {
        Self { stage: CallStage::Verifying(Box::pin(verify)) }
    }

    pub(super) fn waiting(
        slot: PendingSlot,
        routes: Routes,
        request: Request<BoundedBody<B>>,
        running: RunningCall,
    ) -> Self {
        Self { stage: CallStage::Waiting(Some(Box::new(QueuedCall { slot, routes, request, running }))) }
    }

    pub(super) const fn running(handler: RouteFuture, running: RunningCall, slot: Option<Slot>) -> Self {
        Self { stage: CallStage::Running { handler, running: Some(running), slot } }
    }
}

/// Nothing in it is pinned in place.
impl<B> Unpin for EdgeFuture<B> {}

impl<B: RequestBody> Future for EdgeFuture<B> {
    type Output = Result<Response<EdgeBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx).map(|mut response| {
            response.headers_mut().insert(CONTRACT, CONTRACT_NUMBER.clone());
            Ok(response)
        })
    }
}

impl<B: RequestBody> EdgeFuture<B> {
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Response<EdgeBody>> {
        loop {
            match &mut self.stage {
                CallStage::Refused(refused) => {
                    let (mut record, status) = refused.take().expect("an answer is taken once");
                    record.answered_with(&status);
                    return Poll::Ready(refusal(status));
                }
                CallStage::Verifying(verify) => match verify.as_mut().poll(cx) {
                    Poll::Ready(verified) => self.stage = verified.stage,
                    Poll::Pending => return Poll::Pending,
                },
                CallStage::Waiting(waiting) => match poll_waiting(waiting, cx) {
                    Poll::Ready(stage) => self.stage = stage,
                    Poll::Pending => return Poll::Pending,
                },
                CallStage::Running { handler, running, slot } => {
                    return poll_running(handler, running, slot, cx);
                }
            }
        }
    }
}

/// Waits for a slot, but not past the call's end.
fn poll_waiting<B: RequestBody>(
    waiting: &mut Option<Box<QueuedCall<B>>>,
    cx: &mut Context<'_>,
) -> Poll<CallStage<B>> {
    let inner = waiting.as_mut().expect("a slot is taken once");
    let slot = match inner.slot.as_mut().poll(cx) {
        Poll::Ready(slot) => slot,
        Poll::Pending => {
            let Some(status) = inner.running.end_conditions.poll_met(cx) else { return Poll::Pending };
            let running = waiting.take().expect("it is still there").running;
            return Poll::Ready(CallStage::Refused(Some((running.record, status))));
        }
    };
    let QueuedCall { routes, request, running, .. } = *waiting.take().expect("it is still there");
    Poll::Ready(match slot {
        Some(slot) => {
            let handler = routes.answer(running.service(), request);
            CallStage::Running { handler, running: Some(running), slot: Some(slot) }
        }
        None => CallStage::Refused(Some((running.record, answer::overloaded()))),
    })
}

fn poll_running(
    handler: &mut RouteFuture,
    running: &mut Option<RunningCall>,
    slot: &mut Option<Slot>,
    cx: &mut Context<'_>,
) -> Poll<Response<EdgeBody>> {
    let inner = running.as_mut().expect("an answer is taken once");
    let entered = inner.record.enter();
    // A panic in one handler must not take the connection and its other calls with it.
    let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(handler).poll(cx)));
    drop(entered);
    match polled {
        Ok(Poll::Ready(Ok(response))) => {
            let running = running.take().expect("it is still there");
            Poll::Ready(running.finish(response, slot.take()))
        }
        Ok(Poll::Pending) => {
            let Some(status) = inner.end_conditions.poll_met(cx) else { return Poll::Pending };
            let running = running.take().expect("it is still there");
            drop(slot.take());
            Poll::Ready(running.refuse(status))
        }
        Err(_panic) => {
            let running = running.take().expect("it is still there");
            let method = running.record.method();
            tracing::error!(service = method.service, method = method.name, "a handler panicked");
            Poll::Ready(running.refuse(answer::internal()))
        }
    }
}

impl<B> fmt::Debug for EdgeFuture<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeFuture").finish_non_exhaustive()
    }
}
