//! A user who reacts and takes reactions back.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use kith_proto::message::v1::{ReactRequest, UnreactRequest, message_service_client::MessageServiceClient};
use rand::{Rng as _, rngs::SmallRng, seq::IndexedRandom as _};
use tokio::time::sleep;
use tonic::{Code, Status};

use super::{REFUSED, ReactedGroup, ReactedState, ReactionRow, ender::erase};
use crate::faults::{answered::until_answered, calls::failed};

const KINDS: [&str; 5] = ["👍", "❤️", "😂", "party", "yes"];
/// A call whose outcome is open may still take effect this long after it was given up.
const LATE: Duration = Duration::from_secs(15);

/// A user who reacts. No other task changes its reactions.
#[derive(Debug)]
pub(super) struct Reactor {
    state: Arc<ReactedState>,
    group: ReactedGroup,
    user: i64,
    random: SmallRng,
    /// The acknowledged reactions.
    own: BTreeSet<ReactionRow>,
    /// Reactions of which an attempt may still take effect: they do not change any more.
    settled: BTreeSet<ReactionRow>,
}

impl Reactor {
    pub(super) fn new(state: &Arc<ReactedState>, group: &ReactedGroup, user: i64, random: SmallRng) -> Self {
        let (own, settled) = (BTreeSet::new(), BTreeSet::new());
        Self { state: Arc::clone(state), group: group.clone(), user, random, own, settled }
    }

    /// Reacts until there are enough changes; the user whose messages are erased stops at the half. Returns
    /// the reactions that must be there if their messages are.
    pub(super) async fn work(mut self) -> Result<BTreeSet<ReactionRow>> {
        let is_erased = self.user == self.group.erased_user();
        let share = if is_erased { 2 } else { 1 };
        while !self.state.progress.is_over()
            && share * self.state.progress.done() <= self.state.progress.goal()
        {
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
        let attempts = AtomicU32::new(0);
        let is_there = self.own.contains(&row);
        let changed =
            if is_there { self.unreact(&row, &attempts).await } else { self.react(&row, &attempts).await };
        if attempts.into_inner() > 1 {
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

    async fn react(&mut self, row: &ReactionRow, attempts: &AtomicU32) -> Result<(), Status> {
        let ReactionRow { conversation, seq, user, kind } = row.clone();
        let request = ReactRequest { user_id: user, conversation_id: conversation, seq, kind };
        let first = self.random.random_range(0..self.state.nodes.len());
        let reacted = until_answered(&self.state.nodes, first, request, |node, request| async move {
            attempts.fetch_add(1, Ordering::Relaxed);
            MessageServiceClient::new(node).react(request).await
        });
        reacted.await.map(drop)
    }

    async fn unreact(&mut self, row: &ReactionRow, attempts: &AtomicU32) -> Result<(), Status> {
        let ReactionRow { conversation, seq, user, kind } = row.clone();
        let request = UnreactRequest { user_id: user, conversation_id: conversation, seq, kind };
        let first = self.random.random_range(0..self.state.nodes.len());
        let taken_back = until_answered(&self.state.nodes, first, request, |node, request| async move {
            attempts.fetch_add(1, Ordering::Relaxed);
            MessageServiceClient::new(node).unreact(request).await
        });
        taken_back.await.map(drop)
    }

    /// A message that ends refuses reactions, and no other message does.
    fn note_refusal(&self, row: &ReactionRow, status: &Status) {
        let is_ending = self.state.ending.lock().contains(&(row.conversation.clone(), row.seq));
        if is_ending && status.code() == Code::FailedPrecondition {
            return;
        }
        self.state.failed.lock().add(&failed(status, false).0);
        self.state.violations.lock().add(REFUSED, || format!("{row:?}: {status}"));
    }
}
