//! Detects the protocol at an address, without the driver.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, lookup_host},
    time::timeout,
};

/// MongoDB's port, where the address has none.
pub(super) const PORT: u16 = 27017;
/// The first message in TLS 1.2 and 1.3, in parts. A server must be able to go on from it: MongoDB closes the
/// connection without an answer otherwise. The handshake is never finished, so nothing in it has to be
/// secret.
const HELLO: [&[u8]; 8] = [
    // A handshake record, the message in it, its version.
    &[0x16, 0x03, 0x01, 0x00, 0x96, 0x01, 0x00, 0x00, 0x92, 0x03, 0x03],
    // Random bytes.
    &[0x07; 32],
    // No session. Nine cipher suites, no compression, 87 bytes of extensions.
    &[0x00, 0x00, 0x12, 0x13, 0x01, 0x13, 0x02, 0x13, 0x03, 0xc0, 0x2b, 0xc0, 0x2f, 0xc0, 0x2c, 0xc0, 0x30],
    &[0xcc, 0xa9, 0xcc, 0xa8, 0x01, 0x00, 0x00, 0x57],
    // Groups, point formats.
    &[0x00, 0x0a, 0x00, 0x06, 0x00, 0x04, 0x00, 0x1d, 0x00, 0x17, 0x00, 0x0b, 0x00, 0x02, 0x01, 0x00],
    // Signature algorithms.
    &[0x00, 0x0d, 0x00, 0x10, 0x00, 0x0e, 4, 3, 8, 4, 4, 1, 5, 3, 8, 5, 5, 1, 8, 6],
    // Versions; an X25519 key, which any 32 bytes are.
    &[0x00, 0x2b, 0x00, 0x05, 0x04, 3, 4, 3, 3, 0x00, 0x33, 0x00, 0x26, 0x00, 0x24, 0x00, 0x1d, 0x00, 0x20],
    &[0x09; 32],
];
/// Kinds of TLS records: alert and handshake.
const TLS: [u8; 2] = [0x15, 0x16];

/// The answer that [`detect`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireAnswer {
    /// The name does not resolve.
    UnknownName,
    /// No connection can be made.
    Unreachable,
    /// The server speaks TLS.
    Tls,
    /// It accepts connections, and does not speak TLS.
    Other,
}

/// Detects the protocol at a port. Takes at most three times the limit.
pub(super) async fn detect(name: &str, port: u16, limit: Duration) -> WireAnswer {
    let addresses = resolved(name, port, limit).await;
    if addresses.is_empty() {
        return WireAnswer::UnknownName;
    }
    let Ok(Ok(mut socket)) = timeout(limit, TcpStream::connect(addresses.as_slice())).await else {
        return WireAnswer::Unreachable;
    };
    let answer = async {
        socket.write_all(&HELLO.concat()).await?;
        socket.read_u8().await
    };
    // A server with TLS answers as soon as it reads; one without never does.
    match timeout(limit / 2, answer).await {
        Ok(Ok(first)) if TLS.contains(&first) => WireAnswer::Tls,
        Ok(_) | Err(_) => WireAnswer::Other,
    }
}

/// Whether a connection can be made within twice the limit.
pub(super) async fn is_reached(name: &str, port: u16, limit: Duration) -> bool {
    let addresses = resolved(name, port, limit).await;
    matches!(timeout(limit, TcpStream::connect(addresses.as_slice())).await, Ok(Ok(_)))
}

/// The addresses for this name; none where it does not resolve within the limit.
pub(super) async fn resolved(name: &str, port: u16, limit: Duration) -> Vec<SocketAddr> {
    match timeout(limit, lookup_host((name, port))).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(300);

    /// The result when a server answers this.
    async fn taken_for(answer: &'static [u8]) -> WireAnswer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_exact(&mut vec![0; HELLO.concat().len()]).await.unwrap();
            socket.write_all(answer).await.unwrap();
            socket.read_u8().await.ok();
        });
        let found = detect("127.0.0.1", port, LIMIT).await;
        server.await.unwrap();
        found
    }

    #[tokio::test]
    async fn tls_is_known_by_its_first_byte() {
        assert_eq!(taken_for(&[0x15, 0x03]).await, WireAnswer::Tls);
        assert_eq!(taken_for(&[0x16, 0x03]).await, WireAnswer::Tls);
        assert_eq!(taken_for(&[0x48]).await, WireAnswer::Other);
        assert_eq!(taken_for(&[]).await, WireAnswer::Other);
    }

    #[tokio::test]
    async fn unknown_name_differs_from_closed_port() {
        assert_eq!(detect("mongodb.kith.invalid", PORT, LIMIT).await, WireAnswer::UnknownName);
        assert_eq!(detect("127.0.0.1", 1, LIMIT).await, WireAnswer::Unreachable);
    }
}
