//! Ends a socket: its last words, and whether its peer was there to read them.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::{Instant, timeout_at},
};
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

use super::{close::SocketEnd, frame};

/// How long the last words may take, and the peer to go after them.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

/// Says why a socket ends, and lets the peer read it: a connection that is dropped with unread bytes is
/// reset. Returns whether the peer has answered: a silent peer may have been lost before.
pub(super) async fn end<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut WebSocketStream<S>,
    end: SocketEnd,
) -> bool {
    if end == SocketEnd::Gone {
        return false;
    }
    let until = Instant::now() + LIMIT;
    let last_words = async {
        say(stream, end).await;
        stream.get_mut().shutdown().await.ok()?;
        is_closed_by_peer(stream).await
    };
    let is_answered = timeout_at(until, last_words).await.ok().flatten().is_some();
    drop(timeout_at(until, read_to_end(stream.get_mut())).await);
    is_answered
}

/// Sends the close frame. In both cases the library reports that the connection is closed once the frame is
/// sent.
async fn say<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut WebSocketStream<S>, end: SocketEnd) {
    let SocketEnd::Close(close) = end else {
        // The library has the answer ready.
        return drop(stream.flush().await);
    };
    if let Some(error) = close.error() {
        drop(stream.send(Message::text(frame::failed(&error.into()))).await);
    }
    drop(stream.close(Some(close.frame())).await);
}

/// Waits for the peer's close frame. A closed connection alone does not count: a proxy may have closed it
/// while the device behind it has no network. `None`: it ends without a close frame.
async fn is_closed_by_peer<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut WebSocketStream<S>) -> Option<()> {
    while let Some(frame) = stream.next().await {
        if matches!(frame.ok()?, Message::Close(_)) {
            return Some(());
        }
    }
    // A frame could not be read, which its peer has sent a moment ago, or the close frame was read before.
    read_to_end(stream.get_mut()).await
}

async fn read_to_end<S: AsyncRead + Unpin>(io: &mut S) -> Option<()> {
    let mut rest = [0; 1024];
    while io.read(&mut rest).await.ok()? > 0 {}
    Some(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::{super::close::Close, *};

    /// Whether a peer that ends in this way has answered.
    async fn is_answered(end_of_peer: impl AsyncFnOnce(WebSocketStream<DuplexStream>)) -> bool {
        let (near, far) = duplex(1024);
        let mut stream = WebSocketStream::from_raw_socket(near, Role::Server, None).await;
        let peer = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
        tokio::join!(end(&mut stream, Close::Stopping.into()), end_of_peer(peer)).0
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_a_proxy_is_no_answer_of_the_peer() {
        let by_proxy = async |mut peer: WebSocketStream<DuplexStream>| {
            drop(peer.get_mut().shutdown().await);
            read_to_end(peer.get_mut()).await.unwrap();
        };
        assert!(!is_answered(by_proxy).await);
        let by_peer =
            async |mut peer: WebSocketStream<DuplexStream>| while let Some(Ok(_)) = peer.next().await {};
        assert!(is_answered(by_peer).await);
        let silent = async |peer: WebSocketStream<DuplexStream>| {
            tokio::time::sleep(2 * LIMIT).await;
            drop(peer);
        };
        assert!(!is_answered(silent).await);
    }
}
