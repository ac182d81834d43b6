//! A client that makes and breaks relations: it and others contend for few pairs, through all nodes.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use anyhow::Result;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::{Instant, sleep};

use super::{
    client::{ASKED_EVERY, ASKED_FOR, CallerId, ClientConfig, ClientState},
    relation_calls::PreparedRelationCall,
};
use crate::{
    checker::is_outage_code,
    history::{Edge, Event, Level, RelationCall, RelationOutcome, RelationRequest, Setting, Side},
};

/// The users between whom relations are made: the first users.
pub(super) const USERS: i64 = 8;

/// How many in a hundred calls do this. The remaining calls read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RelationMix {
    pub(super) follows: u32,
    pub(super) unfollows: u32,
    /// Blocks, unblocks and permissions.
    pub(super) settings: u32,
}

impl RelationMix {
    /// Half the calls write.
    pub(super) const USUAL: Self = Self { follows: 22, unfollows: 14, settings: 14 };
    /// Half the calls change settings.
    pub(super) const MOSTLY_SETTINGS: Self = Self { follows: 8, unfollows: 2, settings: 50 };
}

/// A client that calls about relations.
#[derive(Debug)]
pub(super) struct RelationClient {
    config: ClientConfig,
    random: SmallRng,
    relation_mix: RelationMix,
    state: Arc<ClientState>,
    /// Each follow's last token, and its version.
    tokens: HashMap<Edge, (String, u64)>,
}

impl RelationClient {
    pub(super) fn new(state: &Arc<ClientState>, config: ClientConfig, relation_mix: RelationMix) -> Self {
        let random = SmallRng::seed_from_u64(config.seed);
        Self { config, random, relation_mix, state: Arc::clone(state), tokens: HashMap::new() }
    }

    /// Makes calls until the run is over.
    pub(super) async fn work(mut self) -> Result<()> {
        while !self.state.over.load(Ordering::Relaxed) {
            let asked = self.choose();
            let outcome = self.call(&asked).await?;
            if matches!(outcome, RelationOutcome::Open(_)) && self.random.random_ratio(1, 2) {
                self.until_known(&asked).await?;
            } else if !asked.request_id.is_empty() && self.random.random_ratio(1, 50) {
                // A caller that lost the answer sends the same request again.
                self.call(&asked).await?;
            }
        }
        Ok(())
    }

    async fn until_known(&mut self, asked: &PreparedRelationCall) -> Result<()> {
        let until = Instant::now() + ASKED_FOR;
        while !self.state.over.load(Ordering::Relaxed) && Instant::now() < until {
            match self.call(asked).await? {
                RelationOutcome::Open(code) | RelationOutcome::Refused(code) if is_outage_code(&code) => {}
                _ => return Ok(()),
            }
            sleep(ASKED_EVERY).await;
        }
        Ok(())
    }

    async fn call(&mut self, asked: &PreparedRelationCall) -> Result<RelationOutcome> {
        let node = self.config.pinned.unwrap_or_else(|| self.random.random_range(0..self.state.nodes.len()));
        let (outcome, token) = self.state.ask(self.config.caller(), node, asked).await?;
        self.state.calls.fetch_add(1, Ordering::Relaxed);
        if let (
            RelationRequest::Follow(edge) | RelationRequest::Unfollow(edge),
            Some(token),
            RelationOutcome::Follows(version) | RelationOutcome::Ended(version),
        ) = (asked.what, token, &outcome)
        {
            self.tokens.insert(edge, (token, *version));
        }
        Ok(outcome)
    }

    fn choose(&mut self) -> PreparedRelationCall {
        let (edge, RelationMix { follows, unfollows, settings }) = (self.edge(), self.relation_mix);
        let kind = self.random.random_range(0..100_u32);
        let what = if kind < follows {
            RelationRequest::Follow(edge)
        } else if kind < follows + unfollows {
            RelationRequest::Unfollow(edge)
        } else if kind < follows + unfollows + settings {
            RelationRequest::Set(edge, self.setting())
        } else {
            return self.read(edge);
        };
        let request_id = format!("{}-{}", self.config.number, self.state.value());
        PreparedRelationCall { request_id, ..PreparedRelationCall::strong(what) }
    }

    fn setting(&mut self) -> Setting {
        match self.random.random_range(0..3) {
            0 => Setting::Block,
            1 => Setting::Unblock,
            _ => Setting::Permissions(self.random.random_range(0..64)),
        }
    }

    fn read(&mut self, edge: Edge) -> PreparedRelationCall {
        let level = if self.random.random_ratio(1, 8) { Level::Strong } else { Level::Cached };
        let page = if self.random.random_ratio(1, 4) { 3 } else { 50 };
        let side = if self.random.random_ratio(1, 2) { Side::Following } else { Side::Fans };
        let (what, token) = match self.random.random_range(0..10) {
            0..3 => (RelationRequest::Check(edge, self.random.random_range(0..64)), String::new()),
            3..6 => (RelationRequest::List(edge.0, side, level), String::new()),
            6 => (RelationRequest::Count(edge.0), String::new()),
            _ => match self.tokens.get(&edge).filter(|_| level == Level::Cached) {
                Some((token, version)) => {
                    (RelationRequest::Get(edge, Level::AtLeast(*version)), token.clone())
                }
                None => (RelationRequest::Get(edge, level), String::new()),
            },
        };
        PreparedRelationCall { token, page, ..PreparedRelationCall::strong(what) }
    }

    /// Two in three edges are between few users.
    fn edge(&mut self) -> Edge {
        let users = if self.random.random_ratio(2, 3) { 3 } else { USERS };
        let from = self.random.random_range(1..=users);
        Edge(from, (from + self.random.random_range(0..users - 1)) % users + 1)
    }
}

impl ClientState {
    /// Sends this client's call and records the outcome.
    pub(super) async fn ask(
        &self,
        caller: CallerId,
        node: usize,
        asked: &PreparedRelationCall,
    ) -> Result<(RelationOutcome, Option<String>)> {
        let CallerId { client, pinned } = caller;
        let began = self.recorder.now();
        let (outcome, token) = asked.send(self.nodes[node].clone()).await;
        let ended = self.recorder.now();
        let request_id = (!asked.request_id.is_empty()).then(|| asked.request_id.clone());
        let (node, what) = (u32::try_from(node)?, asked.what);
        let call =
            RelationCall { client, pinned, node, began, ended, what, request_id, outcome: outcome.clone() };
        self.recorder.write(&Event::Relation(call))?;
        Ok((outcome, token))
    }
}
