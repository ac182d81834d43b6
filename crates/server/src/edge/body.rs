//! An answer's body: trailing metadata, the life of streams, and the call count.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use kith_service::rpc::call::AnswerMetadata;
use tonic::{Code, Status, body::Body};

use super::{answer, connection::WatchPermit, ending::EndConditions, gate::Slot, methods::CallRecord};

const TIER: HeaderName = HeaderName::from_static("kith-tier");
const VERSION: HeaderName = HeaderName::from_static("kith-version");
const AGE: HeaderName = HeaderName::from_static("kith-age-ms");

/// The body that the caller reads.
pub struct EdgeBody {
    inner: Body,
    served: Option<AnswerMetadata>,
    record: Option<CallRecord>,
    life: Option<Box<StreamBounds>>,
}

pub(super) struct StreamBounds {
    end_conditions: EndConditions,
    /// The slot that is given back when the stream ends. A watch has given it back before.
    _slot: Option<Slot>,
    /// Keeps the permit for a health or reflection stream until the body ends.
    _watch: Option<WatchPermit>,
}

impl StreamBounds {
    pub(super) fn new(
        end_conditions: EndConditions,
        slot: Option<Slot>,
        watch: Option<WatchPermit>,
    ) -> Box<Self> {
        Box::new(Self { end_conditions, _slot: slot, _watch: watch })
    }
}

impl EdgeBody {
    /// Wraps an answer whose call has been counted.
    pub(super) const fn plain(inner: Body) -> Self {
        Self { inner, served: None, record: None, life: None }
    }

    /// Counts the call when the body ends.
    pub(super) const fn new(
        inner: Body,
        served: Option<AnswerMetadata>,
        record: CallRecord,
        life: Option<Box<StreamBounds>>,
    ) -> Self {
        Self { inner, served, record: Some(record), life }
    }

    fn answered(&mut self, code: Code) {
        if let Some(mut record) = self.record.take() {
            record.answered(code);
        }
        self.life = None;
    }

    fn answered_with(&mut self, status: &Status) {
        if let Some(mut record) = self.record.take() {
            record.answered_with(status);
        }
        self.life = None;
    }

    /// Ends the stream here.
    fn cut(&mut self, status: &Status) -> Frame<Bytes> {
        self.inner = Body::empty();
        self.answered_with(status);
        Frame::trailers(answer::trailers(status))
    }

    /// Ends the answer here, because answers are not read.
    pub(crate) fn cut_unread(&mut self) -> Frame<Bytes> {
        self.cut(&answer::too_much_unread())
    }

    /// The reason why it failed, where that is logged, or decides whose fault it is.
    fn failure(&self, code: Code, trailers: &HeaderMap) -> Option<Status> {
        let needed = |record: &&CallRecord| record.is_event() || code == Code::ResourceExhausted;
        self.record.as_ref().filter(needed)?;
        Status::from_header_map(trailers)
    }

    fn trailers(&mut self, mut trailers: HeaderMap) -> Frame<Bytes> {
        let code =
            trailers.get(Status::GRPC_STATUS).map_or(Code::Unknown, |code| Code::from_bytes(code.as_bytes()));
        if code == Code::Ok {
            if let Some(served) = self.served.take() {
                add_served_metadata(&mut trailers, served);
            }
        } else if let Some(other) = replacement(&trailers, code) {
            return self.cut(&other);
        } else if let Some(status) = self.failure(code, &trailers) {
            self.answered_with(&status);
        }
        self.answered(code);
        Frame::trailers(trailers)
    }
}

/// An error from tonic's decoder reaches the trailers when a handler passes on what its stream gave it.
fn replacement(trailers: &HeaderMap, code: Code) -> Option<Status> {
    if !matches!(code, Code::Internal | Code::OutOfRange | Code::ResourceExhausted | Code::Unimplemented) {
        return None;
    }
    let status = Status::from_header_map(trailers)?;
    answer::replacement(code, status.message())
}

fn add_served_metadata(trailers: &mut HeaderMap, served: AnswerMetadata) {
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
        // This is checked before each frame: a stream that always has something to send would never end
        // otherwise.
        if let Some(status) = this.life.as_ref().and_then(|life| life.end_conditions.met()) {
            return Poll::Ready(Some(Ok(this.cut(&status))));
        }
        let entered = this.record.as_ref().and_then(CallRecord::enter);
        let polled = Pin::new(&mut this.inner).poll_frame(cx);
        drop(entered);
        match polled {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(match frame.into_trailers() {
                Ok(trailers) => this.trailers(trailers),
                Err(data) => data,
            }))),
            Poll::Ready(Some(Err(status))) => {
                this.answered_with(&status);
                Poll::Ready(Some(Err(status)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match this.life.as_mut().and_then(|life| life.end_conditions.poll_met(cx)) {
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
