//! The bound on the bytes of a request. tonic bounds every message of a service alike; most methods
//! need far less than the batches of the same service.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tonic::codegen::StdError;

use super::answer;

/// Length and flag before every message.
const PREFIX: u64 = 5;

/// The body of a request.
pub trait RequestBody: Body<Data = Bytes, Error: Into<StdError>> + Unpin + Send + 'static {}

impl<B: Body<Data = Bytes, Error: Into<StdError>> + Unpin + Send + 'static> RequestBody for B {}

/// A body that fails once it has yielded more than it may.
#[derive(Debug)]
pub struct BoundedBody<B> {
    inner: B,
    left: u64,
}

impl<B> BoundedBody<B> {
    /// One message of at most `most` bytes; `None`: the service bounds its messages itself.
    pub(super) const fn new(inner: B, most: Option<u64>) -> Self {
        let left = match most {
            Some(most) => most.saturating_add(PREFIX),
            None => u64::MAX,
        };
        Self { inner, left }
    }
}

impl<B: RequestBody> Body for BoundedBody<B> {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = frame.map_err(Into::<StdError>::into)?;
        let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
        let Some(left) = this.left.checked_sub(bytes) else {
            return Poll::Ready(Some(Err(answer::too_large().into())));
        };
        this.left = left;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
