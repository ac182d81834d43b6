//! A connection's bytes, after the bytes that were read to learn its protocol.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use kith_service::message::ConnectionSigns;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The first bytes on every HTTP/2 connection.
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Sees what happens to a connection's bytes.
pub(super) trait IoWatch: Unpin {
    /// A read has brought this many bytes, or waits. Returns the read's result: a read that waits may fail.
    fn after_read(
        &mut self,
        _cx: &mut Context<'_>,
        read: Poll<io::Result<()>>,
        _bytes: usize,
    ) -> Poll<io::Result<()>> {
        read
    }

    /// A read or a write has failed.
    fn failed(&mut self) {}
}

/// A connection that is not watched.
impl IoWatch for () {}

/// An HTTP/2 connection reports when bytes come.
impl IoWatch for std::sync::Arc<ConnectionSigns> {
    fn after_read(
        &mut self,
        _cx: &mut Context<'_>,
        read: Poll<io::Result<()>>,
        bytes: usize,
    ) -> Poll<io::Result<()>> {
        if bytes > 0 {
            self.heard();
        }
        read
    }

    fn failed(&mut self) {
        self.broken();
    }
}

/// A stream that yields the preface, then the rest.
#[derive(Debug)]
pub(super) struct ConnectionIo<I, W = ()> {
    preface: [u8; PREFACE.len()],
    next: usize,
    count: usize,
    io: I,
    watch: W,
}

impl<I> ConnectionIo<I> {
    /// A connection whose first `count` bytes, in `preface`, were read before.
    pub(super) const fn behind(preface: [u8; PREFACE.len()], count: usize, io: I) -> Self {
        Self { preface, next: 0, count, io, watch: () }
    }

    /// A connection from which nothing was read before.
    pub(super) const fn plain(io: I) -> Self {
        Self::behind([0; PREFACE.len()], 0, io)
    }

    /// Returns the stream, which shows everything to `watch`.
    pub(super) fn watched<W: IoWatch>(self, watch: W) -> ConnectionIo<I, W> {
        let Self { preface, next, count, io, .. } = self;
        ConnectionIo { preface, next, count, io, watch }
    }
}

impl<I: AsyncRead + Unpin, W> ConnectionIo<I, W> {
    fn poll_bytes(&mut self, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.next == self.count {
            return Pin::new(&mut self.io).poll_read(cx, into);
        }
        let end = self.count.min(self.next + into.remaining());
        into.put_slice(&self.preface[self.next..end]);
        self.next = end;
        Poll::Ready(Ok(()))
    }
}

impl<I: Unpin, W: IoWatch> ConnectionIo<I, W> {
    fn seen<T>(&mut self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(done, Poll::Ready(Err(_))) {
            self.watch.failed();
        }
        done
    }
}

impl<I: AsyncRead + Unpin, W: IoWatch> AsyncRead for ConnectionIo<I, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = self.poll_bytes(cx, into);
        let read = self.watch.after_read(cx, read, into.filled().len() - before);
        self.seen(read)
    }
}

impl<I: AsyncWrite + Unpin, W: IoWatch> AsyncWrite for ConnectionIo<I, W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, from);
        self.seen(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, from);
        self.seen(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.seen(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[derive(Debug, Default)]
    struct Seen {
        bytes: usize,
        has_failed: bool,
    }

    impl IoWatch for Seen {
        fn after_read(
            &mut self,
            _cx: &mut Context<'_>,
            read: Poll<io::Result<()>>,
            bytes: usize,
        ) -> Poll<io::Result<()>> {
            self.bytes += bytes;
            read
        }

        fn failed(&mut self) {
            self.has_failed = true;
        }
    }

    #[tokio::test]
    async fn watch_sees_bytes_and_failures() {
        let (mut peer, io) = duplex(64);
        let mut io = ConnectionIo::behind(*PREFACE, 3, io).watched(Seen::default());
        peer.write_all(b"more").await.unwrap();
        let mut read = [0; 7];
        io.read_exact(&mut read).await.unwrap();
        assert_eq!((&read, io.watch.bytes, io.watch.has_failed), (b"PRImore", 7, false));
        drop(peer);
        assert_eq!(io.read(&mut read).await.unwrap(), 0);
        assert!(!io.watch.has_failed, "the peer has closed it");
        io.write_all(b"x").await.unwrap_err();
        assert!(io.watch.has_failed);
    }
}
