//! A connection's first bytes, read before anything else: they distinguish HTTP/2 from HTTP/1.1, and a silent
//! peer is disconnected.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::connection_io::{ConnectionIo, PREFACE};

/// The protocol that a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Anything but HTTP/2; it may not be HTTP at all.
    Http1,
    Http2,
}

/// Waits for the preface; the stream returned yields it again.
pub(super) async fn read_preface<I: AsyncRead + Unpin>(mut io: I) -> io::Result<(Protocol, ConnectionIo<I>)> {
    let (mut preface, mut count) = ([0; PREFACE.len()], 0);
    while count < preface.len() && preface[..count] == PREFACE[..count] {
        match io.read(&mut preface[count..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => count += more,
        }
    }
    let protocol = if preface == *PREFACE { Protocol::Http2 } else { Protocol::Http1 };
    Ok((protocol, ConnectionIo::behind(preface, count, io)))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn protocol(bytes: &[u8]) -> (Protocol, Vec<u8>) {
        let (mut peer, io) = tokio::io::duplex(1024);
        peer.write_all(bytes).await.unwrap();
        drop(peer);
        let (protocol, mut io) = read_preface(io).await.unwrap();
        let mut again = Vec::new();
        io.read_to_end(&mut again).await.unwrap();
        (protocol, again)
    }

    #[tokio::test]
    async fn protocols_are_distinguished_without_loss() {
        let http2 = [PREFACE.as_slice(), b"more"].concat();
        assert_eq!(protocol(&http2).await, (Protocol::Http2, http2));
        for text in ["POST / HTTP/1.1\r\n\r\n", "PRI * HTTP/1.1\r\n\r\n", "X"] {
            assert_eq!(
                protocol(text.as_bytes()).await,
                (Protocol::Http1, text.as_bytes().to_vec()),
                "{text}"
            );
        }
    }

    #[tokio::test]
    async fn preface_that_ends_early_is_an_error() {
        let (mut peer, io) = tokio::io::duplex(64);
        peer.write_all(b"PRI").await.unwrap();
        drop(peer);
        assert!(read_preface(io).await.is_err());
    }
}
