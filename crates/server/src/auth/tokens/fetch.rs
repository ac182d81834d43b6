//! Fetches an issuer's keys by HTTPS: one GET, without redirects, within bounds for time and bytes.

use std::{future::poll_fn, path::Path, pin::Pin, sync::Arc, time::Duration};

use http::{Request, StatusCode, header};
use http_body::Body as _;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::{net::TcpStream, task::spawn_blocking, time::timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::JwksUrl;
use crate::auth::trusted::trusted;

/// How long the whole fetch may take.
const LIMIT: Duration = Duration::from_secs(5);
/// Most bytes of an issuer's keys, and of an answer's head.
const BYTES_MAX: usize = 64 << 10;

/// Fetches what an issuer publishes at this address. The server is trusted by the certificates in `ca_file`,
/// or else by the system's certificates. Takes 5 s at most.
///
/// # Errors
/// Says why it cannot be read, in words that follow the address. Equal for equal causes, without a text from
/// the server.
pub(crate) async fn fetch(url: &JwksUrl, ca_file: Option<&Path>) -> Result<Vec<u8>, String> {
    let ca_file = ca_file.map(Path::to_owned);
    // They are read each time: they may have changed.
    let trusted = spawn_blocking(move || trusted(ca_file.as_deref(), "jwks_ca_file"));
    let trusted = trusted.await.map_err(|_| " cannot be read now".to_owned())??;
    let read = timeout(LIMIT, read(url, trusted)).await;
    read.unwrap_or_else(|_elapsed| Err(format!(" has not answered within {} s", LIMIT.as_secs())))
}

async fn read(url: &JwksUrl, trusted: Arc<ClientConfig>) -> Result<Vec<u8>, String> {
    let (cannot_connect, breaks_off) = (" cannot be connected to", " does not answer as HTTP");
    let socket = TcpStream::connect(url.endpoint()).await.map_err(|_| cannot_connect.to_owned())?;
    let name = url.server_name().ok_or_else(|| cannot_connect.to_owned())?;
    let stream = TlsConnector::from(trusted).connect(name, socket).await;
    let stream = stream.map_err(|error| not_trusted(&error).to_owned())?;
    let client = http1::Builder::new().max_buf_size(BYTES_MAX).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = client.map_err(|_| breaks_off.to_owned())?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::get(url.target())
        .header(header::HOST, url.authority())
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("kith/", env!("CARGO_PKG_VERSION")))
        .body(String::new())
        .map_err(|_| breaks_off.to_owned())?;
    let answer = sender.send_request(request).await.map_err(|_| breaks_off.to_owned())?;
    match answer.status() {
        StatusCode::OK => body(answer.into_body()).await.map_err(str::to_owned),
        // The configuration alone says where keys come from.
        status if status.is_redirection() => {
            Err(format!(" redirects ({}); give the new address", status.as_u16()))
        }
        status => Err(format!(" answers with status {}", status.as_u16())),
    }
}

fn not_trusted(error: &std::io::Error) -> &'static str {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            " has a certificate that is not trusted, is of another name, or has ended (jwks_ca_file)"
        }
        _ => " does not speak TLS 1.2 or 1.3",
    }
}

async fn body(mut body: Incoming) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| " breaks its answer off")?;
        bytes.extend_from_slice(&frame.into_data().unwrap_or_default());
        if bytes.len() > BYTES_MAX {
            return Err(" answers with more than 64 KiB");
        }
    }
    Ok(bytes)
}
