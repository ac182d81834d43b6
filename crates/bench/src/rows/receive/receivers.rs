//! Users that receive. Each pair of neighbours, 1 and 2, 3 and 4, has its own direct conversation.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kith_proto::message::v1::{Position, ReceiveRequest, ReceiveResponse, delivery::What};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::{Status, Streaming, transport::Channel};

use super::{
    stage::{ReceiveStage, ReceiverClient},
    stream::{of_user, receive, until},
};
use crate::rows::messages::text;

/// Streams that are opened at one time in the beginning.
const OPENED: usize = 64;
const POLL: Duration = Duration::from_millis(20);
/// The longest pause before a client opens its stream again, as client libraries spread them.
const SPREAD_MS: u64 = 2_000;

/// Users with a stream each. Each checks that it gets the messages of its conversation in their order, each
/// once and without gaps; the first that does not ends the run.
pub(super) struct Receivers {
    shared: Arc<Shared>,
    /// How long it took to open all streams.
    pub(super) opened_in: Duration,
    users: i64,
    tasks: Mutex<JoinSet<Result<()>>>,
}

/// A message that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentMessage {
    /// The pair's second user.
    pub(super) to: i64,
    pub(super) seq: i64,
    /// When its sender had the answer.
    pub(super) answered: Instant,
}

/// The state that all receivers share.
#[derive(Debug)]
struct Shared {
    /// The connections to the node that is to be used.
    connections: Mutex<Arc<Vec<Channel>>>,
    /// Streams that have reported that they are live since the connections were changed.
    live: AtomicUsize,
    /// When messages came, by the pair's second user and the number; `None`: arrivals are not measured now.
    arrivals: Mutex<Option<HashMap<(i64, i64), Instant>>>,
    /// How many messages were sent to each pair, by its second user.
    sent: Mutex<HashMap<i64, i64>>,
    /// The highest number that each user has.
    ends: Mutex<HashMap<i64, i64>>,
}

impl Receivers {
    /// Opens a stream for each user up to an id, on the first node. Returns once all are live.
    pub(super) async fn open(stage: &ReceiveStage, users: i64) -> Result<Self> {
        let shared = Arc::new(Shared {
            connections: Mutex::new(Arc::new(stage.connections(0, users).await?)),
            live: AtomicUsize::new(0),
            arrivals: Mutex::default(),
            sent: Mutex::default(),
            ends: Mutex::default(),
        });
        let began = Instant::now();
        let mut receivers = Self { shared, opened_in: Duration::ZERO, users, tasks: Mutex::default() };
        for user in 1..=users {
            // Not many more than that are opening.
            while usize::try_from(user)? > receivers.live() + OPENED {
                receivers.ensure_no_error()?;
                sleep(Duration::from_millis(1)).await;
            }
            let receiver =
                Receiver { user, end: 0, cursor: String::new(), shared: Arc::clone(&receivers.shared) };
            receivers.tasks.lock().spawn(receiver.run());
        }
        receivers.until_live().await?;
        receivers.opened_in = began.elapsed();
        Ok(receivers)
    }

    /// Opens streams that end from now on at another node.
    pub(super) async fn use_node(&self, stage: &ReceiveStage, node: usize) -> Result<()> {
        let connections = Arc::new(stage.connections(node, self.users).await?);
        self.shared.live.store(0, Ordering::SeqCst);
        *self.shared.connections.lock() = connections;
        Ok(())
    }

    /// Waits until all streams are live.
    pub(super) async fn until_live(&self) -> Result<()> {
        let all = usize::try_from(self.users)?;
        let check = || {
            ensure!(self.live() >= all, "{} of {all} streams are live in time", self.live());
            Ok(())
        };
        until(POLL, || self.ensure_no_error(), check).await
    }

    /// Sends a message to a pair.
    pub(super) async fn send(&self, client: &mut ReceiverClient, pair: i64) -> Result<SentMessage> {
        let (first, second) = (2 * pair - 1, 2 * pair);
        let mut message = text(&format!("d{first}-{second}"));
        message.sender_id = first;
        let seq = client.send_message(message).await?.into_inner().seq;
        let answered = Instant::now();
        *self.shared.sent.lock().entry(second).or_default() += 1;
        Ok(SentMessage { to: second, seq, answered })
    }

