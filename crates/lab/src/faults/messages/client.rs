//! A client that sends, reads and marks messages for one user.

use std::sync::{Arc, atomic::Ordering};

use anyhow::Result;
use futures::future::try_join_all;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::{Instant, sleep};

use super::{Conversation, MessageState, USERS, calls::PreparedCall};
use crate::{
    checker::is_outage_code,
    faults::client::{ASKED_EVERY, ASKED_FOR, ClientConfig},
    history::{Draft, Event, MessageCall, MessageOutcome, MessageRequest, Pages, SendOutcome},
};

/// The most messages in a batch, and the most conversations that they go to.
const BATCH_MAX: u32 = 60;
const BATCH_CONVERSATIONS: usize = 3;
/// Callers that send one message through several nodes at once. All but the first have numbers that no client
/// has.
const TWINS: u32 = 3;
const TWIN: u32 = 1_000;
/// Reads and marks concern this many of the last messages.
const LAST: u64 = 60;
/// One message in this many is silent.
const SILENT: u64 = 5;

/// A client that calls about messages.
#[derive(Debug)]
pub(in crate::faults) struct MessageClient {
    state: Arc<MessageState>,
    config: ClientConfig,
    user: i64,
    random: SmallRng,
    /// The places of its user's conversations.
    own: Vec<usize>,
}

impl MessageClient {
    pub(in crate::faults) fn new(state: &Arc<MessageState>, config: ClientConfig) -> Self {
        let user = (i64::from(config.number) - 1) % USERS + 1;
        let all = state.conversations.iter().enumerate();
        let own = all.filter(|(_, one)| one.users.contains(&user)).map(|(at, _)| at).collect();
        let random = SmallRng::seed_from_u64(config.seed);
        Self { state: Arc::clone(state), config, user, random, own }
    }

