//! The body of an answer: trailing metadata, the life of streams, and the count of the call.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use kith_service::rpc::call::Served;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{Code, Status, body::Body};

use super::{answer, gate::Slot, methods::Record};

const TIER: HeaderName = HeaderName::from_static("kith-tier");
const VERSION: HeaderName = HeaderName::from_static("kith-version");
const AGE: HeaderName = HeaderName::from_static("kith-age-ms");

/// What the caller reads.
pub struct EdgeBody {
    inner: Body,
    served: Option<Served>,
    record: Option<Record>,
    life: Option<Box<Life>>,
}

/// What bounds a stream.
pub(super) struct Life {
    timer: Pin<Box<Sleep>>,
    closing: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Given back when the stream ends; a watch has given it back before.
    _slot: Option<Slot>,
}

impl Life {
    pub(super) fn new(
        deadline: Instant,
        slot: Option<Slot>,
        closing: Option<CancellationToken>,
    ) -> Box<Self> {
        let closing = closing.map(|closing| Box::pin(closing.cancelled_owned()));
        Box::new(Self { timer: Box::pin(sleep_until(deadline)), closing, _slot: slot })
    }

    /// Why the stream ends now; the task is woken when it has to.
    fn over(&mut self, cx: &mut Context<'_>) -> Option<Status> {
        if self.timer.as_mut().poll(cx).is_ready() {
            return Some(answer::deadline_exceeded());
        }
        let closing = self.closing.as_mut()?;
        closing.as_mut().poll(cx).is_ready().then(answer::stopping)
    }
}

impl EdgeBody {
    /// Of an answer that has been counted.
    pub(super) const fn plain(inner: Body) -> Self {
        Self { inner, served: None, record: None, life: None }
    }

    /// Counts the call when the body ends.
    pub(super) const fn new(
        inner: Body,
        served: Option<Served>,
        record: Record,
        life: Option<Box<Life>>,
    ) -> Self {
        Self { inner, served, record: Some(record), life }
    }

    fn answered(&mut self, code: Code) {
        if let Some(mut record) = self.record.take() {
            record.answered(code);
        }
        self.life = None;
    }

    /// Ends the stream here.
    fn cut(&mut self, status: &Status) -> Frame<Bytes> {
        self.inner = Body::empty();
        self.answered(status.code());
        Frame::trailers(answer::trailers(status))
    }

    fn trailers(&mut self, mut trailers: HeaderMap) -> Frame<Bytes> {
        let code =
            trailers.get(Status::GRPC_STATUS).map_or(Code::Unknown, |code| Code::from_bytes(code.as_bytes()));
        if code == Code::Ok {
            if let Some(served) = self.served.take() {
                say(&mut trailers, served);
            }
        } else if let Some(other) = replaced(&trailers, code) {
            return self.cut(&other);
        }
        self.answered(code);
        Frame::trailers(trailers)
    }
}

/// An error of tonic's decoder reaches the trailers when a handler passes on what its stream gave it.
fn replaced(trailers: &HeaderMap, code: Code) -> Option<Status> {
    if !matches!(code, Code::Internal | Code::OutOfRange | Code::ResourceExhausted | Code::Unimplemented) {
        return None;
    }
    let status = Status::from_header_map(trailers)?;
    answer::instead(code, status.message())
}

fn say(trailers: &mut HeaderMap, served: Served) {
    trailers.insert(TIER, HeaderValue::from_static(served.tier));
    trailers.insert(VERSION, HeaderValue::from(served.version));
    trailers.insert(AGE, HeaderValue::from(u64::try_from(served.age.as_millis()).unwrap_or(u64::MAX)));
}

impl http_body::Body for EdgeBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_trailers() {
                Ok(trailers) => this.trailers(trailers),
                Err(data) => data,
            }))),
            Poll::Ready(Some(Err(status))) => {
                this.answered(status.code());
                Poll::Ready(Some(Err(status)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match this.life.as_mut().and_then(|life| life.over(cx)) {
                Some(status) => Poll::Ready(Some(Ok(this.cut(&status)))),
                None => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl fmt::Debug for EdgeBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeBody").finish_non_exhaustive()
    }
}
