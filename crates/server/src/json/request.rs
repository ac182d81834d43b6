//! Turns a JSON call into a gRPC call while it is read.

use std::{
    fmt::Write as _,
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header};
use http_body::{Body, Frame};
use prost::Message as _;
use tonic::{Status, codegen::StdError};

use super::{BodyLimits, catalogue::Rpc, decode, error, unread_body::UnreadBody};
use crate::edge::{self, MeterSlot, RequestBody};

/// Connection, HTTP and Connect headers, which handlers do not need.
const NOT_METADATA: [HeaderName; 12] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("connect-protocol-version"),
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static("grpc-encoding"),
];
const CONNECT_TIMEOUT: &str = "connect-timeout-ms";
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// Most digits in Connect; gRPC allows fewer.
const DIGITS_MAX: usize = 10;
const GRPC_MOST: u64 = 99_999_999;

/// The request in gRPC form. Its body is transcoded when the handler reads it, within its deadline. An unread
/// body is left in `unread`.
pub(super) fn translate<B: RequestBody>(
    rpc: &'static Rpc,
    limits: BodyLimits,
    request: Request<B>,
    unread: &UnreadBody<B>,
) -> Result<Request<TranscodedBody<B>>, Box<Status>> {
    let unread = may_still_send(&request).then(|| unread.clone());
    let (mut head, inner) = request.into_parts();
    let limit = if rpc.batch {
        BodyLimit { bytes: limits.batch, key: "limits.batch_message_bytes" }
    } else {
        BodyLimit { bytes: limits.message, key: "limits.message_bytes" }
    };
    if let Err(status) = metadata(&mut head.headers) {
        if let Some(unread) = unread {
            unread.leave(inner);
        }
        return Err(status);
    }
    head.method = Method::POST;
    head.version = Version::HTTP_2;
    let meter = MeterSlot::default();
    head.extensions.insert(meter.clone());
    let body = TranscodedBody { inner: Some(inner), read: BytesMut::new(), rpc, limit, meter, unread };
    Ok(Request::from_parts(head, body))
}

fn metadata(headers: &mut HeaderMap) -> Result<(), Box<Status>> {
    for name in &NOT_METADATA {
        headers.remove(name);
    }
    if let Some(value) = headers.remove(CONNECT_TIMEOUT) {
        headers.insert(GRPC_TIMEOUT, timeout_of(&value).ok_or_else(wrong_timeout)?);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    Ok(())
}

/// Converts Connect's milliseconds into a gRPC timeout.
fn timeout_of(value: &HeaderValue) -> Option<HeaderValue> {
    let digits = value.to_str().ok()?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let milliseconds: u64 = digits.parse().ok()?;
    let mut text = String::new();
    match milliseconds {
        0..=GRPC_MOST => write!(text, "{milliseconds}m").ok()?,
        _ => write!(text, "{}S", milliseconds / 1000).ok()?,
    }
    text.try_into().ok()
}

fn wrong_timeout() -> Box<Status> {
    Box::new(edge::invalid_metadata(CONNECT_TIMEOUT, "must be 1 to 10 digits"))
}

/// The bound on the text, and the key that sets it.
#[derive(Clone, Copy, Debug)]
struct BodyLimit {
    bytes: usize,
    key: &'static str,
}

/// A JSON call's body. Yields its message in a gRPC frame after the whole body has arrived. Fails with the
/// status that the caller is to get.
#[derive(Debug)]
pub(super) struct TranscodedBody<B: RequestBody> {
    /// `None` once the message was yielded, or refused.
    inner: Option<B>,
    read: BytesMut,
    rpc: &'static Rpc,
    limit: BodyLimit,
    /// Counts the text: it costs more than the message that is made from it.
    meter: MeterSlot,
    /// `None` if the caller does not wait until the body's rest is read.
    unread: Option<UnreadBody<B>>,
}

impl<B: RequestBody> TranscodedBody<B> {
    /// Reads more; true at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, StdError>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(Ok(true)) };
        let announced = usize::try_from(inner.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > self.limit.bytes.saturating_sub(self.read.len()) {
            return Poll::Ready(Err(self.too_large()));
        }
        let Some(frame) = ready!(Pin::new(inner).poll_frame(cx)) else { return Poll::Ready(Ok(true)) };
        if let Ok(data) = frame.map_err(Into::<StdError>::into)?.into_data() {
            if data.len() > self.limit.bytes - self.read.len() {
                return Poll::Ready(Err(self.too_large()));
            }
            self.read.extend_from_slice(&data);
        }
        Poll::Ready(Ok(false))
    }

    fn too_large(&mut self) -> StdError {
        self.leave();
        error::too_large(self.limit.bytes, self.limit.key).into()
    }

    /// Leaves the rest of the body unread.
    fn leave(&mut self) {
        if let (Some(inner), Some(unread)) = (self.inner.take(), &self.unread)
            && !inner.is_end_stream()
        {
            unread.leave(inner);
        }
    }

    fn framed(&mut self) -> Result<Bytes, StdError> {
        let text = mem::take(&mut self.read);
        self.meter.count(text.len()).map_err(Status::from)?;
        let message = decode::message(&self.rpc.input, &text).map_err(|status| *status)?;
        let length = message.encoded_len();
        let mut frame = BytesMut::with_capacity(5 + length);
        frame.put_u8(0);
        frame.put_u32(u32::try_from(length)?);
        message.encode(&mut frame)?;
        Ok(frame.freeze())
    }
}

impl<B: RequestBody> Body for TranscodedBody<B> {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = &mut *self;
        if this.inner.is_none() {
            return Poll::Ready(None);
        }
        while !ready!(this.poll_read(cx))? {}
        this.inner = None;
        Poll::Ready(Some(this.framed().map(Frame::data)))
    }
}