    /// Makes calls until the run is over.
    pub(in crate::faults) async fn work(mut self) -> Result<()> {
        while !self.state.clients.over.load(Ordering::Relaxed) {
            self.step().await?;
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<()> {
        match self.random.random_range(0..100) {
            0..44 => self.send(1).await,
            44..48 => {
                let asked = PreparedCall { request: MessageRequest::Send(vec![self.draft()]), named: false };
                self.call(&asked).await.map(drop)
            }
            48..57 => {
                let count = self.random.random_range(2..=BATCH_MAX);
                self.send(count).await
            }
            57..61 => self.at_once().await,
            61..85 => self.read().await,
            _ => self.mark().await,
        }
    }

    /// Sends messages. Sends messages with an unknown outcome again, in every second case until it is known.
    async fn send(&mut self, count: u32) -> Result<()> {
        let mut asked = PreparedCall { request: MessageRequest::Send(self.drafts(count)), named: true };
        let outcome = self.call(&asked).await?;
        let again = open(&asked, &outcome);
        if !again.is_empty() && self.random.random_ratio(1, 2) {
            asked.request = MessageRequest::Send(again);
            self.until_known(asked).await?;
        } else if self.random.random_ratio(1, 50) {
            // A caller that lost the answer sends the same message again.
            self.call(&asked).await?;
        }
        Ok(())
    }

    async fn until_known(&mut self, mut asked: PreparedCall) -> Result<()> {
        let until = Instant::now() + ASKED_FOR;
        while !self.state.clients.over.load(Ordering::Relaxed) && Instant::now() < until {
            let outcome = self.call(&asked).await?;
            let again = open(&asked, &outcome);
            if again.is_empty() {
                return Ok(());
            }
            asked.request = MessageRequest::Send(again);
            sleep(ASKED_EVERY).await;
        }
        Ok(())
    }

    /// Sends the same message through several nodes at the same time, like callers that do not know each
    /// other.
    async fn at_once(&mut self) -> Result<()> {
        let asked = PreparedCall { request: MessageRequest::Send(vec![self.draft()]), named: true };
        let nodes: Vec<usize> = (0..TWINS).map(|_| self.any_node()).collect();
        let callers = (0..TWINS).map(|twin| self.config.number + twin * TWIN).zip(nodes);
        let calls = callers.map(|(caller, node)| self.state.call(caller, node, &asked));
        try_join_all(calls).await.map(drop)
    }

    async fn read(&mut self) -> Result<()> {
        let at = self.conversation();
        let end = self.state.conversations[at].known();
        let recent = end.saturating_sub(LAST)..=end;
        let pages = match self.random.random_range(0..5) {
            0..3 => Pages::From(self.random.random_range(recent)),
            3 => Pages::Before(if self.random.random() { 0 } else { self.random.random_range(recent) }),
            _ => Pages::These((0..10).map(|_| self.random.random_range(1..=end.max(1))).collect()),
        };
        let at_least = if self.random.random_ratio(1, 4) { end } else { 0 };
        let (user, conversation) = (self.user, self.state.conversations[at].id.clone());
        let request = MessageRequest::Read { user, conversation, pages, at_least };
        self.call(&PreparedCall { request, named: false }).await.map(drop)
    }

    /// Marks a message that is known to exist, or asks for the mark.
    async fn mark(&mut self) -> Result<()> {
        let at = self.conversation();
        let end = self.state.conversations[at].known();
        let asks = self.random.random_ratio(1, 3);
        let up_to = if asks { 0 } else { self.random.random_range(end.saturating_sub(LAST)..=end) };
        let (user, conversation) = (self.user, self.state.conversations[at].id.clone());
        let request = MessageRequest::Mark { user, conversation, up_to };
        let asked = PreparedCall { request, named: false };
        if matches!(self.call(&asked).await?, MessageOutcome::Open(_)) && self.random.random_ratio(1, 2) {
            // Marks may come more than once.
            self.call(&asked).await?;
        }
        Ok(())
    }

    async fn call(&mut self, asked: &PreparedCall) -> Result<MessageOutcome> {
        let node = self.config.pinned.unwrap_or_else(|| self.any_node());
        self.state.call(self.config.number, node, asked).await
    }

    /// Drafts `count` messages for few conversations.
    fn drafts(&mut self, count: u32) -> Vec<Draft> {
        let few: Vec<usize> = (0..BATCH_CONVERSATIONS).map(|_| self.conversation()).collect();
        let places: Vec<usize> = (0..count).map(|_| few[self.random.random_range(0..few.len())]).collect();
        places.into_iter().map(|at| self.draft_for(at)).collect()
    }

    fn draft(&mut self) -> Draft {
        let at = self.conversation();
        self.draft_for(at)
    }

    fn draft_for(&self, at: usize) -> Draft {
        let value = self.state.clients.value();
        let (conversation, sender) = (self.state.conversations[at].id.clone(), self.user);
        Draft { conversation, sender, value, silent: value.is_multiple_of(SILENT) }
    }

    /// One of the user's conversations, the first most often.
    fn conversation(&mut self) -> usize {
        let (one, other) =
            (self.random.random_range(0..self.own.len()), self.random.random_range(0..self.own.len()));
        self.own[one.min(other)]
    }

    fn any_node(&mut self) -> usize {
        self.random.random_range(0..self.state.clients.nodes.len())
    }
}

impl MessageState {
    /// Sends this client's call and records the outcome.
    async fn call(&self, client: u32, node: usize, asked: &PreparedCall) -> Result<MessageOutcome> {
        let clients = &self.clients;
        let began = clients.recorder.now();
        let outcome = asked.send(clients.nodes[node].clone()).await;
        let ended = clients.recorder.now();
        let (node, request) = (u32::try_from(node)?, asked.request.clone());
        let call = MessageCall { client, node, began, ended, request, outcome: outcome.clone() };
        clients.recorder.write(&Event::Message(call))?;
        clients.calls.fetch_add(1, Ordering::Relaxed);
        self.learn(asked, &outcome);
        Ok(outcome)
    }

    fn learn(&self, asked: &PreparedCall, outcome: &MessageOutcome) {
        match (&asked.request, outcome) {
            (MessageRequest::Send(drafts), MessageOutcome::Sent(results)) => {
                let mut sent = 0;
                for (draft, result) in drafts.iter().zip(results) {
                    if let SendOutcome::At(seq) = result {
                        sent += 1;
                        self.know(&draft.conversation, *seq);
                    }
                }
                self.add_sent(sent);
            }
            (
                MessageRequest::Read { conversation, .. },
                MessageOutcome::Read { range: Some((_, end)), .. },
            ) => {
                self.know(conversation, *end);
            }
            _ => {}
        }
    }

    fn know(&self, conversation: &str, end: u64) {
        if let Some(found) = self.conversations.iter().find(|one| one.id == conversation) {
            found.end.fetch_max(end, Ordering::Relaxed);
        }
    }
}

impl Conversation {
    fn known(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }
}

/// The messages that may or may not be stored, or were refused because of the cluster's state.
fn open(asked: &PreparedCall, outcome: &MessageOutcome) -> Vec<Draft> {
    let MessageRequest::Send(drafts) = &asked.request else { return Vec::new() };
    match outcome {
        MessageOutcome::Open(code) | MessageOutcome::Refused(code) if is_outage_code(code) => drafts.clone(),
        MessageOutcome::Sent(results) => {
            let failed = |result: &SendOutcome| match result {
                SendOutcome::Open(code) | SendOutcome::Refused(code) => is_outage_code(code),
                SendOutcome::At(_) => false,
            };
            let failed = drafts.iter().zip(results).filter(|(_, result)| failed(result));
            failed.map(|(draft, _)| draft.clone()).collect()
        }
        _ => Vec::new(),
    }
}
