//! Bounds and counts the bytes of a message, unpacked. tonic bounds every message of a service alike; most
//! methods need far less than the batches in the same service.

use std::{
    mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Body, Frame};
use tonic::{Status, codegen::StdError};

use super::{
    answer,
    unpack::{Packing, UnpackError},
    user_quotas::MessageMeter,
};

/// Length and flag before every message.
const PREFIX: usize = 5;
/// The flag on a packed message.
const PACKED: u8 = 1;

/// The body of a request.
pub trait RequestBody: Body<Data = Bytes, Error: Into<StdError>> + Unpin + Send + 'static {}

impl<B: Body<Data = Bytes, Error: Into<StdError>> + Unpin + Send + 'static> RequestBody for B {}

/// A body that fails at a message which is larger than it may be, or at one message too many, and yields each
/// message unpacked.
#[derive(Debug)]
pub struct BoundedBody<B> {
    inner: B,
    bounds: MessageBounds,
    /// Bytes that its messages may still have together, with their prefixes.
    left: usize,
    /// Data that was read and not looked at.
    data: Bytes,
    stage: Stage,
}

/// The bounds for the messages in a body.
#[derive(Debug)]
pub(super) struct MessageBounds {
    /// Most bytes in a message, unpacked.
    pub(super) most: usize,
    /// Whether it has many messages. tonic reads and decodes everything that follows a unary call's message.
    pub(super) many: bool,
    /// `None`: the service handles packed messages itself.
    pub(super) packing: Option<Packing>,
    pub(super) meter: MessageMeter,
}

#[derive(Debug)]
enum Stage {
    /// A message's prefix, with the bytes that have arrived.
    Prefix(BytesMut),
    /// How many bytes of a message are left to pass on.
    Message(usize),
    /// A packed message with this length, and the bytes that have arrived.
    Packed(BytesMut, usize),
}

impl<B> BoundedBody<B> {
    pub(super) fn new(inner: B, bounds: MessageBounds) -> Self {
        let left = if bounds.many { usize::MAX } else { bounds.most.saturating_add(PREFIX) };
        Self { inner, bounds, left, data: Bytes::new(), stage: Stage::Prefix(BytesMut::new()) }
    }

    /// The next data for the service. `None`: more has to be read.
    fn next_part(&mut self) -> Result<Option<Bytes>, Status> {
        while !self.data.is_empty() {
            let part = match mem::replace(&mut self.stage, Stage::Prefix(BytesMut::new())) {
                Stage::Prefix(prefix) => self.read_prefix(prefix)?,
                Stage::Message(left) => Some(self.pass_on(left)),
                Stage::Packed(packed, length) => self.read_packed(packed, length)?,
            };
            if part.is_some() {
                return Ok(part);
            }
        }
        Ok(None)
    }

    fn read_prefix(&mut self, mut prefix: BytesMut) -> Result<Option<Bytes>, Status> {
        // Almost always the whole prefix has arrived, and is passed on with the message in one piece.
        if prefix.is_empty()
            && let Some(start) = self.data.first_chunk().copied()
        {
            return Ok(match self.begin(start)? {
                Stage::Message(length) => Some(self.pass_on(PREFIX + length)),
                packed => {
                    drop(self.data.split_to(PREFIX));
                    self.stage = packed;
                    None
                }
            });
        }
        let missing = PREFIX - prefix.len();
        prefix.extend_from_slice(&self.data.split_to(missing.min(self.data.len())));
        let Some(start) = prefix.first_chunk().copied() else {
            self.stage = Stage::Prefix(prefix);
            return Ok(None);
        };
        let stage = self.begin(start)?;
        let passes = matches!(stage, Stage::Message(_));
        if !matches!(stage, Stage::Message(0)) {
            self.stage = stage;
        }
        Ok(passes.then(|| prefix.freeze()))
    }

    /// Looks at a message's prefix.
    fn begin(&mut self, [flag, length @ ..]: [u8; PREFIX]) -> Result<Stage, Status> {
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > self.bounds.most {
            return Err(answer::too_large());
        }
        if flag == PACKED && self.bounds.packing.is_some() {
            return Ok(Stage::Packed(BytesMut::new(), length));
        }
        self.count(length)?;
        Ok(Stage::Message(length))
    }

    /// Counts a message with this many bytes, unpacked.
    fn count(&mut self, length: usize) -> Result<(), Status> {
        let bytes = length.saturating_add(PREFIX);
        if !self.bounds.many {
            self.left = self.left.checked_sub(bytes).ok_or_else(answer::too_large)?;
        }
        self.bounds.meter.count(bytes).map_err(Status::from)
    }

    /// Passes on the next of these bytes.
    fn pass_on(&mut self, left: usize) -> Bytes {
        let part = self.data.split_to(left.min(self.data.len()));
        if part.len() < left {
            self.stage = Stage::Message(left - part.len());
        }
        part
    }

    fn read_packed(&mut self, mut packed: BytesMut, length: usize) -> Result<Option<Bytes>, Status> {
        let missing = length - packed.len();
        packed.extend_from_slice(&self.data.split_to(missing.min(self.data.len())));
        if packed.len() < length {
            self.stage = Stage::Packed(packed, length);
            return Ok(None);
        }
        self.unpacked(&packed).map(Some)
    }

    /// The rest when the body has ended: the service sees that a message is not complete.
    fn rest(&mut self) -> Result<Option<Bytes>, Status> {
        match mem::replace(&mut self.stage, Stage::Prefix(BytesMut::new())) {
            Stage::Prefix(prefix) => Ok((!prefix.is_empty()).then(|| prefix.freeze())),
            Stage::Message(_) => Ok(None),
            // A packed message without a byte is complete with its prefix.
            Stage::Packed(packed, 0) => self.unpacked(&packed).map(Some),
            Stage::Packed(..) => Err(answer::malformed()),
        }
    }

