//! A user's device: receives by one stream after another, each through any node.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use kith_proto::message::v1::{
    Missed, Position, ReceiveRequest, ReceiveResponse, delivery::What,
    message_service_client::MessageServiceClient,
};
use parking_lot::Mutex;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::{sleep, timeout};
use tonic::{Status, Streaming, transport::Channel};

use super::{
    calls::{logged, number},
    is_in_group,
};
use crate::history::{LoggedMessage, ReceivedMessages, ReceivedRun};

/// How long a stream is read before the device goes elsewhere, in milliseconds.
const STAYS_MS: std::ops::Range<u64> = 500..15_000;
/// A stream has to be opened within this time.
const OPENS_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);

/// The messages that a device got so far.
#[derive(Debug)]
pub(super) struct DeviceMessages {
    receiver: u32,
    user: i64,
    by_conversation: BTreeMap<String, ReceivedMessages>,
}

/// A device that receives.
pub(super) struct Receiver {
    nodes: Vec<Channel>,
    got: Arc<Mutex<DeviceMessages>>,
    cursor: String,
    /// Whether the cursor is after all messages that it got: not if a response came without a cursor, nor
    /// after a reset.
    resumes_exactly: bool,
    random: SmallRng,
}

impl DeviceMessages {
    pub(super) const fn of(receiver: u32, user: i64) -> Self {
        Self { receiver, user, by_conversation: BTreeMap::new() }
    }

    /// The messages that it got in each conversation.
    pub(super) fn received(&self) -> impl Iterator<Item = &ReceivedMessages> {
        self.by_conversation.values()
    }

    /// Whether it lacks messages up to these ends, in its user's conversations.
    pub(super) fn lacks(&self, ends: &BTreeMap<String, u64>) -> bool {
        let has = |id: &str, end: u64| self.by_conversation.get(id).is_some_and(|got| got.next() > end);
        ends.iter().any(|(id, end)| self.is_in(id) && !has(id, *end))
    }

    /// Whether the user is in a conversation.
    fn is_in(&self, id: &str) -> bool {
        match id.strip_prefix('g') {
            Some(group) => group.parse().is_ok_and(|group| is_in_group(self.user, group)),
            None => id[1..].split('-').any(|user| user == self.user.to_string()),
        }
    }

    fn positions(&self) -> Vec<Position> {
        let position = |(id, got): (&String, &ReceivedMessages)| Position {
            conversation_id: id.clone(),
            seq: (got.next() - 1).cast_signed(),
        };
        self.by_conversation.iter().map(position).collect()
    }

    fn of_conversation(&mut self, conversation: &str) -> &mut ReceivedMessages {
        let (receiver, user) = (self.receiver, self.user);
        self.by_conversation.entry(conversation.to_owned()).or_insert_with(|| ReceivedMessages {
            receiver,
            user,
            conversation: conversation.to_owned(),
            runs: Vec::new(),
            missed: Vec::new(),
            wrong: Vec::new(),
        })
    }
}

impl ReceivedMessages {
    /// The number that has to come next; 1: any.
    fn next(&self) -> u64 {
        let runs = self.runs.iter().map(|run| run.last);
        runs.chain(self.missed.iter().map(|missed| missed.1)).max().unwrap_or_default() + 1
    }

    fn add(&mut self, message: LoggedMessage) {
        let next = self.next();
        if next > 1 && message.seq != next {
            self.wrong.push((next, message.seq));
        }
        if message.seq < next {
            return;
        }
        let value = message.value;
        match self.runs.last_mut() {
            Some(run) if run.last + 1 == message.seq => run.add(value),
            _ => {
                let mut run = ReceivedRun::before(message.seq);
                run.add(value);
                self.runs.push(run);
            }
        }
    }

    fn add_missed(&mut self, first: u64, last: u64) {
        let next = self.next();
        if next > 1 && first != next {
            self.wrong.push((next, first));
        }
        self.missed.push((first, last));
    }
}

impl Receiver {
    pub(super) fn new(nodes: &[Channel], got: Arc<Mutex<DeviceMessages>>, seed: u64) -> Self {
        let random = SmallRng::seed_from_u64(seed);
        Self { nodes: nodes.to_vec(), got, cursor: String::new(), resumes_exactly: false, random }
    }

    /// Receives until it is dropped.
    pub(super) async fn run(mut self) -> Result<()> {
        loop {
            let node = self.random.random_range(0..self.nodes.len());
            let request = self.request();
            let mut client = MessageServiceClient::new(self.nodes[node].clone());
            if let Ok(Ok(stream)) = timeout(OPENS_WITHIN, client.receive(request)).await {
                let stays = Duration::from_millis(self.random.random_range(STAYS_MS));
                if let Ok(read) = timeout(stays, self.read(stream.into_inner())).await {
                    read?;
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn request(&mut self) -> ReceiveRequest {
        let (user_id, positions) = {
            let got = self.got.lock();
            (got.user, got.positions())
        };
        // The stream resumes by both, unless only one says where to go on.
        let (mut cursor, mut positions) = (self.cursor.clone(), positions);
        match self.random.random_range(0..4) {
            0..2 if self.resumes_exactly => positions.clear(),
            2 => cursor.clear(),
            _ => {}
        }
        let now = cursor.is_empty() && positions.is_empty();
        ReceiveRequest { user_id, cursor, positions, now, ..ReceiveRequest::default() }
    }

    /// Reads a stream until it ends.
    async fn read(&mut self, mut stream: Streaming<ReceiveResponse>) -> Result<()> {
        while let Ok(Some(response)) = stream.message().await {
            for delivery in response.deliveries {
                self.add_delivery(delivery.what.context("a delivery says nothing")?)?;
            }
            self.resumes_exactly = !response.cursor.is_empty();
            if self.resumes_exactly {
                self.cursor = response.cursor;
            }
        }
        Ok(())
    }

    fn add_delivery(&mut self, what: What) -> Result<(), Status> {
        match what {
            What::Message(message) => {
                let logged = logged(&message)?;
                self.got.lock().of_conversation(&message.conversation_id).add(logged);
            }
            What::Missed(Missed { conversation_id, from_seq, to_seq, .. }) => {
                let (first, last) = (number(from_seq)?, number(to_seq)?);
                self.got.lock().of_conversation(&conversation_id).add_missed(first, last);
            }
            What::Reset(_) => {
                self.cursor.clear();
            }
            What::Note(_) | What::Signal(_) | What::Live(_) | What::NoticeTotals(_) => {}
        }
        Ok(())
    }
}
