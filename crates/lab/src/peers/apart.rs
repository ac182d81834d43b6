//! A node in a process of its own, which can be stopped as a whole.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use kith_cache::remote::Shared;
use rand::Rng as _;

use super::{PREFIX, Peer, Shape, Store, shared_by};
use crate::signal::signal;

/// Readers of such a node, and the pause of each between two reads.
const READERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(1);
/// How long it may take to trust its memory.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// A read of a node in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which record.
    pub key: u64,
    /// The version read; `None`: the read failed.
    pub version: Option<u64>,
    /// When it was asked for, in microseconds since 1970.
    pub began_us: u64,
}

/// A node in a process of its own that reads all the time. It ends with the value.
#[derive(Debug)]
pub struct Apart {
    process: Child,
    answers: mpsc::Receiver<Answer>,
}

impl Apart {
    /// Starts `kith-lab peer` over the Redis and the store at these addresses; it reads keys below that number.
    ///
    /// # Errors
    /// When the program does not start.
    pub fn start(program: &Path, redis: SocketAddr, store: SocketAddr, keys: u64) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["peer", &redis.to_string(), &store.to_string(), &keys.to_string()]);
        // It ends when its input does.
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| format!("{} does not start", program.display()))?;
        let output = process.stdout.take().context("the output is a pipe")?;
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for answer in lines.filter_map(|line| Answer::parse(&line)) {
                if sender.send(answer).is_err() {
                    return;
                }
            }
        });
        Ok(Self { process, answers })
    }

    /// Stops it where it is, as a machine that is suspended.
    ///
    /// # Errors
    /// When it has ended.
    pub fn stop(&self) -> Result<()> {
        signal(self.process.id(), "STOP")
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it has ended.
    pub fn go_on(&self) -> Result<()> {
        signal(self.process.id(), "CONT")
    }

    /// What it has read since this was called last.
    #[must_use]
    pub fn answers(&self) -> Vec<Answer> {
        self.answers.try_iter().collect()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Answer {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (key, version, began_us) = (words.next()?, words.next()?, words.next()?);
        Some(Self { key: key.parse().ok()?, version: version.parse().ok(), began_us: began_us.parse().ok()? })
    }
}

/// What the process of [`Apart`] does: reads keys at random and prints each answer, until its input ends.
///
/// # Errors
/// When the node does not trust its memory in time.
pub async fn run(redis: SocketAddr, store: SocketAddr, keys: u64) -> Result<()> {
    let shared: Arc<dyn Shared> = shared_by(&format!("redis://{redis}"), PREFIX).await?;
    let peer = Arc::new(Peer::start(rand::random(), &shared, &Store::far(store), &Shape::default()));
    ensure!(peer.until_trusted(READY_WITHIN).await, "the node does not trust its memory");
    for key in 0..keys {
        peer.read(key).await.context("a read failed")?;
    }
    for _ in 0..READERS {
        tokio::spawn(read_on(Arc::clone(&peer), keys));
    }
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]).map(drop));
    Ok(ended.await??)
}

async fn read_on(peer: Arc<Peer>, keys: u64) {
    loop {
        let (key, began_us) = (rand::rng().random_range(0..keys), now_us());
        let version =
            peer.read(key).await.map_or_else(|_| "failed".to_owned(), |version| version.to_string());
        println!("{key} {version} {began_us}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// This moment, in the form of [`Answer::began_us`].
#[must_use]
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
