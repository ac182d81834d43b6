//! The log of a node, and the answers to its metrics requests, are not read: calls do not wait for that, and
//! lost lines are counted.

use std::{io, net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use kith_proto::user::v1::GetUserRequest;
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{
    Sizes,
    callers::{Callers, GET_USER},
    embedded_node::EmbeddedNode,
    tally::CallTally,
};
use crate::faults::{Figure, Plan};

const USERS: i64 = 200;
/// At this level libraries log what each call received and sent, if their lines are written.
const LOUD: [&str; 2] = ["telemetry.log_filter=debug", "telemetry.library_lines=true"];
const DROPPED: &str = "kith_log_lines_dropped_total";
/// Calls at a time while the pipe fills.
const AT_ONCE: usize = 8;
/// Calls in a second when times are compared.
const RATE: f64 = 100.0;
/// How long calls have to go on with a pipe that is full, at least.
const FULL_FOR: Duration = Duration::from_secs(10);
/// The p99 of so few calls differs by a tenth between equal nodes. A call that waits for the pipe never ends.
const P99_MAX: f64 = 1.3;
/// How long it may take until the pipe is full.
const FULL_WITHIN: Duration = Duration::from_secs(60);
/// Connections that ask for metrics and take none.
const SCRAPERS: usize = 4;
/// How often each is scraped: more than a connection's buffers hold.
const SCRAPES: usize = 500;
/// How long that may take to be sent: a node that is not listened to need not read on.
const ASKED_WITHIN: Duration = Duration::from_secs(1);

/// Two nodes by turns: one node's log is read, the other's is not.
pub(super) async fn run(plan: &Plan, sizes: &Sizes) -> Result<Vec<Figure>> {
    let (mut read, mut blocked) = tokio::try_join!(
        EmbeddedNode::start(&plan.kith, &LOUD, USERS, true),
        EmbeddedNode::start(&plan.kith, &LOUD, USERS, true)
    )?;
    let (mut log, _unread_log) = (read.stderr()?, blocked.stderr()?);
    // Ends with the node.
    std::thread::spawn(move || io::copy(&mut log, &mut io::sink()));
    let _unread = unread(blocked.operations).await?;
    let asked: Vec<_> = (1..=USERS).map(|user_id| GetUserRequest { user_id, consistency: None }).collect();
    let of_read = Callers::connect(read.address, GET_USER, &asked).await?;
    let of_blocked = Callers::connect(blocked.address, GET_USER, &asked).await?;
    let filling = fill_up(&blocked, &of_blocked, sizes).await?;
    let (before, began) = (blocked.metric(DROPPED).await?, Instant::now());
    let (mut taken, mut full) = (CallTally::new()?, CallTally::new()?);
    for round in 0.. {
        if round >= sizes.rounds && began.elapsed() >= FULL_FOR {
            break;
        }
        taken.add(&of_read.open(RATE, sizes.round_lasts).await?)?;
        full.add(&of_blocked.open(RATE, sizes.round_lasts).await?)?;
    }
    let dropped = blocked.metric(DROPPED).await? - before;
    let (lasted, ended) = (began.elapsed(), blocked.end().await?);
    let p99 = full.done_p99() / taken.done_p99();
    full.add(&filling)?;
    let bad = full.failed() + full.shed() + full.held_back;
    Ok(vec![
        Figure::at_least("calls with a full pipe", "s", lasted.as_secs_f64(), FULL_FOR.as_secs_f64()),
        Figure::count("calls done", full.done()),
        Figure::none("calls not done", bad),
        Figure::at_least("lines dropped and counted", "count", dropped, 1.0),
        Figure::at_most("p99", "ratio", p99, P99_MAX),
        Figure::within("ends within", ended, FULL_FOR),
    ])
}

/// Calls until lines are dropped: then the pipe is full, and all that waits to be written.
async fn fill_up(node: &EmbeddedNode, callers: &Callers, sizes: &Sizes) -> Result<CallTally> {
    let (began, mut calls) = (Instant::now(), CallTally::new()?);
    while node.metric(DROPPED).await? < 1.0 {
        ensure!(began.elapsed() < FULL_WITHIN, "no line was dropped after {} calls", calls.answered());
        calls.add(&callers.closed(AT_ONCE, sizes.round_lasts).await?)?;
    }
    Ok(calls)
}

/// Connections with requests for metrics whose answers are not read.
async fn unread(operations: SocketAddr) -> Result<Vec<TcpStream>> {
    let mut sockets = Vec::new();
    let asked = b"GET /metrics HTTP/1.1\r\nhost: node\r\n\r\n".repeat(SCRAPES);
    for _ in 0..SCRAPERS {
        let mut socket = TcpStream::connect(operations).await?;
        // The node need not take all of it.
        drop(timeout(ASKED_WITHIN, socket.write_all(&asked)).await);
        sockets.push(socket);
    }
    Ok(sockets)
}
