//! One call, over all of its tries.

use std::{
    mem,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header::AUTHORIZATION, request::Parts};
use http_body_util::{BodyExt as _, Full};
use kith_proto::CallRule;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status, body::Body, transport::Channel};
use tower::{Service, ServiceExt as _};

use crate::{
    Builder, Error,
    request::frozen,
    retry::{RETRY_COST, as_lost, delay},
    session::SessionTexts,
};

const ACTING: HeaderName = HeaderName::from_static("kith-acting-user");
/// The services whose records a [near cache](crate::NearCache) copies.
const COPIED: [&str; 2] = ["/kith.user.v1.UserService/", "/kith.group.v1.GroupService/"];
/// The first pause before a try.
const PAUSE: Duration = Duration::from_millis(50);
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// A channel to the nodes of Kith, for the generated stubs. Cheap to clone; a process needs one connection.
#[derive(Clone, Debug)]
#[must_use]
pub struct Client {
    pub(crate) channel: Channel,
    pub(crate) options: Arc<Builder>,
    pub(crate) deadline: Duration,
    pub(crate) acting: Option<i64>,
    pub(crate) session: Option<Arc<SessionTexts>>,
}

impl Client {
    /// The options of a client.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same client, which calls for this user (`kith-acting-user`).
    pub fn acting_as(&self, user: i64) -> Self {
        Self { acting: Some(user), ..self.clone() }
    }

    /// The same client with another deadline of its calls, over all tries. Default 5 s. A deadline of a
    /// single call (`Request::set_timeout`) goes before. Streams have none.
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// The same client with a new session, for one user: its reads see what it has written and was answered,
    /// on every node.
    pub fn session(&self) -> Self {
        self.resume_session("")
    }

    /// The same client with a session that was exported.
    pub fn resume_session(&self, exported: &str) -> Self {
        Self { session: Some(Arc::new(SessionTexts::of(exported))), ..self.clone() }
    }

    /// The session as one text, for a cookie or the next service. Empty without a session.
    #[must_use]
    pub fn export_session(&self) -> String {
        self.session.as_ref().map(|session| session.export()).unwrap_or_default()
    }
}

/// The stubs of tonic call it.
impl Service<Request<Body>> for Client {
    type Response = Response<Body>;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Response<Body>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, rule) = (self.clone(), CallRule::of(request.uri().path()));
        Box::pin(async move {
            if rule.streams { client.send(request).await } else { client.unary(request, rule).await }
        })
    }
}

impl Client {
    async fn unary(&self, request: Request<Body>, mut rule: CallRule) -> Result<Response<Body>, Status> {
        let (mut head, body) = request.into_parts();
        let given = head.headers.remove(TIMEOUT).and_then(|value| duration(value.to_str().ok()?));
        let deadline = Instant::now() + given.unwrap_or(self.deadline);
        let framed = frozen(head.uri.path(), &mut rule, body.collect().await?.to_bytes());
        self.options.budget.spend(-1);
        let try_once = || self.try_once(&head, &framed, deadline);
        let may_repeat = |_: u32, pause: Duration| {
            rule.is_repeatable && Instant::now() + pause < deadline && self.options.budget.spend(RETRY_COST)
        };
        let answer = timeout_at(deadline, self.repeat(try_once, may_repeat)).await;
        if !rule.reads && COPIED.iter().any(|service| head.uri.path().starts_with(service)) {
            self.options.writes.fetch_add(1, Ordering::Release);
        }
        match answer {
            // The channel ends a call by its deadline, too.
            Ok(answer) if answer.is_ok() || Instant::now() < deadline => answer,
            _ => Err(Status::deadline_exceeded("the deadline passed before there was an answer")),
        }
    }

    async fn try_once(
        &self,
        head: &Parts,
        framed: &Bytes,
        deadline: Instant,
    ) -> Result<Response<Body>, Status> {
        let mut request = Request::from_parts(head.clone(), Body::new(Full::new(framed.clone())));
        let left = deadline.saturating_duration_since(Instant::now()).as_millis().min(99_999_998) + 1;
        let left = HeaderValue::try_from(format!("{left}m")).map_err(|_| Status::internal("no deadline"))?;
        request.headers_mut().insert(TIMEOUT, left);
        let (head, body) = self.send(request).await?.into_parts();
        let body = body.collect().await.map_err(as_lost)?;
        let end = body.trailers().filter(|end| end.contains_key(STATUS)).unwrap_or(&head.headers);
        // A `Status` would copy the headers of each answer.
        if end.get(STATUS).is_some_and(|code| code == "0") {
            return Ok(Response::from_parts(head, Body::new(body)));
        }
        let status = Status::from_header_map(end);
        Err(as_lost(status.unwrap_or_else(|| Status::unavailable("the answer ended early"))))
    }

    /// Sends a request with the metadata of the client.
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Status> {
        let headers = request.headers_mut();
        if let Some(value) = self.options.credential.metadata().await? {
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(user) = self.acting {
            headers.insert(ACTING, HeaderValue::from(user));
        }
        if let Some(session) = &self.session {
            session.carry(headers);
        }
        // Only these two compare an answer with what was sent.
        let is_compared = self.session.is_some() || self.options.credential.source.is_some();
        let sent = if is_compared { headers.clone() } else { HeaderMap::new() };
        let answer = self.channel.clone().oneshot(request).await;
        let answer = answer.map_err(|why| Status::unavailable(why.to_string()))?;
        let headers = answer.headers();
        let number = headers.get("kith-contract").and_then(|value| value.to_str().ok()?.parse().ok());
        self.options.check_contract(number.unwrap_or(0));
        if let Some(session) = &self.session {
            session.answered(&sent, headers);
        }
        if Status::from_header_map(headers).is_some_and(|status| status.code() == Code::Unauthenticated) {
            self.options.credential.drop_refused(&sent).await;
        }
        Ok(answer)
    }

    /// Calls `once` until it succeeds, while the error allows it and `may_repeat` after so many tries and
    /// this pause; and once more after the refusal of a token.
    pub(crate) async fn repeat<T, F: Future<Output = Result<T, Status>>>(
        &self,
        once: impl Fn() -> F,
        may_repeat: impl Fn(u32, Duration) -> bool,
    ) -> Result<T, Status> {
        let (mut tries, mut was_refused) = (0, self.options.credential.source.is_none());
        loop {
            let status = match once().await {
                Ok(done) => return Ok(done),
                Err(status) => status,
            };
            let error = Error::from(&status);
            let is_refused = error.code == Code::Unauthenticated && !error.reason.is_empty();
            if is_refused && !mem::replace(&mut was_refused, true) {
                continue;
            }
            tries += 1;
            let pause = delay(&error, self.options.pause.unwrap_or(PAUSE), tries);
            sleep(pause.filter(|pause| may_repeat(tries, *pause)).ok_or(status)?).await;
        }
    }
}

/// The time of `grpc-timeout`, such as `100m`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let units = [1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000, 3_600_000_000_000];
    let nanos = number.parse::<u64>().ok()?.saturating_mul(*units.get("numSMH".find(unit)?)?);
    Some(Duration::from_nanos(nanos))
}
