//! A caller that sets a block or permissions on one node, and asks the other node for the decision as soon as
//! the write is acknowledged.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kith_proto::relation::v1::{
    BatchGetRelationsRequest, relation_result, relation_service_client::RelationServiceClient,
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{
    CALLERS, StrictState,
    pair::{RelationPair, SettingsAnswer},
};
use crate::{
    faults::{
        calls::{failed, name_of, with_deadline},
        relation_calls::{PreparedRelationCall, settings},
    },
    history::{Edge, Level, RelationOutcome, RelationRequest, Setting, Settings},
};

/// Pairs for each caller. All have the same first user.
const PAIRS: i64 = 4;
/// All permissions together.
const ALL: u8 = 63;
/// One read in this many is a batch with all the caller's pairs.
const BATCH_EVERY: u32 = 8;
/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);
/// How often a read from the store is attempted.
const TRIES: usize = 100;

/// A caller with its own pairs.
#[derive(Debug)]
pub(super) struct Caller {
    state: Arc<StrictState>,
    user: i64,
    pairs: Vec<RelationPair>,
    random: SmallRng,
    sent: u64,
}

impl Caller {
    /// The caller for this user.
    pub(super) fn new(state: &Arc<StrictState>, user: i64, seed: u64) -> Self {
        let pairs = (1..=PAIRS).map(|step| RelationPair::new(Edge(user, (user + step - 1) % CALLERS + 1)));
        let random = SmallRng::seed_from_u64(seed.wrapping_add(user.cast_unsigned()));
        Self { state: Arc::clone(state), user, pairs: pairs.collect(), random, sent: 0 }
    }

    /// Calls until enough writes are acknowledged.
    pub(super) async fn work(mut self) -> Result<()> {
        while !self.state.progress.is_over() {
            let at = self.random.random_range(0..self.pairs.len());
            self.sent += 1;
            let what = RelationRequest::Set(self.pairs[at].edge, self.setting(at));
            let has_id = self.random.random_ratio(1, self.state.id_every);
            let request_id = if has_id { format!("{}-{}", self.user, self.sent) } else { String::new() };
            let asked = PreparedRelationCall { request_id, ..PreparedRelationCall::strong(what) };
            if !self.write(at, 0, &asked).await? && has_id {
                // A client without an answer sends the same request again, on the other node.
                self.write(at, 1, &asked).await?;
            }
        }
        Ok(())
    }

    /// Writes on `node`, and reads from the other node. Returns whether the write was acknowledged.
    async fn write(&mut self, at: usize, node: usize, asked: &PreparedRelationCall) -> Result<bool> {
        match asked.send(self.state.nodes[node].clone()).await.0 {
            RelationOutcome::Set(settings, _) => {
                self.pairs[at].known.value = Some(settings);
                self.state.progress.add(1);
                self.ask(at, 1 - node).await?;
                Ok(true)
            }
            RelationOutcome::Open(code) | RelationOutcome::Refused(code) => {
                self.pairs[at].known.forget();
                self.state.tally.lock().fail_write(&code);
                sleep(PAUSE).await;
                Ok(false)
            }
            outcome => anyhow::bail!("a write is {outcome:?}"),
        }
    }

    /// A setting that differs from the known setting, so that it has an effect.
    fn setting(&mut self, at: usize) -> Setting {
        let Some(known) = self.pairs[at].known.value else {
            return Setting::Permissions(self.random.random_range(0..=ALL));
        };
        match self.random.random_range(0..4) {
            0 => Setting::Permissions(
                known.permissions.unwrap_or_default() ^ self.random.random_range(1..=ALL),
            ),
            _ if known.blocked => Setting::Unblock,
            _ => Setting::Block,
        }
    }

    async fn ask(&mut self, at: usize, node: usize) -> Result<()> {
        if self.random.random_ratio(1, BATCH_EVERY) {
            return self.ask_about_all(node).await;
        }
        let asked = if self.random.random_ratio(1, 4) { 0 } else { ALL };
        let check = PreparedRelationCall::strong(RelationRequest::Check(self.pairs[at].edge, asked));
        match check.send(self.state.nodes[node].clone()).await.0 {
            RelationOutcome::Allows(all, denied) => {
                self.judge(at, node, SettingsAnswer::Denied(asked, denied, all)).await
            }
            RelationOutcome::Refused(code) | RelationOutcome::Open(code) => {
                self.state.tally.lock().fail(&code);
                sleep(PAUSE).await;
            }
            outcome => anyhow::bail!("a decision is {outcome:?}"),
        }
        Ok(())
    }

    async fn ask_about_all(&mut self, node: usize) -> Result<()> {
        match self.batch(node).await {
            Ok(answers) => {
                for (at, answer) in answers.into_iter().enumerate() {
                    match answer {
                        Ok(answer) => self.judge(at, node, answer).await,
                        Err(code) => self.state.tally.lock().fail(&code),
                    }
                }
            }
            Err(status) => {
                self.state.tally.lock().fail(&failed(&status, true).0);
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Each pair's settings, in order, or the error's code.
    async fn batch(&self, node: usize) -> Result<Vec<Result<SettingsAnswer, String>>, Status> {
        let target_ids = self.pairs.iter().map(|pair| pair.edge.1).collect();
        let asked = BatchGetRelationsRequest { user_id: self.user, target_ids, consistency: None };
        let mut client = RelationServiceClient::new(self.state.nodes[node].clone());
        let answer = client.batch_get_relations(with_deadline(asked)).await?.into_inner();
        answer.results.into_iter().map(|found| answer_of(found.result)).collect()
    }

    /// Judges an answer about a pair, unless its last write was not acknowledged.
    async fn judge(&self, at: usize, node: usize, answer: SettingsAnswer) {
        let pair = &self.pairs[at];
        let Some(known) = pair.known.value else { return };
        let decided = match pair.judge(answer) {
            Some(decided) => decided,
            None => pair.judge_by(self.stored(pair.edge).await),
        };
        self.state.tally.lock().decide(decided, || {
            format!("{:?}: node {node} returned {answer:?} after {known:?} was acknowledged", pair.edge)
        });
    }

    /// The settings in the store, by a strong read. `None`: no node answers.
    async fn stored(&self, edge: Edge) -> Option<Settings> {
        let asked = PreparedRelationCall::strong(RelationRequest::Get(edge, Level::Strong));
        for at in (0..self.state.nodes.len()).cycle().take(TRIES) {
            match asked.send(self.state.nodes[at].clone()).await.0 {
                RelationOutcome::Found { settings, .. } => return Some(settings),
                _ => sleep(PAUSE).await,
            }
        }
        None
    }
}

fn answer_of(result: Option<relation_result::Result>) -> Result<Result<SettingsAnswer, String>, Status> {
    match result {
        Some(relation_result::Result::Relation(relation)) => {
            Ok(Ok(SettingsAnswer::Whole(settings(relation.settings.as_ref())?)))
        }
        Some(relation_result::Result::Error(error)) => Ok(Err(name_of(Code::from(error.code)))),
        None => Err(Status::internal("a result without a value")),
    }
}
