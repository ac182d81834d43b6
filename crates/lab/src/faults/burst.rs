//! Outsiders publish more on the nodes' channel than nodes ever do, and one node does not read it for a
//! while.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use kith_cache::remote::Frame;
use kith_lab_servers::{
    proxy::Mode,
    resp::{self, Value},
    usage,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, sleep_until},
};

use super::{
    figure::{Figure, float},
    site::Site,
};
use crate::faults::Better;

/// Messages that are published in a second, as far as Redis takes them.
const RATE: u64 = 50_000;
/// The share that must be reached: messages from the end of a second may come in the next second.
const REACHED: f64 = 0.95;
const SENDERS: u64 = 2;
/// Messages that are sent before the answers to them are read.
const BATCH: u64 = 500;
/// Bytes in a message that only a node can open.
const MESSAGE: usize = 60;
/// How long the last node receives nothing, at most: as its trust lasts and a half more.
const UNREAD_FOR: Duration = Duration::from_secs(3);
/// The text that Redis logs when it closes a subscriber because too much waits for it.
const CLOSED: &str = "output buffer limits";

/// Publishes for `lasts`. Figures: rates, and the resources that the servers took.
pub(super) async fn flood(site: &Site, lasts: Duration) -> Result<Vec<Figure>> {
    let channel = channel(site).await?;
    let before = (cpu_seconds(site)?, closed_subscribers(site)?);
    let began = Instant::now();
    let publishing = (0..SENDERS).map(|_| publish(site.redis.address(), &channel, lasts));
    let (published, ()) = tokio::try_join!(try_join_all(publishing), pause_subscriptions(site, lasts))?;
    let seconds = began.elapsed().as_secs_f64();
    let published = float(published.iter().sum()) / seconds;
    let (after, closed) = (cpu_seconds(site)?, closed_subscribers(site)? - before.1);
    // Once a minute for each node, and this takes less.
    let most = float(u64::try_from(site.members.len())?);
    Ok(vec![
        Figure::at_least("F13 published", "1/s", published, float(RATE) * REACHED),
        Figure::at_most("F13 subscribers closed by Redis", "count", float(closed), most),
        Figure::without_target(
            "F13 processor of Redis",
            "ratio",
            (after.0 - before.0.0) / seconds,
            Better::Lower,
        ),
        Figure::without_target(
            "F13 processor of nodes",
            "ratio",
            (after.1 - before.0.1) / seconds,
            Better::Lower,
        ),
    ])
}

/// The channel for changes, to which all nodes are subscribed.
async fn channel(site: &Site) -> Result<String> {
    let all = site.redis.ask(&["PUBSUB", "CHANNELS"]).await?.texts();
    let channel = all.into_iter().find(|name| name.contains("log:")).context("no node listens")?;
    let received = site.redis.ask(&[&b"PUBLISH"[..], channel.as_bytes(), &frame()]).await?;
    let nodes = i64::try_from(site.members.len())?;
    ensure!(received == Value::Number(nodes), "of {nodes} nodes it is received by {received:?}");
    Ok(channel)
}

/// A frame that looks like a message until a node tries to open it.
fn frame() -> Vec<u8> {
    Frame { number: u64::MAX, nonce: 1, before: 2, message: vec![3; MESSAGE] }.to_bytes()
}

/// Seconds of processor time that Redis, and all nodes, have taken.
fn cpu_seconds(site: &Site) -> Result<(f64, f64)> {
    let of_node = |member: &super::Member| usage::cpu_seconds(member.node.id()?);
    let nodes = site.members.iter().map(of_node).sum::<Result<f64>>()?;
    Ok((usage::cpu_seconds(site.redis.id()?)?, nodes))
}

fn closed_subscribers(site: &Site) -> Result<u64> {
    let lines = site.redis.log()?.lines().filter(|line| line.contains(CLOSED)).count();
    Ok(u64::try_from(lines)?)
}

async fn pause_subscriptions(site: &Site, lasts: Duration) -> Result<()> {
    let one = site.members.last().context("there is a node")?;
    sleep(lasts / 3).await;
    one.to_redis.set_subscriptions(Mode::Freeze);
    sleep(UNREAD_FOR.min(lasts / 3)).await;
    one.to_redis.set_subscriptions(Mode::Pass);
    Ok(())
}

/// One sender's part. Returns how many messages Redis took.
async fn publish(redis: SocketAddr, channel: &str, lasts: Duration) -> Result<u64> {
    let mut socket = TcpStream::connect(redis).await?;
    socket.set_nodelay(true)?;
    let batch =
        resp::command(&[&b"PUBLISH"[..], channel.as_bytes(), &frame()]).repeat(usize::try_from(BATCH)?);
    let pause = Duration::from_secs(1).mul_f64(float(SENDERS * BATCH) / float(RATE));
    let (began, mut batches) = (Instant::now(), 0_u32);
    while began.elapsed() < lasts {
        sleep_until(began + pause * batches).await;
        let (mut answers, mut commands) = socket.split();
        tokio::try_join!(async { Ok(commands.write_all(&batch).await?) }, read_answers(&mut answers))?;
        batches += 1;
    }
    Ok(u64::from(batches) * BATCH)
}

/// Waits for as many answers as there are messages in a batch; each is a line.
async fn read_answers(answers: &mut (impl tokio::io::AsyncRead + Unpin)) -> Result<()> {
    let (mut left, mut buffer) = (usize::try_from(BATCH)?, vec![0; 16 << 10]);
    while left > 0 {
        let length = answers.read(&mut buffer).await?;
        ensure!(length > 0, "Redis closed the connection");
        let lines = buffer[..length].iter().filter(|byte| **byte == b'\n').count();
        left = left.saturating_sub(lines);
    }
    Ok(())
}