/// The edge refuses some calls before their handler reads the body.
impl<B: RequestBody> Drop for TranscodedBody<B> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether the caller may still be sending when it is refused, and would not read the answer then. Callers
/// that wait for `100 Continue` do not send, and HTTP/2 ends one stream without the others.
fn may_still_send<B>(request: &Request<B>) -> bool {
    request.version() < Version::HTTP_2 && !request.headers().contains_key(header::EXPECT)
}

/// Ends a request that was refused before its body was read.
pub(super) fn drain_refused<B: RequestBody>(request: Request<B>, most: usize) {
    if may_still_send(&request) && !request.body().is_end_stream() {
        let unread = UnreadBody::default();
        unread.leave(request.into_body());
        unread.drain(most);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use tokio::task::yield_now;

    use super::{
        super::{catalogue, unread_body::DRAIN_BYTES},
        *,
    };

    /// The frames that are left in a body if no handler reads it.
    async fn left_of(version: Version) -> usize {
        let left = Arc::new(AtomicUsize::new(5));
        let unread = Arc::clone(&left);
        let frame = move || {
            unread.fetch_sub(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{}")))
        };
        let body = StreamBody::new(stream::repeat_with(frame).take(5));
        let request = Request::builder().version(version).body(body).unwrap();
        let rpc = catalogue::rpc("/kith.user.v1.UserService/GetUser").unwrap();
        let limits = BodyLimits { message: 1 << 20, batch: 1 << 20 };
        let unread = UnreadBody::default();
        drop(translate(rpc, limits, request, &unread).unwrap());
        unread.drain(DRAIN_BYTES);
        for _ in 0..10 {
            yield_now().await;
        }
        left.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn body_that_no_handler_asks_for_is_drained() {
        assert_eq!(left_of(Version::HTTP_11).await, 0, "the connection is kept");
        assert_eq!(left_of(Version::HTTP_2).await, 5, "the stream is ended");
    }

    #[test]
    fn timeouts_of_connect_become_timeouts_of_grpc() {
        let of = |text: &'static str| timeout_of(&HeaderValue::from_static(text));
        assert_eq!(of("1500").unwrap(), "1500m");
        assert_eq!(of("9999999999").unwrap(), "9999999S");
        for wrong in ["", "-1", "+1", "1.5", "1s", "12345678901"] {
            assert!(of(wrong).is_none(), "{wrong}");
        }
    }
}
