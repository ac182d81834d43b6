//! Measures sockets on a cluster node: the time until many are open, the node's memory for each, and its
//! processor time for a delivery to a socket.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{SinkExt as _, StreamExt as _, stream};
use kith_lab_servers::{usage, wait::until};
use tokio::{net::TcpStream, task::JoinSet, time::sleep};
use tokio_tungstenite::{WebSocketStream, client_async, tungstenite::Message};

use super::{processes::Processes, stage::ClusterStage};
use crate::{
    claims::{Plan, SOCKET_DELIVERY_CPU, SOCKET_MEMORY, SOCKETS_OPENED},
    ratio::{Pair, count},
    results::Results,
    rows::messages::{MessageClient, fill_from, text},
};

const GROUP: i64 = 1004;
/// How many sockets are opening at the same time.
const OPENING: usize = 64;
/// The pause before a refused socket is opened again.
const AGAIN: Duration = Duration::from_millis(200);
/// How long a message may take to reach all sockets, and how long a socket may take to open.
const PATIENCE: Duration = Duration::from_secs(30);

type Socket = WebSocketStream<TcpStream>;

/// Runs the requested rows. In each round, the users come to a node that has nothing about them in memory.
pub(super) async fn rows(plan: &Plan, stage: &ClusterStage, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&SOCKETS_OPENED, &SOCKET_MEMORY, &SOCKET_DELIVERY_CPU]) {
        return Ok(());
    }
    let users: Vec<i64> = (1..=plan.size(1_000, 40)).collect();
    stage.make_groups(&[(GROUP, users.clone())]).await?;
    fill_from(&stage.channel(), &[(1, conversation())], 1).await?;
    let (mut opened, mut taken, mut delivered) = (Vec::new(), Vec::new(), Vec::new());
    let node = stage.nodes[0].served.address;
    for _ in 0..plan.rounds {
        stage.nodes[0].forget().await?;
        let begun = Instant::now();
        let sockets = OpenSockets::open(node, &users).await?;
        opened.push(alone(begun.elapsed().as_secs_f64()));
        delivered.push(alone(delivery_cpu(plan, stage, &sockets).await?));
        if opened.len() == plan.rounds {
            // The memory that closed sockets left is in use again, and their users are in the caches.
            let before = resident_kib(stage)?;
            let _second = OpenSockets::open(node, &users).await?;
            taken.push(alone((resident_kib(stage)? - before) / count(users.len())));
        }
        drop(sockets);
        sleep(plan.size(Duration::from_secs(3), Duration::from_millis(200))).await;
    }
    results.add(&SOCKETS_OPENED, &opened)?;
    results.add(&SOCKET_MEMORY, &taken)?;
    results.add(&SOCKET_DELIVERY_CPU, &delivered)
}

const fn alone(kith: f64) -> Pair<f64> {
    Pair { baseline: 1.0, kith }
}

fn conversation() -> String {
    format!("g{GROUP}")
}

fn resident_kib(stage: &ClusterStage) -> Result<f64> {
    Ok(usage::resident_mib(stage.nodes[0].served.id())? * 1024.0)
}

/// Returns the node's microseconds for a delivery. Each message is sent after the message before it has come
/// to all sockets.
async fn delivery_cpu(plan: &Plan, stage: &ClusterStage, sockets: &OpenSockets) -> Result<f64> {
    let (node, mut client) =
        (Processes(vec![stage.nodes[0].served.id()]), MessageClient::new(stage.channel()));
    let (messages, before) = (plan.size(20, 2), node.cpu_seconds()?);
    for _ in 0..messages {
        let wanted = sockets.messages() + sockets.readers.len();
        client.send_message(text(&conversation())).await?;
        until("a socket gets no message", PATIENCE, async || Ok(sockets.messages() >= wanted)).await?;
    }
    Ok((node.cpu_seconds()? - before) * 1e6 / count(messages * sockets.readers.len()))
}

/// Live sockets. They are closed when this is dropped.
struct OpenSockets {
    messages: Arc<AtomicUsize>,
    readers: JoinSet<Result<()>>,
}

impl OpenSockets {
    async fn open(node: SocketAddr, users: &[i64]) -> Result<Self> {
        let mut this = Self { messages: Arc::default(), readers: JoinSet::new() };
        let mut opening = stream::iter(users).map(|user| open(node, *user)).buffer_unordered(OPENING);
        while let Some(socket) = opening.next().await {
            this.readers.spawn(read(socket?, Arc::clone(&this.messages)));
        }
        Ok(this)
    }

    /// Counts the messages that have come over all sockets.
    fn messages(&self) -> usize {
        self.messages.load(Ordering::SeqCst)
    }
}

/// Opens a socket, which gets its list of conversations and is live. If the node has no time for it now, it
/// is asked again, as clients do.
async fn open(node: SocketAddr, user: i64) -> Result<Socket> {
    let until = Instant::now() + PATIENCE;
    loop {
        match open_once(node, user).await? {
            Ok(socket) => return Ok(socket),
            Err(refused) => ensure!(Instant::now() < until, "a socket is refused: {refused}"),
        }
        sleep(AGAIN).await;
    }
}

/// Tries once. The inner error comes from a node that may take the socket later.
async fn open_once(node: SocketAddr, user: i64) -> Result<Result<Socket, String>> {
    let stream = TcpStream::connect(node).await?;
    stream.set_nodelay(true)?;
    let (mut socket, _) = client_async(format!("ws://{node}/ws"), stream).await?;
    socket.send(Message::text(format!(r#"{{"hello":{{"user":{user}}}}}"#))).await?;
    loop {
        let frame = next_text(&mut socket).await?;
        if frame.contains(r#""live":true"#) {
            return Ok(Ok(socket));
        }
        if frame.starts_with(r#"{"error""#) {
            let passes = ["unavailable", "resource_exhausted"].map(|code| format!(r#""code":"{code}""#));
            ensure!(passes.iter().any(|code| frame.contains(code)), "a socket is refused: {frame}");
            return Ok(Err(frame));
        }
    }
}

async fn read(mut socket: Socket, messages: Arc<AtomicUsize>) -> Result<()> {
    loop {
        if next_text(&mut socket).await?.starts_with(r#"{"message""#) {
            messages.fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn next_text(socket: &mut Socket) -> Result<String> {
    loop {
        match socket.next().await.context("a socket has ended")?? {
            Message::Text(text) => return Ok(text.as_str().to_owned()),
            Message::Close(why) => bail!("a socket was closed: {why:?}"),
            _ => {}
        }
    }
}
