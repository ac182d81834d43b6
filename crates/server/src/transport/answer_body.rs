//! An answer's body on its way to the peer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tonic::codegen::StdError;

use super::http1_io::OpenAnswer;
use crate::edge::{ConnectionUnread, EdgeBody, UnreadFull};

type NextFrame = Option<Result<Frame<Bytes>, StdError>>;

/// An answer's body, over any protocol. Its data is counted as unread from its creation until it is written
/// to the peer. While it waits for the peer, the waiting time is counted, too.
#[derive(Debug)]
pub(super) struct AnswerBody {
    inner: ProtocolBody,
    unread: Arc<ConnectionUnread>,
    /// Read before the peer asked for it.
    ahead: Option<NextFrame>,
    /// Since when it waits for the peer; `None`: it does not wait.
    since: Option<u64>,
    /// Set over HTTP/1.1: it ends with this body.
    open_answer: Option<OpenAnswer>,
}

#[derive(Debug)]
pub(super) enum ProtocolBody {
    Grpc(EdgeBody),
    Web(axum::body::Body),
}

impl AnswerBody {
    /// Reads the first data at once: so an answer that the peer does not read consists of counted bytes,
    /// while a message is not counted.
    ///
    /// # Errors
    /// Returns the body if there is no room for the data, which is dropped.
    pub(super) fn new(
        mut inner: ProtocolBody,
        unread: Arc<ConnectionUnread>,
        cx: &mut Context<'_>,
    ) -> Result<Self, ProtocolBody> {
        let mut ahead = None;
        if !inner.is_end_stream()
            && let Poll::Ready(next) = inner.poll(cx)
        {
            match count_data(&unread, next) {
                Ok(next) => ahead = Some(next),
                Err(UnreadFull) => return Err(inner),
            }
        }
        let since = Some(unread.begin_wait());
        Ok(Self { inner, unread, ahead, since, open_answer: None })
    }

    /// A body for which there is room.
    pub(super) fn plain(inner: ProtocolBody, unread: Arc<ConnectionUnread>) -> Self {
        Self { inner, unread, ahead: None, since: None, open_answer: None }
    }

    /// Returns this body, which holds `open` until it ends.
    pub(super) fn with_open(mut self, open: Option<OpenAnswer>) -> Self {
        self.open_answer = open;
        self
    }

    fn begin_wait(&mut self) {
        self.since = Some(self.unread.begin_wait());
    }

    fn end_wait(&mut self) {
        if let Some(since) = self.since.take() {
            self.unread.end_wait(since);
        }
    }
}

/// Returns the frame with its data counted.
fn count_data(unread: &Arc<ConnectionUnread>, next: NextFrame) -> Result<NextFrame, UnreadFull> {
    let frame = match next {
        Some(Ok(frame)) => frame,
        end => return Ok(end),
    };
    Ok(Some(Ok(match frame.into_data() {
        Ok(data) => Frame::data(unread.hold(data)?),
        Err(trailers) => trailers,
    })))
}

/// Nothing in it is pinned in place.
impl Body for AnswerBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<NextFrame> {
        let this = &mut *self;
        this.end_wait();
        let next = match this.ahead.take() {
            Some(next) => next,
            None => match count_data(&this.unread, ready!(this.inner.poll(cx))) {
                Ok(next) => next,
                Err(UnreadFull) => this.inner.cut(),
            },
        };
        if next.is_some() {
            this.begin_wait();
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        match &self.ahead {
            Some(next) => next.is_none(),
            None => self.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.size_hint();
        let Some(Some(Ok(frame))) = &self.ahead else { return inner };
        let ahead = frame.data_ref().map_or(0, |data| data.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint.set_lower(inner.lower().saturating_add(ahead));
        hint
    }
}

impl ProtocolBody {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<NextFrame> {
        match self {
            Self::Grpc(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Web(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    /// Ends the body here, because its peer reads too slowly.
    fn cut(&mut self) -> NextFrame {
        match self {
            Self::Grpc(body) => Some(Ok(body.cut_unread())),
            Self::Web(_) => Some(Err("the peer does not read".into())),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Grpc(body) => body.is_end_stream(),
            Self::Web(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Grpc(body) => body.size_hint(),
            Self::Web(body) => body.size_hint(),
        }
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.end_wait();
        drop(self.open_answer.take());
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt as _, future::poll_fn, stream};

    use super::*;
    use crate::{
        config::LimitsConfig,
        edge::{Edge, Routes},
        places::RemotePeer,
    };

    fn edge() -> Edge {
        Edge::new(Routes::default(), &LimitsConfig { unread_bytes: 10_000, ..LimitsConfig::default() })
    }

    /// The state after the peer has the head.
    async fn body(
        text: axum::body::Body,
        unread: &Arc<ConnectionUnread>,
    ) -> Result<AnswerBody, ProtocolBody> {
        let mut text = Some(ProtocolBody::Web(text));
        poll_fn(|cx| Poll::Ready(AnswerBody::new(text.take().unwrap(), Arc::clone(unread), cx))).await
    }

    async fn next(body: &mut AnswerBody) -> Poll<NextFrame> {
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await
    }

    fn parts() -> axum::body::Body {
        let part = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![7; 4_000]))]);
        axum::body::Body::from_stream(part.chain(stream::pending()))
    }

    #[tokio::test]
    async fn data_that_is_not_asked_for_is_counted() {
        let edge = edge();
        let (_, unread) = edge.of_connection(RemotePeer::internal(), None);
        let mut whole = body(vec![7; 4_000].into(), &unread).await.unwrap();
        assert_eq!((edge.unread_bytes(), whole.size_hint().exact()), (4_000, Some(4_000)));
        assert!(!whole.is_end_stream());
        let Poll::Ready(Some(Ok(frame))) = next(&mut whole).await else { panic!("it has data") };
        assert!(whole.is_end_stream() && edge.unread_bytes() == 4_000, "until it was written");
        drop(frame);
        assert_eq!(edge.unread_bytes(), 0);
    }

    #[tokio::test]
    async fn answer_without_room_holds_nothing() {
        let edge = edge();
        let (_, unread) = edge.of_connection(RemotePeer::internal(), None);
        let first = body(vec![7; 8_000].into(), &unread).await.unwrap();
        assert!(body(vec![7; 8_000].into(), &unread).await.is_err());
        assert_eq!(edge.unread_bytes(), 8_000);
        drop(first);
        assert_eq!(edge.unread_bytes(), 0);
    }

    #[tokio::test]
    async fn stream_with_nothing_to_send_does_not_wait() {
        let (_, unread) = edge().of_connection(RemotePeer::internal(), None);
        let mut stream = body(parts(), &unread).await.unwrap();
        assert!(!unread.end_period() && unread.end_period(), "its first part is not asked for");
        drop(next(&mut stream).await);
        assert!(next(&mut stream).await.is_pending());
        assert!(!unread.end_period() && !unread.end_period(), "it has nothing to send");
    }
}