    /// The message with a prefix, as if it had come so.
    fn unpacked(&mut self, packed: &[u8]) -> Result<Bytes, Status> {
        let message = match self.bounds.packing {
            Some(packing) => packing.unpack(packed, self.bounds.most),
            None => Err(UnpackError::Malformed),
        };
        let message = message.map_err(|error| match error {
            UnpackError::TooLarge => answer::too_large(),
            UnpackError::Malformed => answer::malformed(),
        })?;
        self.count(message.len())?;
        let mut frame = BytesMut::with_capacity(PREFIX + message.len());
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).map_err(|_| answer::too_large())?);
        frame.put_slice(&message);
        Ok(frame.freeze())
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
        loop {
            if let Some(part) = this.next_part()? {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(cx)) else {
                return Poll::Ready(this.rest()?.map(|part| Ok(Frame::data(part))));
            };
            match frame.map_err(Into::<StdError>::into)?.into_data() {
                Ok(data) => this.data = data,
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_between = matches!(&self.stage, Stage::Prefix(prefix) if prefix.is_empty());
        is_between && self.data.is_empty() && self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt as _, StreamBody};
    use tonic::Code;

    use super::*;

    const MOST: usize = 1_000;

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[flag], length.as_slice(), message].concat()
    }

    fn gzip(message: &[u8]) -> Vec<u8> {
        use std::io::Write as _;
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(message).unwrap();
        gzip.finish().unwrap()
    }

    /// Reads a body that comes in parts of this size, as the service gets it.
    async fn read(body: &[u8], part: usize, packing: Option<Packing>) -> Result<Vec<u8>, Code> {
        read_of(true, body, part, packing).await
    }

    async fn read_of(
        many: bool,
        body: &[u8],
        part: usize,
        packing: Option<Packing>,
    ) -> Result<Vec<u8>, Code> {
        let parts: Vec<_> = body.chunks(part).map(Bytes::copy_from_slice).collect();
        let frames = parts.into_iter().map(|part| Ok::<_, Infallible>(Frame::data(part)));
        let bounds = MessageBounds { most: MOST, many, packing, meter: MessageMeter::none() };
        let body = BoundedBody::new(StreamBody::new(stream::iter(frames)), bounds);
        match body.collect().await {
            Ok(all) => Ok(all.to_bytes().to_vec()),
            Err(error) => Err(error.downcast_ref::<Status>().unwrap().code()),
        }
    }

    #[tokio::test]
    async fn messages_pass_in_parts_of_any_size() {
        let messages = [framed(0, &[7; MOST]), framed(0, b""), framed(0, &[8; 3])].concat();
        for part in [1, 3, 4, 5, 6, 100, MOST + 5, 10_000] {
            assert_eq!(read(&messages, part, None).await.as_ref(), Ok(&messages), "{part}");
            assert_eq!(read(&messages, part, Some(Packing::Gzip)).await.as_ref(), Ok(&messages), "{part}");
        }
    }

    #[tokio::test]
    async fn packed_messages_come_out_unpacked() {
        let packed = [framed(1, &gzip(&[7; MOST])), framed(0, b"as it is"), framed(1, &gzip(b""))].concat();
        let unpacked = [framed(0, &[7; MOST]), framed(0, b"as it is"), framed(0, b"")].concat();
        for part in [1, 4, 5, 6, 10_000] {
            assert_eq!(read(&packed, part, Some(Packing::Gzip)).await.as_ref(), Ok(&unpacked), "{part}");
        }
        assert_eq!(read(&packed, 10_000, None).await, Ok(packed), "the service refuses it");
    }

    #[tokio::test]
    async fn message_above_its_limit_fails_the_body() {
        for part in [1, 5, 10_000] {
            let large = framed(0, &[7; MOST + 1]);
            assert_eq!(read(&large, part, None).await, Err(Code::ResourceExhausted), "{part}");
            let bomb = framed(1, &gzip(&[7; MOST + 1]));
            assert!(bomb.len() < 100);
            let unpacked = read(&bomb, part, Some(Packing::Gzip)).await;
            assert_eq!(unpacked, Err(Code::ResourceExhausted), "{part}");
        }
    }

    #[tokio::test]
    async fn unary_body_has_one_message() {
        let one = framed(0, &[7; MOST]);
        for more in [framed(0, b""), framed(1, &gzip(b""))] {
            assert_eq!(read_of(false, &one, 100, None).await.as_ref(), Ok(&one));
            let two = [one.as_slice(), more.as_slice()].concat();
            assert!(read_of(true, &two, 100, Some(Packing::Gzip)).await.is_ok());
            let refused = read_of(false, &two, 100, Some(Packing::Gzip)).await;
            assert_eq!(refused, Err(Code::ResourceExhausted));
        }
    }

    #[tokio::test]
    async fn body_that_ends_early_is_seen_by_the_service() {
        let whole = framed(0, b"message");
        for cut in [&whole[..3], &whole[..5], &whole[..9]] {
            assert_eq!(read(cut, 2, None).await.as_deref(), Ok(cut));
        }
        let packed = framed(1, &gzip(b"message"));
        for wrong in [&packed[..9], &packed[..packed.len() - 1], &framed(1, b"no"), &framed(1, b"")] {
            assert_eq!(read(wrong, 2, Some(Packing::Gzip)).await, Err(Code::InvalidArgument), "{wrong:?}");
        }
    }
}
