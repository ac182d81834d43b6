//! Notifies message senders about their read counts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use futures::FutureExt as _;
use kith_cache::Consistency;
use kith_store::{ConversationId, Receipt, ReceiptVisibility, SeqRange, UserId};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use super::{ReceiptChanges, Receipts, changed_receipts::ReceiptChange};
use crate::{error::Error, message::Notes, metric::RECEIPT_NOTIFICATIONS, write::tasks::BackgroundJob};

/// How many of the newest messages are considered: those in windows, so that the store is not read for them.
const NEWEST_MAX: i64 = 100;
/// In larger groups senders must ask: a notification reads all members' marks from the store.
const MEMBERS_MAX: u32 = 500;
/// One sender's newest messages.
const OF_ONE_MAX: usize = 20;
/// Conversations that are processed at the same time.
const AT_ONCE: usize = 8;

/// Conversations with changes, in the order in which they are due.
#[derive(Debug, Default)]
struct DueConversations {
    seqs: HashMap<ConversationId, SeqRange>,
    order: VecDeque<(Instant, ConversationId)>,
}

/// The job that notifies group senders who receive, at most once in `receipts.notify_every` for each
/// conversation. It has no work if the configuration turns it off. Due notifications are not sent after it
/// has stopped.
#[must_use]
pub fn notifier_job(receipts: Receipts, notes: Notes, changes: ReceiptChanges) -> BackgroundJob {
    let is_on = !receipts.0.config.notify_every.is_zero() && receipts.0.messages.config.signals;
    BackgroundJob::new(is_on.then(|| run(receipts, notes, changes).boxed()))
}

async fn run(receipts: Receipts, notes: Notes, ReceiptChanges(mut changes): ReceiptChanges) {
    let (mut due, at_once) = (DueConversations::default(), Arc::new(Semaphore::new(AT_ONCE)));
    loop {
        let next = due.next();
        tokio::select! {
            change = changes.recv() => match change {
                Some(change) => due.add(change, Instant::now() + receipts.0.config.notify_every),
                None => return,
            },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                let Some((conversation, seqs)) = due.pop() else { continue };
                let Ok(permit) = Arc::clone(&at_once).acquire_owned().await else { return };
                let (receipts, notes) = (receipts.clone(), notes.clone());
                tokio::spawn(async move {
                    let sent = receipts.notify(&notes, conversation, seqs).await;
                    let outcome = if sent.is_ok() { "sent" } else { "failed" };
                    metrics::counter!(RECEIPT_NOTIFICATIONS.name, "outcome" => outcome).increment(1);
                    drop(permit);
                });
            }
        }
    }
}

impl Receipts {
    /// Notifies the newest messages' senders who receive about their read counts.
    async fn notify(&self, notes: &Notes, conversation: ConversationId, seqs: SeqRange) -> Result<(), Error> {
        if self.shown(conversation).await? == ReceiptVisibility::Off {
            return Ok(());
        }
        if self.is_large(conversation).await? {
            return Ok(());
        }
        let first = seqs.first.max(seqs.last - NEWEST_MAX + 1);
        let newest: Vec<_> = (first..=seqs.last).rev().collect();
        let visible = self.visible(None, conversation, &newest).await?;
        let senders: BTreeSet<_> =
            visible.messages.iter().flatten().filter_map(|message| message.sender).collect();
        let receiving = notes.receiving(&Vec::from_iter(senders)).await?;
        if receiving.is_empty() {
            return Ok(());
        }
        let inputs = self.with_marks(None, conversation, visible, false).await?;
        let mut of_senders: BTreeMap<UserId, Vec<Receipt>> = BTreeMap::new();
        for message in inputs.messages.iter().flatten() {
            let Some(sender) = message.sender.filter(|sender| receiving.contains_key(sender)) else {
                continue;
            };
            let receipts = of_senders.entry(sender).or_default();
            if receipts.len() < OF_ONE_MAX {
                receipts.push(inputs.receipt(*message));
            }
        }
        notes.receipts(conversation, &of_senders, &receiving);
        Ok(())
    }

    async fn is_large(&self, conversation: ConversationId) -> Result<bool, Error> {
        let ConversationId::Group(group) = conversation else { return Ok(false) };
        let members = &self.0.messages.dependencies.members;
        Ok(members.roster(group, &Consistency::Cached).await?.count > MEMBERS_MAX)
    }
}

impl DueConversations {
    /// Adds a change, which is due at this time unless the conversation has one already.
    fn add(&mut self, ReceiptChange { conversation, seqs }: ReceiptChange, then: Instant) {
        if let Some(known) = self.seqs.get_mut(&conversation) {
            known.first = known.first.min(seqs.first);
            known.last = known.last.max(seqs.last);
            return;
        }
        self.seqs.insert(conversation, seqs);
        self.order.push_back((then, conversation));
    }

    /// When the next notification is due.
    fn next(&self) -> Option<Instant> {
        self.order.front().map(|(then, _)| *then)
    }

    /// Takes the next notification.
    fn pop(&mut self) -> Option<(ConversationId, SeqRange)> {
        let (_, conversation) = self.order.pop_front()?;
        Some((conversation, self.seqs.remove(&conversation)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(conversation: &str, first: i64, last: i64) -> ReceiptChange {
        ReceiptChange { conversation: conversation.parse().unwrap(), seqs: SeqRange { first, last } }
    }

    #[test]
    fn changes_of_a_conversation_are_due_once() {
        let (mut due, now) = (DueConversations::default(), Instant::now());
        let later = now + std::time::Duration::from_secs(1);
        due.add(change("g9", 5, 7), now);
        due.add(change("g8", 1, 1), later);
        due.add(change("g9", 9, 9), later);
        due.add(change("g9", 3, 4), later);
        assert_eq!(due.next(), Some(now));
        assert_eq!(due.pop(), Some(("g9".parse().unwrap(), SeqRange { first: 3, last: 9 })));
        assert_eq!(due.pop(), Some(("g8".parse().unwrap(), SeqRange { first: 1, last: 1 })));
        assert_eq!((due.next(), due.pop()), (None, None));
        due.add(change("g9", 10, 10), later);
        assert_eq!(due.pop(), Some(("g9".parse().unwrap(), SeqRange { first: 10, last: 10 })));
    }
}
