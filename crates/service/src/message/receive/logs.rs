//! Groups that are too large for inboxes, or may soon be: the stream reads their conversations itself.
//!
//! When a stream begins to read a conversation, it marks the end in the inbox. So the inbox has everything up
//! to the mark, and the stream reads what is above it once it has all entries up to then. Entries that come
//! later are cut by what was sent, so a group may grow and shrink while messages are sent.
//!
//! A stream reads [`LOGS_MAX`] conversations in this way, since their numbers must fit into its cursor.
//! Further groups' messages are named as missed (`named_logs.rs`).

use std::{mem, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use kith_delivery::{Mark, MarkOutcome, SentMessages};
use kith_store::{ConversationId, GroupId, LogEnd, UserId};
use tokio::time::Instant;

use super::{
    super::{AtLeast, deliver::LargeGroups},
    ReceiversInner,
    range::DueRange,
    receiver::{DueContent, DueDelivery, Receiver},
    start::inboxes_unavailable,
    waker::FreshMessages,
};
use crate::error::Error;

/// The most conversations that a stream reads itself. Messages in others are named as missed.
const LOGS_MAX: usize = 64;
/// Rosters that are read at the same time.
const ROSTERS_AT_ONCE: usize = 16;

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

    /// Begins to name these conversations' messages. `begins_now`: only those that are sent from now on.
    /// Failures are retried when the inbox is renewed.
    async fn name(&mut self, mut new: Vec<ConversationId>, begins_now: bool) {
        self.logs.named.cut(&mut new);
        if new.is_empty() {
            return;
        }
        let Ok(ends) = self.register(&new).await else {
            return self.registration.retain_logs(|kept| !new.contains(kept));
        };
        for (conversation, end) in new.iter().zip(ends) {
            let up_to = if begins_now {
                end.seq
            } else {
                // A stream that catches up has sent the backlog up to these.
                self.floors.get(conversation).copied().filter(|_| self.catches_up).unwrap_or(0)
            };
            self.logs.named.add(*conversation, up_to);
            self.logs.add_ends(&[end_of(*conversation, end)]);
        }
        self.queue_log_ranges().await;
    }

    /// Registers at conversations, then reads their ends: the node is notified about later messages.
    async fn register(&mut self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, Error> {
        self.registration.subscribe_logs(conversations);
        let parts = &self.parts;
        let registered = parts.keeper().register(&parts.inboxes().node, conversations).await;
        registered.map_err(inboxes_unavailable)?;
        parts.messages.logs.ends(conversations, &AtLeast::default()).await
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

/// The messages up to a log's end, as a wake.
fn end_of(conversation: ConversationId, end: LogEnd) -> FreshMessages {
    let (last, sent) = (end.seq, end.sent.unwrap_or_default());
    let sent = SentMessages { conversation, last, sent, entries: Vec::new() };
    FreshMessages { sent: Arc::new(sent), received_at: Instant::now() }
}

/// Serves dead nodes' receivers.
#[async_trait]
impl LargeGroups for ReceiversInner {
    async fn of(&self, user: UserId) -> Result<Vec<ConversationId>, Error> {
        self.large_groups(user).await
    }
}
