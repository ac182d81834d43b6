//! A caller that sets something about another user on one node, and asks the other node what it decides, at once.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kith_proto::relation::v1::{
    BatchGetRelationsRequest, relation_result, relation_service_client::RelationServiceClient,
};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{
    CALLERS, StrictDesk,
    pair::{RelationPair, SettingsAnswer},
};
use crate::{
    faults::{
        calls::{failed, name_of, within},
        relation_calls::{AskedAbout, settings},
    },
    history::{About, Edge, Level, Relates, Setting, Settings},
};

/// Pairs of each caller, all of them of one user.
const PAIRS: i64 = 4;
/// All that can be permitted.
const ALL: u8 = 63;
/// One question in so many is about all pairs of the caller at once.
const BATCH_EVERY: u32 = 8;
/// Pause after a call that failed.
const PAUSE: Duration = Duration::from_millis(20);
/// Attempts of a read of the store.
const TRIES: usize = 100;

/// One caller, with pairs of its own.
#[derive(Debug)]
pub(super) struct Caller {
    desk: Arc<StrictDesk>,
    user: i64,
    pairs: Vec<RelationPair>,
    random: SmallRng,
    sent: u64,
}

impl Caller {
    /// The caller of this user.
    pub(super) fn new(desk: &Arc<StrictDesk>, user: i64, seed: u64) -> Self {
        let pairs = (1..=PAIRS).map(|step| RelationPair::new(Edge(user, (user + step - 1) % CALLERS + 1)));
        let random = SmallRng::seed_from_u64(seed.wrapping_add(user.cast_unsigned()));
        Self { desk: Arc::clone(desk), user, pairs: pairs.collect(), random, sent: 0 }
    }

    /// Calls until enough is acknowledged.
    pub(super) async fn work(mut self) -> Result<()> {
        while !self.desk.is_over() {
            let at = self.random.random_range(0..self.pairs.len());
            self.sent += 1;
            let what = About::Set(self.pairs[at].edge, self.setting(at));
            let named = self.random.random_ratio(1, self.desk.named_every);
            let request_id = if named { format!("{}-{}", self.user, self.sent) } else { String::new() };
            let asked = AskedAbout { request_id, ..AskedAbout::strong(what) };
            if !self.write(at, 0, &asked).await? && named {
                // As a caller that is not answered: the same again, on the other node.
                self.write(at, 1, &asked).await?;
            }
        }
        Ok(())
    }

    /// Writes on that node, and asks the other one. Returns whether the write was acknowledged.
    async fn write(&mut self, at: usize, node: usize, asked: &AskedAbout) -> Result<bool> {
        match asked.send(self.desk.nodes[node].clone()).await.0 {
            Relates::Set(settings, _) => {
                self.pairs[at].known.value = Some(settings);
                self.desk.progress.add(1);
                self.ask(at, 1 - node).await?;
                Ok(true)
            }
            Relates::Open(code) | Relates::Refused(code) => {
                self.pairs[at].known.forget();
                self.desk.tally.lock().fail_write(&code);
                sleep(PAUSE).await;
                Ok(false)
            }
            outcome => anyhow::bail!("a write is {outcome:?}"),
        }
    }

    /// What has an effect: something else than what is.
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
            return self.ask_of_all(node).await;
        }
        let asked = if self.random.random_ratio(1, 4) { 0 } else { ALL };
        let check = AskedAbout::strong(About::Check(self.pairs[at].edge, asked));
        match check.send(self.desk.nodes[node].clone()).await.0 {
            Relates::Allows(all, denied) => {
                self.judge(at, node, SettingsAnswer::Denied(asked, denied, all)).await
            }
            Relates::Refused(code) | Relates::Open(code) => {
                self.desk.tally.lock().fail(&code);
                sleep(PAUSE).await;
            }
            outcome => anyhow::bail!("a decision is {outcome:?}"),
        }
        Ok(())
    }

    async fn ask_of_all(&mut self, node: usize) -> Result<()> {
        match self.batch(node).await {
            Ok(told) => {
                for (at, told) in told.into_iter().enumerate() {
                    match told {
                        Ok(told) => self.judge(at, node, told).await,
                        Err(code) => self.desk.tally.lock().fail(&code),
                    }
                }
            }
            Err(status) => {
                self.desk.tally.lock().fail(&failed(&status, true).0);
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// What is set of each pair, in their order, or why it could not be read.
    async fn batch(&self, node: usize) -> Result<Vec<Result<SettingsAnswer, String>>, Status> {
        let target_ids = self.pairs.iter().map(|pair| pair.edge.1).collect();
        let asked = BatchGetRelationsRequest { user_id: self.user, target_ids, consistency: None };
        let mut client = RelationServiceClient::new(self.desk.nodes[node].clone());
        let said = client.batch_get_relations(within(asked)).await?.into_inner();
        said.results.into_iter().map(|found| told(found.result)).collect()
    }

    /// Of a pair whose last write is not acknowledged nothing is judged.
    async fn judge(&self, at: usize, node: usize, told: SettingsAnswer) {
        let pair = &self.pairs[at];
        let Some(known) = pair.known.value else { return };
        let decided = match pair.judge(told) {
            Some(decided) => decided,
            None => pair.judge_by(self.stored(pair.edge).await),
        };
        self.desk.tally.lock().decide(decided, || {
            format!("{:?}: node {node} tells {told:?} after {known:?} was acknowledged", pair.edge)
        });
    }

    /// What the store has of it; `None`: it cannot be asked.
    async fn stored(&self, edge: Edge) -> Option<Settings> {
        let asked = AskedAbout::strong(About::Get(edge, Level::Strong));
        for at in (0..self.desk.nodes.len()).cycle().take(TRIES) {
            match asked.send(self.desk.nodes[at].clone()).await.0 {
                Relates::Found { settings, .. } => return Some(settings),
                _ => sleep(PAUSE).await,
            }
        }
        None
    }
}

fn told(result: Option<relation_result::Result>) -> Result<Result<SettingsAnswer, String>, Status> {
    match result {
        Some(relation_result::Result::Relation(relation)) => {
            Ok(Ok(SettingsAnswer::Whole(settings(relation.settings.as_ref())?)))
        }
        Some(relation_result::Result::Error(error)) => Ok(Err(name_of(Code::from(error.code)))),
        None => Err(Status::internal("an answer without what was asked for")),
    }
}
