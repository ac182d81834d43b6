//! Reads what a node reports to a Prometheus.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A node's metrics, as its operations port exports them.
///
/// # Errors
/// When it does not answer, or with something else.
pub(crate) async fn metrics(operations: SocketAddr) -> Result<String> {
    answer(operations, "/metrics").await
}

/// The operations port's answer at this path.
///
/// # Errors
/// Like [`metrics`].
pub(crate) async fn answer(operations: SocketAddr, path: &str) -> Result<String> {
    let mut socket = TcpStream::connect(operations).await?;
    socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of its head")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.split(' ').nth(1) == Some("200"), "the answer is {status}");
    Ok(body.to_owned())
}
