//! Checks that the configured ports are free, or finds the program that answers there.

use std::{io, net::SocketAddr, time::Duration};

use kith_server::{config::Config, transport::callable};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::Finding;
use crate::{client::Target, facts};

/// How much is read from an operations port's answer.
const ANSWER_BYTES: u64 = 64 << 10;

/// The findings at the ports.
#[derive(Debug)]
pub(super) struct PortCheck {
    pub(super) findings: Vec<Finding>,
    /// Whether a node answers at the gRPC port.
    pub(super) node_answers: bool,
}

/// Tries to bind each port, and queries the program that has it.
pub(super) async fn check(config: &Config, limit: Duration) -> PortCheck {
    let mut findings = Vec::new();
    let mut node_answers = false;
    if let Some(error) = bind_error(config.listen).await {
        node_answers = config.tls.cert_file.is_none() && is_node(config.listen, limit).await;
        // With TLS the node cannot be queried without its certificates.
        if !node_answers && config.tls.cert_file.is_none() {
            findings.push(finding(config.listen, &error, "--listen"));
        }
    }
    let operations = &config.operations;
    if operations.enabled
        && let Some(error) = bind_error(operations.listen).await
        && !is_operations(operations.listen, limit).await
    {
        findings.push(finding(operations.listen, &error, "--set operations.listen="));
    }
    PortCheck { findings, node_answers }
}

async fn bind_error(address: SocketAddr) -> Option<io::Error> {
    TcpListener::bind(address).await.err()
}

async fn is_node(address: SocketAddr, limit: Duration) -> bool {
    let target = Target::at(format!("http://{}", callable(address)), limit);
    let Ok(Ok(channel)) = timeout(limit, target.connect_without_key()).await else { return false };
    facts::health(&target, channel).await.is_ok()
}

async fn is_operations(address: SocketAddr, limit: Duration) -> bool {
    let answer = operations(address, "/livez", limit).await;
    answer.is_some_and(|answer| answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"))
}

/// Returns the operations port's answer, with its head; `None` if it does not answer within the limit.
pub(super) async fn operations(address: SocketAddr, path: &str, limit: Duration) -> Option<String> {
    let asked = async {
        let address = callable(address);
        let stream = TcpStream::connect(address).await.ok()?;
        let mut stream = stream.take(ANSWER_BYTES);
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.get_mut().write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    };
    timeout(limit, asked).await.ok().flatten()
}

fn finding(address: SocketAddr, error: &io::Error, flag: &str) -> Finding {
    let (port, run) = (address.port(), format!("ss -ltnp 'sport = :{}'", address.port()));
    let other = if flag.ends_with('=') { format!("{flag}ADDRESS") } else { format!("{flag} ADDRESS") };
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let finding = format!("port {port} of {address} is taken by another program than kith");
            Finding::new(finding, format!("{run}  # who it is; or kith serve {other}"))
        }
        io::ErrorKind::AddrNotAvailable => {
            let finding = format!("{} is no address of this machine", address.ip());
            Finding::new(finding, format!("ip -brief address  # those that are; then kith serve {other}"))
        }
        _ => Finding::new(format!("{address} cannot be listened on: {error}"), format!("kith serve {other}")),
    }
}
