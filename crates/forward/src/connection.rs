//! One connection to a receiver: HTTP/1.1, with TLS or without.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::sync::Arc;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::ReceiverUrl;

/// Most bytes of an answer's head, and of a body that is read so that the connection can be used again.
const BYTES_MAX: usize = 64 << 10;
/// How long to wait for the rest of an answer.
const REST: Duration = Duration::from_secs(1);
/// How long a connection is used: later ones go where the receiver's name leads then.
const AGE_MAX: Duration = Duration::from_secs(60);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// An open connection, closed when dropped.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    since: Instant,
    _driver: AbortOnDropHandle<Result<(), hyper::Error>>,
}

impl Connection {
    /// Connects to the first of these addresses that answers.
    ///
    /// # Errors
    /// Says why there is no connection, in words that follow "the receiver".
    pub(crate) async fn open(
        addresses: &[SocketAddr],
        url: &ReceiverUrl,
        tls: &Arc<ClientConfig>,
    ) -> Result<Self, &'static str> {
        let socket = TcpStream::connect(addresses).await.map_err(|_| "cannot be connected to")?;
        // Without it the last part of a request may wait; the request is sent all the same.
        socket.set_nodelay(true).ok();
        let stream: Box<dyn Stream> =
            if url.is_https() { Box::new(secured(socket, url, tls).await?) } else { Box::new(socket) };
        let opened = http1::Builder::new().max_buf_size(BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (sender, driver) = opened.map_err(|_| "does not speak HTTP/1.1")?;
        Ok(Self { sender, since: Instant::now(), _driver: AbortOnDropHandle::new(tokio::spawn(driver)) })
    }

    /// Returns whether another request may be sent.
    pub(crate) fn is_usable(&self) -> bool {
        self.sender.is_ready() && self.since.elapsed() < AGE_MAX
    }

    /// Sends a request and returns the head of its answer.
    ///
    /// # Errors
    /// Says why there is none, in words that follow "the receiver".
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, &'static str> {
        self.sender.send_request(request).await.map_err(|error| {
            if error.is_parse() || error.is_parse_too_large() {
                "does not speak HTTP/1.1"
            } else {
                "closes the connection without an answer"
            }
        })
    }
}

/// Reads the rest of an answer, at most 64 KiB and 1 s. Returns whether that was all of it.
pub(crate) async fn read_rest(body: Incoming) -> bool {
    matches!(timeout(REST, Limited::new(body, BYTES_MAX).collect()).await, Ok(Ok(_)))
}

async fn secured(
    socket: TcpStream,
    url: &ReceiverUrl,
    tls: &Arc<ClientConfig>,
) -> Result<impl Stream + use<>, &'static str> {
    let name = url.server_name().ok_or("has no name that a certificate can be of")?;
    TlsConnector::from(Arc::clone(tls)).connect(name, socket).await.map_err(|error| {
        match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(_)) => {
                "has a certificate that is not trusted, is of another name, or has ended"
            }
            _ => "does not speak TLS 1.2 or 1.3",
        }
    })
}
