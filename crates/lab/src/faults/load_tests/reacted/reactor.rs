//! A user who reacts and takes reactions back.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use kith_proto::message::v1::{ReactRequest, UnreactRequest, message_service_client::MessageServiceClient};
use rand::{Rng as _, rngs::SmallRng, seq::IndexedRandom as _};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{REFUSED, ReactedGroup, ReactionRow, Workload, ender::erase};
use crate::faults::{answered::call, calls::failed};

const KINDS: [&str; 5] = ["👍", "❤️", "😂", "party", "yes"];
/// A call whose outcome is open may still take effect this long after it was given up.
const LATE: Duration = Duration::from_secs(15);

/// A user who reacts. No other task changes its reactions.
#[derive(Debug)]
pub(super) struct Reactor {
    state: Arc<Workload>,
    group: ReactedGroup,
    user: i64,
    random: SmallRng,
    /// The acknowledged reactions.
    own: BTreeSet<ReactionRow>,
    /// Reactions of which an attempt may still take effect: they do not change any more.
    settled: BTreeSet<ReactionRow>,
}

impl Reactor {
    pub(super) fn new(state: &Arc<Workload>, group: &ReactedGroup, user: i64) -> Self {
        let (random, own, settled) = (state.random(user), BTreeSet::new(), BTreeSet::new());
        Self { state: Arc::clone(state), group: group.clone(), user, random, own, settled }
    }

    /// Reacts until the faults have ended; the user whose messages are erased stops at half of the changes.
    /// Returns the reactions that must be there if their messages are.
    pub(super) async fn work(mut self) -> Result<BTreeSet<ReactionRow>> {
        let is_erased = self.user == self.group.erased_user();
        let progress = &Arc::clone(&self.state).progress;
        let is_half = || 2 * progress.done() > progress.goal();
        while !(progress.is_ended() || is_erased && is_half()) {
            self.change().await?;
        }
        if is_erased {
            sleep(LATE).await;
            erase(&self.state, &self.group).await?;
            return Ok(BTreeSet::new());
        }
        Ok(self.own)
    }

    /// Adds a reaction, or takes it back if it is there.
    async fn change(&mut self) -> Result<()> {
        let row = self.row()?;
        if self.settled.contains(&row) {
            return Ok(());
        }
        let ReactionRow { conversation: conversation_id, seq, user: user_id, kind } = row.clone();
        let first = self.random.random_range(0..self.state.nodes.len());
        let (changed, attempts) = if self.own.contains(&row) {
            let request = UnreactRequest { user_id, conversation_id, seq, kind };
            let (undone, attempts) =
                self.state.call(first, request, call!(MessageServiceClient::unreact)).await;
            (undone.map(drop), attempts)
        } else {
            let request = ReactRequest { user_id, conversation_id, seq, kind };
            let (added, attempts) = self.state.call(first, request, call!(MessageServiceClient::react)).await;
            (added.map(drop), attempts)
        };
        if attempts > 1 {
            self.settled.insert(row.clone());
        }
        match changed {
            Ok(()) => {
                if !self.own.remove(&row) {
                    self.own.insert(row);
                }
                self.state.progress.add(1);
            }
            Err(status) => self.note_refusal(&row, &status),
        }
        Ok(())
    }

    fn row(&mut self) -> Result<ReactionRow> {
        let message = self.group.messages.choose(&mut self.random).context("there are messages")?;
        let kind = KINDS[self.random.random_range(0..KINDS.len())].to_owned();
        Ok(ReactionRow {
            conversation: self.group.conversation.clone(),
            seq: message.seq,
            user: self.user,
            kind,
        })
    }

    /// A message that ends refuses reactions, and no other message does.
    fn note_refusal(&self, row: &ReactionRow, status: &Status) {
        let is_ending = self.group.ending.lock().contains(&row.seq);
        if is_ending && status.code() == Code::FailedPrecondition {
            return;
        }
        self.state.fail(&failed(status, false).0);
        self.state.add_violation(REFUSED, || format!("{row:?}: {status}"));
    }
}
