//! Sends messages to a conversation, changes them on one node, and reads them on the others as soon as the
//! change is acknowledged.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use kith_proto::message::v1::{
    EditMessageRequest, RecallMessageRequest, message_service_client::MessageServiceClient,
};
use rand::{Rng as _, rngs::SmallRng};

use super::{AT_ONCE, MessagePair, Workload, reader::Reader};
use crate::{
    faults::{answered::call, messages::PreparedCall},
    history::{Draft, MessageOutcome, MessageRequest, Pages, SendOutcome},
};

/// Attempts to send a message.
const TRIES: usize = 200;
/// A page with the changed message begins so many messages before it.
const BEFORE: u64 = 20;
/// One change in this many is an edit.
const EDIT_EVERY: u32 = 4;
/// One change in this many concerns an older message.
const OLDER_EVERY: u32 = 3;

/// A message that has its content.
#[derive(Clone, Copy, Debug)]
struct CurrentMessage {
    seq: u64,
    value: u64,
}

/// Writes to one conversation, whose messages no other program changes.
#[derive(Debug)]
pub(super) struct Writer {
    state: Arc<Workload>,
    pair: MessagePair,
    reader: Reader,
    random: SmallRng,
    /// The current messages, by rising number.
    current: Vec<CurrentMessage>,
}

impl Writer {
    pub(super) fn new(state: &Arc<Workload>, reader: Reader) -> Self {
        let (pair, random) = (reader.pair, state.random(reader.pair.one));
        Self { state: Arc::clone(state), pair, reader, random, current: Vec::new() }
    }

    /// Sends and changes until enough is changed in all conversations.
    pub(super) async fn work(mut self) -> Result<()> {
        for node in (0..self.state.nodes.len()).cycle() {
            if self.state.progress.is_over() {
                break;
            }
            // One more message than is recalled: there are older messages to change, too.
            for _ in 0..2 {
                let sent = self.send(node).await?;
                self.current.push(sent);
            }
            self.change(node).await?;
        }
        Ok(())
    }

    /// Sends a message, first through this node.
    async fn send(&self, node: usize) -> Result<CurrentMessage> {
        let value = self.state.value();
        let draft =
            Draft { conversation: self.pair.conversation(), sender: self.pair.one, value, silent: false };
        let asked = PreparedCall { request: MessageRequest::Send(vec![draft]), named: true };
        for node in (0..self.state.nodes.len()).cycle().skip(node).take(TRIES) {
            match asked.send(self.state.nodes[node].clone()).await {
                MessageOutcome::Sent(results) => match results.first() {
                    Some(SendOutcome::At(seq)) => return Ok(CurrentMessage { seq: *seq, value }),
                    Some(SendOutcome::Refused(code) | SendOutcome::Open(code)) => self.state.fail(code),
                    None => self.state.fail("INTERNAL"),
                },
                MessageOutcome::Open(code) | MessageOutcome::Refused(code) => self.state.fail(&code),
                MessageOutcome::Read { .. } | MessageOutcome::Marked(_) => self.state.fail("INTERNAL"),
            }
        }
        bail!("no node stores a message of {:?}", self.pair)
    }

    /// Recalls or edits a message, first through this node, and reads it through the others at once.
    async fn change(&mut self, node: usize) -> Result<()> {
        let last = self.current.len().checked_sub(1).context("a message was sent")?;
        let is_older = self.random.random_ratio(1, OLDER_EVERY);
        let index = if is_older { self.random.random_range(0..=last) } else { last };
        let CurrentMessage { seq, value } = self.current[index];
        let edited = self.random.random_ratio(1, EDIT_EVERY).then(|| self.state.value());
        // The message's current copies are everywhere.
        for reader in 0..self.state.nodes.len() {
            self.reader.read(reader, page_of(seq)).await;
        }
        match edited {
            Some(value) => self.edit(node, seq, value).await?,
            None => self.recall(node, seq).await?,
        }
        self.reader.removed.add(value);
        self.state.progress.add(1);
        match edited {
            Some(value) => self.current[index].value = value,
            None => drop(self.current.remove(index)),
        }
        self.read_changed(node, seq).await;
        Ok(())
    }

    async fn recall(&self, node: usize, seq: u64) -> Result<()> {
        let request = RecallMessageRequest {
            conversation_id: self.pair.conversation(),
            seq: seq.cast_signed(),
            ..RecallMessageRequest::default()
        };
        let recalled = self.state.call(node, request, call!(MessageServiceClient::recall_message)).await.0;
        recalled.map(drop).with_context(|| format!("message {seq} of {:?} is not recalled", self.pair))
    }

    async fn edit(&self, node: usize, seq: u64, value: u64) -> Result<()> {
        let request = EditMessageRequest {
            conversation_id: self.pair.conversation(),
            seq: seq.cast_signed(),
            content_type: "text/plain".to_owned(),
            body: value.to_string().into(),
            ..EditMessageRequest::default()
        };
        let edited = self.state.call(node, request, call!(MessageServiceClient::edit_message)).await.0;
        edited.map(drop).with_context(|| format!("message {seq} of {:?} is not edited", self.pair))
    }

    /// Reads a changed message in each way, on the other nodes first.
    async fn read_changed(&self, node: usize, seq: u64) {
        let count = self.state.nodes.len();
        for step in 1..=count {
            for pages in [page_of(seq), Pages::Before(seq + 1), Pages::These(vec![seq]), Pages::Before(0)] {
                let found = self.reader.read((node + step) % count, pages).await;
                if found.is_some_and(|found| found.iter().any(|message| message.seq == seq)) {
                    self.state.count(AT_ONCE, 1);
                }
            }
        }
    }
}

fn page_of(seq: u64) -> Pages {
    Pages::From(seq.saturating_sub(BEFORE).max(1))
}