    /// Pairs of users.
    pub(super) const fn pairs(&self) -> i64 {
        self.users / 2
    }

    /// Records from now on when messages arrive.
    pub(super) fn record_arrivals(&self) {
        *self.shared.arrivals.lock() = Some(HashMap::new());
    }

    /// When the messages came to each pair's second user, by that user and the number.
    pub(super) fn arrivals(&self) -> HashMap<(i64, i64), Instant> {
        self.shared.arrivals.lock().take().unwrap_or_default()
    }

    /// Waits until every user has every message.
    pub(super) async fn ensure_complete(&self) -> Result<()> {
        let check = || {
            let missing = self.missing();
            ensure!(missing == 0, "{missing} users lack messages");
            Ok(())
        };
        until(POLL, || self.ensure_no_error(), check).await
    }

    fn missing(&self) -> usize {
        let (sent, ends) = (self.shared.sent.lock(), self.shared.ends.lock());
        let has = |user: i64, count: i64| ends.get(&user).copied().unwrap_or_default() >= count;
        sent.iter().filter(|(user, count)| !has(**user, **count) || !has(**user - 1, **count)).count()
    }

    /// # Errors
    /// Fails if any receiver has ended.
    fn ensure_no_error(&self) -> Result<()> {
        match self.tasks.lock().try_join_next() {
            Some(ended) => ended?.and_then(|()| anyhow::bail!("a receiver has ended")),
            None => Ok(()),
        }
    }

    fn live(&self) -> usize {
        self.shared.live.load(Ordering::SeqCst)
    }
}

struct Receiver {
    user: i64,
    /// The highest number that it has.
    end: i64,
    cursor: String,
    shared: Arc<Shared>,
}

impl Receiver {
    /// Receives until something is wrong. A stream that ends is opened again, where the last one ended.
    async fn run(mut self) -> Result<()> {
        loop {
            let channels = Arc::clone(&self.shared.connections.lock());
            let opened = receive(of_user(&channels, self.user), self.request()).await;
            drop(channels);
            if let Ok(mut stream) = opened {
                self.read(&mut stream).await?;
            }
            sleep(Duration::from_millis(rand::random_range(0..SPREAD_MS))).await;
        }
    }

    fn request(&self) -> ReceiveRequest {
        let conversation_id = self.conversation();
        let first = self.cursor.is_empty() && self.end == 0;
        ReceiveRequest {
            user_id: self.user,
            cursor: self.cursor.clone(),
            positions: if first { Vec::new() } else { vec![Position { conversation_id, seq: self.end }] },
            now: first,
            ..ReceiveRequest::default()
        }
    }

    fn conversation(&self) -> String {
        let first = self.user - 1 + self.user % 2;
        format!("d{first}-{}", first + 1)
    }

    /// Reads a stream until it ends.
    async fn read(&mut self, stream: &mut Streaming<ReceiveResponse>) -> Result<()> {
        while let Some(response) = next(stream).await {
            for delivery in response.deliveries {
                self.apply(delivery.what.context("a delivery says nothing")?)?;
            }
            if !response.cursor.is_empty() {
                self.cursor = response.cursor;
            }
        }
        Ok(())
    }

    fn apply(&mut self, what: What) -> Result<()> {
        match what {
            What::Message(message) => {
                ensure!(
                    message.seq == self.end + 1,
                    "user {} has {} and got {}",
                    self.user,
                    self.end,
                    message.seq
                );
                self.end = message.seq;
                self.shared.ends.lock().insert(self.user, self.end);
                if self.user % 2 == 0
                    && let Some(arrivals) = &mut *self.shared.arrivals.lock()
                {
                    arrivals.insert((self.user, message.seq), Instant::now());
                }
            }
            What::Live(_) => drop(self.shared.live.fetch_add(1, Ordering::SeqCst)),
            What::Reset(_) => self.cursor.clear(),
            What::Missed(missed) => anyhow::bail!("messages are missed: {missed:?}"),
            What::Note(_) | What::Signal(_) | What::NoticeTotals(_) => {}
        }
        Ok(())
    }
}

/// The next response; `None`: the stream has ended, however.
async fn next(stream: &mut Streaming<ReceiveResponse>) -> Option<ReceiveResponse> {
    let next: Result<Option<ReceiveResponse>, Status> = stream.message().await;
    next.ok().flatten()
}
