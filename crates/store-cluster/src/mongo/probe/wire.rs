//! What is at the other end of an address, as far as it can be seen without the driver.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, lookup_host},
    time::timeout,
};

/// Of MongoDB, where the address has none.
pub(super) const PORT: u16 = 27017;
/// The beginning of a TLS handshake, cut short. A server with TLS answers with an alert. One without waits for more.
const HELLO: [u8; 9] = [0x16, 0x03, 0x01, 0x00, 0x04, 0x01, 0x00, 0x00, 0x00];
/// Kinds of TLS records: alert and handshake.
const TLS: [u8; 2] = [0x15, 0x16];

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    /// The name does not resolve.
    UnknownName,
    /// No connection can be made.
    Away,
    /// It answers as TLS does.
    Tls,
    /// It takes connections, and does not.
    Other,
}

/// Takes at most three times the limit.
pub(super) async fn look(name: &str, port: u16, limit: Duration) -> Wire {
    let addresses = resolved(name, port, limit).await;
    if addresses.is_empty() {
        return Wire::UnknownName;
    }
    let Ok(Ok(mut socket)) = timeout(limit, TcpStream::connect(addresses.as_slice())).await else {
        return Wire::Away;
    };
    let answer = async {
        socket.write_all(&HELLO).await?;
        socket.read_u8().await
    };
    // A server with TLS answers as soon as it reads; one without never does.
    match timeout(limit / 2, answer).await {
        Ok(Ok(first)) if TLS.contains(&first) => Wire::Tls,
        Ok(_) | Err(_) => Wire::Other,
    }
}

/// Whether a connection can be made within twice the limit.
pub(super) async fn is_reached(name: &str, port: u16, limit: Duration) -> bool {
    let addresses = resolved(name, port, limit).await;
    matches!(timeout(limit, TcpStream::connect(addresses.as_slice())).await, Ok(Ok(_)))
}

/// The addresses of this name; none where it does not resolve within the limit.
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

    /// What a server is taken for that answers with this.
    async fn taken_for(answer: &'static [u8]) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.read_exact(&mut [0; HELLO.len()]).await.unwrap();
            socket.write_all(answer).await.unwrap();
            socket.read_u8().await.ok();
        });
        let found = look("127.0.0.1", port, LIMIT).await;
        server.await.unwrap();
        found
    }

    #[tokio::test]
    async fn tls_is_known_by_its_first_byte() {
        assert_eq!(taken_for(&[0x15, 0x03]).await, Wire::Tls);
        assert_eq!(taken_for(&[0x16, 0x03]).await, Wire::Tls);
        assert_eq!(taken_for(&[0x48]).await, Wire::Other);
        assert_eq!(taken_for(&[]).await, Wire::Other);
    }

    #[tokio::test]
    async fn unknown_name_differs_from_closed_port() {
        assert_eq!(look("mongodb.kith.invalid", PORT, LIMIT).await, Wire::UnknownName);
        assert_eq!(look("127.0.0.1", 1, LIMIT).await, Wire::Away);
    }
}
