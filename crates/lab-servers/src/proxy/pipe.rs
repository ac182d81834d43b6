//! One direction in one connection.

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    task::yield_now,
    time::{Instant, sleep_until},
};

use super::{
    Link, Mode,
    messages::{MessageAction, Pieces},
};

/// Bytes read at once.
const CHUNK: usize = 16 * 1024;
/// If more than this many bytes wait here, no more are read: the sender finds its way blocked, as on a real
/// link.
const HELD_MAX: usize = 1 << 20;

/// The command by which a connection becomes a subscription.
const SUBSCRIBE: &[u8] = b"\r\nSUBSCRIBE\r\n";

/// The direction in which bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Towards the server.
    ToServer,
    /// Towards the client.
    ToClient,
}

/// Bytes on their way, by the time at which they go on.
pub(super) struct Pipe<'a> {
    link: &'a Link,
    direction: Direction,
    waiting: BTreeMap<(Instant, u64), Vec<u8>>,
    held: usize,
    queued: u64,
    /// When the last part that keeps its order goes on.
    last: Instant,
    pieces: Option<Pieces>,
    /// Whether the connection has subscribed, known to both its directions.
    subscribed: &'a AtomicBool,
}

impl<'a> Pipe<'a> {
    pub(super) fn new(link: &'a Link, direction: Direction, subscribed: &'a AtomicBool) -> Self {
        let framed = direction == Direction::ToClient && link.tampering.lock().is_some();
        let pieces = framed.then(Pieces::default);
        let (waiting, last) = (BTreeMap::new(), Instant::now());
        Self { link, direction, waiting, held: 0, queued: 0, last, pieces, subscribed }
    }

    /// Runs until the sender has closed its connection and all that it sent is forwarded.
    pub(super) async fn run(
        mut self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut modes = self.link.modes.subscribe();
        let mut buffer = vec![0; CHUNK];
        let mut ended = false;
        while !ended || !self.waiting.is_empty() {
            let mode = modes.borrow_and_update().of(self.subscribed.load(Ordering::Relaxed));
            if mode == Mode::Refuse {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let flows = mode.flows(self.direction);
            let due = self.waiting.first_key_value().map(|((due, _), _)| *due);
            tokio::select! {
                biased;
                changed = modes.changed() => changed.map_err(io::Error::other)?,
                () = sleep_until(due.unwrap_or(self.last)), if flows && due.is_some() => self.send(&mut to).await?,
                read = from.read(&mut buffer), if flows && !ended && self.held < HELD_MAX => match read? {
                    0 => ended = true,
                    length => self.receive(&buffer[..length]),
                },
            }
        }
        Ok(())
    }

    async fn send(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let Some((_, bytes)) = self.waiting.pop_first() else { return Ok(()) };
        self.held -= bytes.len();
        let Mode::Slice(most) = self.mode() else { return to.write_all(&bytes).await };
        for slice in bytes.chunks(most.max(1)) {
            to.write_all(slice).await?;
            yield_now().await;
        }
        Ok(())
    }

    fn mode(&self) -> Mode {
        self.link.modes.borrow().of(self.subscribed.load(Ordering::Relaxed))
    }

    fn receive(&mut self, bytes: &[u8]) {
        // Clients send the command in a separate segment, after their connection is established.
        if self.direction == Direction::ToServer
            && bytes.windows(SUBSCRIBE.len()).any(|words| words == SUBSCRIBE)
        {
            self.subscribed.store(true, Ordering::Relaxed);
        }
        let Some(mut pieces) = self.pieces.take() else {
            return self.queue(bytes.to_vec(), Duration::ZERO);
        };
        for piece in pieces.split(bytes) {
            self.tamper(piece.bytes, piece.message);
        }
        self.pieces = Some(pieces);
    }

    fn tamper(&mut self, bytes: Vec<u8>, message: bool) {
        let action = if message { self.link.choose_action() } else { MessageAction::Pass };
        if action != MessageAction::Pass {
            self.link.tampered.fetch_add(1, Ordering::Relaxed);
        }
        match action {
            MessageAction::Pass => self.queue(bytes, Duration::ZERO),
            MessageAction::Drop => {}
            MessageAction::Repeat(times) => {
                (0..times).for_each(|_| self.queue(bytes.clone(), Duration::ZERO))
            }
            MessageAction::Delay(time) => self.queue(bytes, time),
        }
    }

    /// Lets bytes wait for their turn. Bytes that others may overtake wait `beyond` longer.
    fn queue(&mut self, bytes: Vec<u8>, beyond: Duration) {
        let late = match self.mode() {
            Mode::Late(least, most) if self.direction == Direction::ToClient => {
                self.link.random_delay(least..most)
            }
            _ => Duration::ZERO,
        };
        self.last = self.last.max(Instant::now() + late);
        self.queued += 1;
        self.held += bytes.len();
        self.waiting.insert((self.last + beyond, self.queued), bytes);
    }
}
