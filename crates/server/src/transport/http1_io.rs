//! Time limits on an HTTP/1.1 connection: how long a request's head may take, and when its peer is asked to
//! close.
//!
//! hyper has one limit for the time between two requests and for the next request's head. A load balancer
//! keeps idle connections for a minute, and must be the side that closes them: a request that crosses the
//! node's close is lost. A head that has arrived in part must be complete within seconds. So hyper gets the
//! long limit, and [`HeadWatch`] has the short limit.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Sleep, sleep},
};

use super::connection_io::{ConnectionIo, IoWatch};

/// One connection's requests, as its bytes and its answers see them.
#[derive(Debug, Default)]
pub(crate) struct Http1State {
    /// Requests that have begun.
    requests: AtomicU64,
    /// Whether a request has no complete answer yet, or the connection has become a socket.
    is_answering: AtomicBool,
    is_old: AtomicBool,
}

impl Http1State {
    /// From now on, answers ask the peer to close. An idle connection stays open: its peer may be sending.
    pub(crate) fn ask_to_close(&self) {
        self.is_old.store(true, Ordering::Relaxed);
    }

    /// A request has arrived: its head is complete.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenAnswer {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.is_answering.store(true, Ordering::Relaxed);
        OpenAnswer(Some(Arc::clone(self)))
    }
}

/// An answer that is not complete, until dropped.
#[derive(Debug)]
pub(crate) struct OpenAnswer(Option<Arc<Http1State>>);

impl OpenAnswer {
    /// Looks at the answer's head: it may have to ask the peer to close, and a socket has no further
    /// requests.
    pub(crate) fn head(&mut self, code: StatusCode, headers: &mut HeaderMap) {
        if code == StatusCode::SWITCHING_PROTOCOLS {
            self.0 = None;
        } else if self.0.as_ref().is_some_and(|state| state.is_old.load(Ordering::Relaxed)) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            state.is_answering.store(false, Ordering::Relaxed);
        }
    }
}

/// Makes a read fail if a request's head takes longer than it may, from its first byte on.
#[derive(Debug)]
pub(super) struct HeadWatch {
    state: Arc<Http1State>,
    head_max: Duration,
    head: Option<OpenHead>,
}

/// A head that has arrived in part.
#[derive(Debug)]
struct OpenHead {
    /// Requests before it.
    before: u64,
    late: Pin<Box<Sleep>>,
}

impl HeadWatch {
    pub(super) const fn new(state: Arc<Http1State>, head_max: Duration) -> Self {
        Self { state, head_max, head: None }
    }

    /// Looks at what was read: `more` bytes.
    fn has_read(&mut self, more: bool) {
        let requests = self.state.requests.load(Ordering::Relaxed);
        self.head.take_if(|head| head.before != requests);
        if more && self.head.is_none() && !self.state.is_answering.load(Ordering::Relaxed) {
            self.head = Some(OpenHead { before: requests, late: Box::pin(sleep(self.head_max)) });
        }
    }
}

/// The bytes on a connection that speaks HTTP/1.1 only.
pub(crate) fn plain_http1<I>(
    io: I,
    state: Arc<Http1State>,
    head_max: Duration,
) -> impl AsyncRead + AsyncWrite + Unpin
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    ConnectionIo::plain(io).watched(HeadWatch::new(state, head_max))
}

impl IoWatch for HeadWatch {
    fn after_read(
        &mut self,
        cx: &mut Context<'_>,
        read: Poll<io::Result<()>>,
        bytes: usize,
    ) -> Poll<io::Result<()>> {
        self.has_read(bytes > 0);
        let Some(head) = self.head.as_mut().filter(|_| read.is_pending()) else { return read };
        ready!(head.late.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
        time::{Instant, advance, timeout},
    };

    use super::*;

    const HEAD: Duration = Duration::from_secs(5);

    type Http1Io = ConnectionIo<DuplexStream, HeadWatch>;

    fn stream() -> (DuplexStream, Http1Io, Arc<Http1State>) {
        let (peer, io) = duplex(1024);
        let state = Arc::default();
        (peer, ConnectionIo::plain(io).watched(HeadWatch::new(Arc::clone(&state), HEAD)), state)
    }

    /// How long the stream waits for a next byte until it fails; `None`: it does not fail.
    async fn fails_after(io: &mut Http1Io) -> Option<Duration> {
        let begun = Instant::now();
        let read = timeout(Duration::from_secs(3600), io.read_u8()).await;
        read.ok()
            .map(|read| (read.unwrap_err().kind() == io::ErrorKind::TimedOut).then(|| begun.elapsed()))?
    }

    #[tokio::test(start_paused = true)]
    async fn head_is_due_from_its_first_byte_on() {
        let (mut peer, mut io, state) = stream();
        assert_eq!(fails_after(&mut io).await, None, "nothing has begun");
        for _ in 0..4 {
            peer.write_all(b"G").await.unwrap();
            io.read_u8().await.unwrap();
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(fails_after(&mut io).await, Some(Duration::from_secs(1)), "each byte moves nothing");
        drop(state);
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_after_an_answer() {
        let (mut peer, mut io, state) = stream();
        for _ in 0..2 {
            peer.write_all(b"G").await.unwrap();
            io.read_u8().await.unwrap();
            let answer = state.begin();
            peer.write_all(b"b").await.unwrap();
            io.read_u8().await.unwrap();
            assert_eq!(fails_after(&mut io).await, None, "its body has limits of its own");
            drop(answer);
            assert_eq!(fails_after(&mut io).await, None, "it is idle");
        }
        peer.write_all(b"G").await.unwrap();
        io.read_u8().await.unwrap();
        assert_eq!(fails_after(&mut io).await, Some(HEAD));
    }

    #[tokio::test(start_paused = true)]
    async fn socket_has_no_further_heads() {
        let (mut peer, mut io, state) = stream();
        let mut answer = state.begin();
        answer.head(StatusCode::SWITCHING_PROTOCOLS, &mut HeaderMap::new());
        drop(answer);
        peer.write_all(b"f").await.unwrap();
        io.read_u8().await.unwrap();
        assert_eq!(fails_after(&mut io).await, None);
    }

    #[test]
    fn answers_of_an_old_connection_ask_to_close() {
        let state = Arc::<Http1State>::default();
        let asks = |code: StatusCode| {
            let mut headers = HeaderMap::new();
            state.begin().head(code, &mut headers);
            headers.contains_key(header::CONNECTION)
        };
        assert!(!asks(StatusCode::OK));
        state.ask_to_close();
        assert!(asks(StatusCode::OK) && asks(StatusCode::NOT_FOUND));
    }
}
