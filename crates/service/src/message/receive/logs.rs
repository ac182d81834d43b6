//! Groups that are too large for inboxes, or may soon be: the stream reads their conversations itself.
//!
//! When a stream begins to read a conversation, it marks the end in the inbox. So the inbox has everything up
//! to the mark, and the stream reads what is above it once it has all entries up to then. Entries that come
//! later are cut by what was sent, so a group may grow and shrink while messages are sent.
//!
//! A stream reads [`LOGS_MAX`] conversations in this way, since their numbers must fit into its cursor.
//! Further groups' messages are named as missed (`named_logs.rs`).

use std::{collections::HashMap, mem, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use kith_delivery::{Mark, MarkOutcome, Marks, Position};
use kith_store::{ConversationId, GroupId, Seq, UserId};

use super::{
    super::{AtLeast, deliver::LargeGroups},
    ReceiversInner,
    named_logs::NamedLogs,
    range::DueRange,
    receiver::{DueContent, DueDelivery, Receiver},
    waker::{FreshMessages, keep_newest},
};
use crate::error::Error;

/// The most conversations that a stream reads itself. Messages in others are named as missed.
const LOGS_MAX: usize = 64;
/// Rosters that are read at the same time.
const ROSTERS_AT_ONCE: usize = 16;

/// The conversations that a stream reads itself.
#[derive(Debug, Default)]
pub(super) struct TrackedLogs {
    all: HashMap<ConversationId, TrackedLog>,
    pub(super) named: NamedLogs,
    new_ends: Vec<FreshMessages>,
    /// Whether these conversations' list must be read.
    pub(super) must_track: bool,
}

#[derive(Clone, Copy, Debug)]
struct TrackedLog {
    /// The inbox has everything up to this number, in entries up to this position.
    base: Seq,
    base_at: Position,
    /// The highest number that was sent since; 0: none.
    sent: Seq,
}

impl TrackedLogs {
    /// Creates it without conversations; the list must be read.
    pub(super) fn unknown() -> Self {
        Self { must_track: true, ..Self::default() }
    }

    /// Messages were sent to these conversations.
    pub(super) fn add_ends(&mut self, logs: &[FreshMessages]) {
        logs.iter().for_each(|fresh| keep_newest(&mut self.new_ends, fresh));
    }

    pub(super) const fn has_new_ends(&self) -> bool {
        !self.new_ends.is_empty()
    }

    /// The number up to which the conversation is sent, or will be by inbox entries.
    pub(super) fn end(&self, conversation: ConversationId) -> Seq {
        let tracked = self.all.get(&conversation).map(|log| log.base.max(log.sent));
        tracked.or_else(|| self.named.up_to(conversation)).unwrap_or(Seq::MAX)
    }

    /// The number up to which the conversation was sent since the stream reads it; 0: nothing was.
    pub(super) fn sent_up_to(&self, conversation: ConversationId) -> Seq {
        let tracked = self.all.get(&conversation).map(|log| log.sent);
        tracked.or_else(|| self.named.up_to(conversation)).unwrap_or(0)
    }

    pub(super) fn sent(&mut self, conversation: ConversationId, seq: Seq) {
        match self.all.get_mut(&conversation) {
            Some(log) => log.sent = seq.max(log.sent),
            None => self.named.raise(conversation, seq),
        }
    }

    pub(super) fn all_sent(&self) -> impl Iterator<Item = (ConversationId, Seq)> {
        self.all.iter().map(|(conversation, log)| (*conversation, log.sent)).filter(|(_, sent)| *sent > 0)
    }

    fn add(&mut self, conversations: &[ConversationId], marks: &Marks) {
        for (conversation, mark) in conversations.iter().zip(&marks.marks) {
            let log = TrackedLog { base: *mark, base_at: marks.position, sent: 0 };
            self.all.insert(*conversation, log);
        }
    }

    /// Takes the ends of conversations for which the stream has all entries up to the base. `position`: the
    /// stream's position.
    fn take_ready(&mut self, position: Position) -> Vec<FreshMessages> {
        let (ready, waiting) = mem::take(&mut self.new_ends)
            .into_iter()
            .filter(|fresh| self.end(fresh.sent.conversation) < fresh.sent.last)
            .partition(|fresh| {
                self.all.get(&fresh.sent.conversation).is_none_or(|log| log.base_at <= position)
            });
        self.new_ends = waiting;
        ready
    }
}

impl Receiver {
    /// Determines the conversations that the stream must read itself, and begins with the new conversations.
    /// Failures are retried when the inbox is renewed.
    pub(super) async fn track_large_groups(&mut self) {
        self.logs.must_track = false;
        let begins_now = mem::take(&mut self.begins_now);
        let parts = Arc::clone(&self.parts);
        let _permit = parts.hub.start_permit().await;
        let Ok(large) = self.parts.large_groups(self.reader.user).await else { return };
        self.stop_tracking(&large);
        let room = LOGS_MAX.saturating_sub(self.logs.all.len());
        let is_new =
            |large: &ConversationId| !self.logs.all.contains_key(large) && !self.logs.named.contains(*large);
        let mut new: Vec<ConversationId> = large.into_iter().filter(is_new).collect();
        let others = new.split_off(room.min(new.len()));
        self.track(new, begins_now).await;
        self.name(others, begins_now).await;
    }

    /// Begins to read these conversations.
    async fn track(&mut self, new: Vec<ConversationId>, begins_now: bool) {
        if new.is_empty() {
            return;
        }
        match self.start_tracking(&new).await {
            Some(MarkOutcome::Marks(marks)) => {
                self.logs.add(&new, &marks);
                if begins_now {
                    self.position = marks.position.max(self.position);
                }
                self.live_at = self.live_at.map(|live_at| marks.position.max(live_at));
            }
            Some(MarkOutcome::Reset) => self.reset("lost"),
            None => self.registration.retain_logs(|kept| !new.contains(kept)),
        }
    }

    /// Ends the reads for conversations that are written to the inbox again. Its next entry has also what was
    /// sent without it.
    fn stop_tracking(&mut self, large: &[ConversationId]) {
        for (conversation, sent) in self.logs.all_sent().filter(|(known, _)| !large.contains(known)) {
            self.carried.insert(conversation, sent);
        }
        self.logs.all.retain(|known, _| large.contains(known));
        self.logs.named.retain(large);
        self.registration.retain_logs(|known| large.contains(known));
    }

    /// Registers at conversations, then marks their ends in the inbox: the node is notified about later
    /// messages. `None`: failed.
    async fn start_tracking(&mut self, conversations: &[ConversationId]) -> Option<MarkOutcome> {
        let parts = &self.parts;
        // The read brings the bounds into memory, where they are needed when the next message reaches all
        // members at once.
        parts.messages.seen_bounds(Some(self.reader.user), conversations).await.ok()?;
        self.registration.subscribe_logs(conversations);
        parts.keeper().register(&parts.inboxes().node, conversations).await.ok()?;
        let ends = parts.messages.logs.ends(conversations, &AtLeast::default()).await.ok()?;
        let ends = conversations.iter().zip(ends);
        let ends: Vec<Mark> =
            ends.map(|(conversation, end)| Mark { conversation: *conversation, end: end.seq }).collect();
        let marked = parts.keeper().mark(self.reader.user, self.generation, &ends, false).await.ok()?;
        if let MarkOutcome::Marks(marks) = &marked {
            parts.inboxes().publish(marks.wakes.clone());
        }
        Some(marked)
    }

    /// Takes these conversations' new messages. Inbox entries come first.
    pub(super) async fn queue_log_ranges(&mut self) {
        let ready = self.logs.take_ready(self.position);
        for fresh in ready {
            let (conversation, last) = (fresh.sent.conversation, fresh.sent.last);
            let is_named = self.logs.named.contains(conversation);
            let is_from_join = is_named && self.logs.end(conversation) == 0;
            let range = DueRange {
                conversation,
                first: (!is_from_join).then_some(1),
                last,
                from_log: true,
                pull_only: is_named,
                fresh: Some(fresh),
            };
            self.due.push_back(DueDelivery { content: DueContent::Range(Box::new(range)), position: None });
        }
        if self.due.is_empty() && self.logs.has_new_ends() {
            self.read().await;
        }
        // Redis does not answer: retried with the next event.
        if self.due.is_empty() {
            self.logs.new_ends.clear();
        }
    }
}

impl ReceiversInner {
    /// A user's group conversations where the group has more than half as many members as inboxes are written
    /// for. First come groups that are not written to inboxes now.
    async fn large_groups(&self, user: UserId) -> Result<Vec<ConversationId>, Error> {
        let groups: Vec<GroupId> = self.dialogs.groups_of(user).await?;
        let many = groups.into_iter().map(async |group| Ok((group, self.delivery.count(group).await?)));
        let counted: Vec<Result<(GroupId, u32), Error>> =
            stream::iter(many.collect::<Vec<_>>()).buffered(ROSTERS_AT_ONCE).collect().await;
        let counted = counted.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let most = self.config.fan_out_members_max;
        let large = counted.into_iter().filter(|(_, count)| *count > most / 2);
        let (mut first, others): (Vec<_>, Vec<_>) = large.partition(|(_, count)| *count > most);
        first.extend(others);
        Ok(first.into_iter().map(|(group, _)| ConversationId::Group(group)).collect())
    }
}

/// Serves dead nodes' receivers.
#[async_trait]
impl LargeGroups for ReceiversInner {
    async fn of(&self, user: UserId) -> Result<Vec<ConversationId>, Error> {
        self.large_groups(user).await
    }
}
