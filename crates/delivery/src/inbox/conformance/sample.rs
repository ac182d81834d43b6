//! The keeper under test, with shorthands for its calls. A failed call, or a wake that does not arrive in
//! time, fails the case.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{ConversationId, NodeName, Seq, Timestamp, UserId};
use tokio::time::timeout;

use crate::{
    Entry, FanOutResult, Generation, InboxKeeper, Mark, MarkOutcome, Marks, OpenedInbox, Position, ReadFrom,
    ReadOutcome, SentMessages, WakeEvent, WakeSubscription,
};

/// Bound on everything that is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// An inbox keeper, and what it can be made to lose.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The keeper under test.
    pub keeper: Arc<dyn InboxKeeper>,
    /// Makes the keeper lose data.
    pub faults: Arc<dyn Faults>,
}

/// Which part of an inbox is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Loses the entries.
    Stream,
    /// Loses the marks.
    Hash,
    /// Loses the whole inbox.
    Both,
}

/// Makes a keeper lose inboxes.
#[async_trait]
pub trait Faults: Send + Sync + std::fmt::Debug {
    /// Loses part of a user's inbox, or all where a keeper has no parts.
    async fn lose(&self, user: UserId, part: Part);
}

pub(super) fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

pub(super) fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

pub(super) fn log(id: &str) -> ConversationId {
    id.parse().unwrap()
}

pub(super) fn range(id: &str, first: Seq, last: Seq) -> Entry {
    Entry::Range { conversation: log(id), first: Some(first), last }
}

pub(super) fn all(id: &str, last: Seq) -> Entry {
    Entry::Range { conversation: log(id), first: None, last }
}

pub(super) fn sent(id: &str, last: Seq) -> SentMessages {
    SentMessages { conversation: log(id), last, sent: Timestamp(1_790_000_000_000), entries: Vec::new() }
}

impl Subject {
    pub(super) async fn open(&self, name: &str, id: i64) -> OpenedInbox {
        self.keeper.open(&node(name), &[user(id)]).await.remove(0).unwrap()
    }

    /// Opens an inbox whose conversations have these marks.
    pub(super) async fn begin(&self, name: &str, id: i64, ends: &[(&str, Seq)]) -> Generation {
        let opened = self.open(name, id).await;
        self.marks(id, opened.generation, ends, true).await;
        opened.generation
    }

    /// A fan-out that all inboxes answer.
    pub(super) async fn fan(&self, conversation: &str, last: Seq, ids: &[i64]) -> FanOutResult {
        let users: Vec<UserId> = ids.iter().map(|id| user(*id)).collect();
        let fanned = self.keeper.fan_out(&sent(conversation, last), &users).await;
        assert_eq!(fanned.failed, None);
        fanned
    }

    pub(super) async fn mark(
        &self,
        id: i64,
        generation: Generation,
        ends: &[(&str, Seq)],
        complete: bool,
    ) -> MarkOutcome {
        let mark = |(id, end): &(&str, Seq)| Mark { conversation: log(id), end: *end };
        let marks: Vec<Mark> = ends.iter().map(mark).collect();
        self.keeper.mark(user(id), generation, &marks, complete).await.unwrap()
    }

    /// Like [`Self::mark`], in a generation that goes on.
    pub(super) async fn marks(
        &self,
        id: i64,
        generation: Generation,
        ends: &[(&str, Seq)],
        complete: bool,
    ) -> Marks {
        match self.mark(id, generation, ends, complete).await {
            MarkOutcome::Marks(marks) => marks,
            MarkOutcome::Reset => panic!("the generation has ended"),
        }
    }

    pub(super) async fn read(
        &self,
        id: i64,
        generation: Generation,
        after: Position,
        most: usize,
    ) -> ReadOutcome {
        let from = ReadFrom { user: user(id), generation, after };
        self.keeper.read(&[from], most).await.remove(0).unwrap()
    }

    /// The entries after a position, which a receiver can read.
    pub(super) async fn entries(&self, id: i64, generation: Generation, after: Position) -> Vec<Entry> {
        let ReadOutcome::Entries(entries) = self.read(id, generation, after, 1_000).await else {
            panic!("no receiver can continue at {after}");
        };
        let positions: Vec<Position> = entries.iter().map(|(position, _)| *position).collect();
        let count = Position::try_from(entries.len()).unwrap();
        assert_eq!(positions, (after + 1..=after + count).collect::<Vec<_>>());
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    /// A node's wakes, from now on.
    pub(super) async fn wakes(&self, name: &str) -> Box<dyn WakeSubscription> {
        let mut wakes = self.keeper.subscribe(&node(name));
        assert_eq!(next_event(&mut *wakes).await, WakeEvent::Interrupted, "what was before may be lost");
        wakes
    }
}

pub(super) async fn next_event(wakes: &mut dyn WakeSubscription) -> WakeEvent {
    timeout(PATIENCE, wakes.next()).await.expect("a wake comes")
}
