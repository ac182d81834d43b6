//! The model: all messages, and for each user the messages that it has read, those that it may read, and its
//! stays.

use std::collections::{BTreeMap, BTreeSet};

use kith_proto::message::v1::{Conversation, PullBySeqsRequest};
use kith_store::ConversationId;
use rand::{Rng as _, rngs::StdRng, seq::IndexedRandom as _};

use crate::{
    dialog_calls::{conversation, count, listed, reads},
    node::TestNode,
};

pub fn group_id(group: i64) -> String {
    format!("g{group}")
}

/// A message that was sent.
#[derive(Clone, Debug)]
pub struct SentMessage {
    pub sender: i64,
    pub silent: bool,
    pub mentions: Vec<i64>,
    pub mention_all: bool,
    pub recalled: bool,
    pub time: prost_types::Timestamp,
}

/// A stay in a group: its first message, and its last message after it has ended.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    pub from: i64,
    pub to: Option<i64>,
}

/// A user's state in a conversation.
#[derive(Clone, Debug, Default)]
pub struct UserDialog {
    pub stays: Vec<Stay>,
    pub read: BTreeSet<i64>,
    pub read_seq: i64,
    pub min: Option<i64>,
    pub max: Option<i64>,
    pub hidden: Option<i64>,
    pub pinned: bool,
}

/// A conversation's messages and users.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub messages: Vec<SentMessage>,
    pub min: i64,
    pub users: BTreeMap<i64, UserDialog>,
}

impl Log {
    /// Returns whether a service can recall the message with this number, and has not done so.
    pub fn is_whole(&self, seq: i64) -> bool {
        let message = usize::try_from(seq - 1).ok().and_then(|place| self.messages.get(place));
        seq >= self.min && message.is_some_and(|sent| sent.sender != 0 && !sent.recalled)
    }

    pub fn end(&self) -> i64 {
        i64::try_from(self.messages.len()).unwrap()
    }
}

impl UserDialog {
    pub fn is_member(&self) -> bool {
        self.stays.last().is_some_and(|stay| stay.to.is_none())
    }

    /// Returns the number, or the last number that the user may ever read if that is lower.
    pub fn seen(&self, seq: i64) -> i64 {
        let left = self.stays.last().and_then(|stay| stay.to);
        [Some(seq), left, self.max].into_iter().flatten().min().unwrap()
    }

    /// Marks the numbers that belong to the last stay.
    pub fn mark(&mut self, first: i64, last: i64) {
        let stay = *self.stays.last().unwrap();
        let last = last.min(stay.to.unwrap_or(i64::MAX));
        let first = first.max(stay.from);
        if first <= last {
            self.read.extend(first..=last);
            self.read_seq = self.read_seq.max(last);
        }
    }

    pub fn hide(&mut self, last: i64) {
        let stay = *self.stays.last().unwrap();
        let last = last.min(stay.to.unwrap_or(i64::MAX));
        if last >= stay.from {
            self.read_seq = self.read_seq.max(last);
        }
    }

    /// Returns the numbers in the stays that were passed and not read.
    fn skipped(&self) -> Vec<i64> {
        let of_stays =
            self.stays.iter().flat_map(|stay| stay.from..=stay.to.unwrap_or(i64::MAX).min(self.read_seq));
        of_stays.filter(|seq| *seq <= self.read_seq && !self.read.contains(seq)).collect()
    }
}

#[derive(Clone, Debug)]
pub struct Model {
    pub users: Vec<i64>,
    pub logs: BTreeMap<String, Log>,
}

impl Model {
    pub fn new(users: Vec<i64>) -> Self {
        Self { users, logs: BTreeMap::new() }
    }

    /// Creates a group with members from the first message on.
    pub fn found(&mut self, id: &str, members: &[i64]) {
        let kept = || UserDialog { stays: vec![Stay { from: 1, to: None }], ..UserDialog::default() };
        let users = members.iter().map(|user| (*user, kept())).collect();
        self.logs.insert(id.to_owned(), Log { users, ..Log::default() });
    }

    /// Reads the event that the last change to a group's members, or to a message, has posted.
    pub async fn event(&mut self, node: &TestNode, id: &str) {
        let log = self.logs.get_mut(id).unwrap();
        let request = PullBySeqsRequest {
            conversation_id: id.to_owned(),
            seqs: vec![log.end() + 1],
            ..Default::default()
        };
        let found = node.messages().pull_by_seqs(request).await.unwrap().into_inner().messages.remove(0);
        assert!(found.event.is_some(), "{found:?}");
        let (mentions, time) = (Vec::new(), found.send_time.unwrap());
        let (sender, silent, mention_all, recalled) = (0, true, false, false);
        log.messages.push(SentMessage { sender, silent, mentions, mention_all, recalled, time });
    }

    /// Creates a direct conversation: each user has a single stay.
    pub fn direct(&mut self, id: &str, users: &[i64]) {
        self.found(id, users);
    }

    pub fn any_user(&self, random: &mut StdRng) -> i64 {
        *self.users.choose(random).unwrap()
    }

    pub fn any_log(&self, random: &mut StdRng) -> String {
        self.logs.keys().nth(random.random_range(0..self.logs.len())).unwrap().clone()
    }

    /// Returns the lowest and the highest number that a user may read; `None`: it may read nothing.
    pub fn range(&self, user: i64, id: &str) -> Option<(i64, i64)> {
        let log = &self.logs[id];
        let kept = log.users.get(&user)?;
        let stay = kept.stays.last()?;
        let from = if id.starts_with('g') { stay.from } else { 1 };
        if stay.to.is_some_and(|to| to < from) {
            return None;
        }
        let min = from.max(log.min).max(kept.min.unwrap_or(1));
        let max = [stay.to, kept.max].into_iter().flatten().fold(log.end(), i64::min);
        Some((min, max))
    }

    /// Returns the unread messages' numbers in rising order.
    fn unread(&self, user: i64, id: &str) -> Vec<i64> {
        let Some((min, max)) = self.range(user, id) else { return Vec::new() };
        let log = &self.logs[id];
        let counts = |(seq, sent): (i64, &SentMessage)| {
            let within = min <= seq && seq <= max && seq > log.users[&user].read_seq;
            (within && sent.sender != user && !sent.silent && !sent.recalled).then_some(seq)
        };
        (1..).zip(&log.messages).filter_map(counts).collect()
    }

    /// Returns whether a conversation is in a user's list.
    fn is_listed(&self, user: i64, id: &str) -> bool {
        let log = &self.logs[id];
        let Some(kept) = log.users.get(&user) else { return false };
        let is_there = if id.starts_with('g') { kept.is_member() } else { log.end() > 0 };
        is_there && kept.hidden.is_none_or(|hidden| log.end() > hidden)
    }

    fn listed(&self, user: i64) -> Vec<String> {
        let mut ids: Vec<_> = self.logs.keys().filter(|id| self.is_listed(user, id)).cloned().collect();
        let place = |id: &String| {
            let log = &self.logs[id];
            let time = log.messages.last().map(|sent| (sent.time.seconds, sent.time.nanos));
            let id: ConversationId = id.parse().unwrap();
            (!log.users[&user].pinned, std::cmp::Reverse(time), id)
        };
        ids.sort_by_key(place);
        ids
    }

    /// Compares everything that a user sees with the model.
    pub async fn check(&self, node: &TestNode, user: i64, context: &str) {
        let shown = listed(node, user).await;
        let ids: Vec<_> = shown.iter().map(|one| one.conversation_id.clone()).collect();
        assert_eq!(ids, self.listed(user), "{context}");
        for one in &shown {
            self.check_one(user, one, context);
        }
        self.check_counts(node, user, context).await;
        self.check_reads(node, user, context).await;
    }

    fn check_one(&self, user: i64, shown: &Conversation, context: &str) {
        let id = &shown.conversation_id;
        let (log, (min, max)) = (&self.logs[id], self.range(user, id).unwrap());
        let context = format!("{context}, {id} of {user}");
        let highest = if max < min { 0 } else { max };
        assert_eq!((shown.min_seq, shown.max_seq), (min, highest), "{context}");
        assert_eq!(shown.last_message.as_ref().map_or(0, |last| last.seq), highest, "{context}");
        let all = self.unread(user, id);
        let recent: Vec<i64> = all.iter().copied().filter(|seq| *seq > max - 100).collect();
        assert_eq!(shown.unread, i64::try_from(recent.len()).unwrap(), "{context}");
        assert!(shown.unread_more || recent.len() == all.len(), "{context}");
        let mentions = |seq: &&i64| {
            let sent = &log.messages[usize::try_from(**seq - 1).unwrap()];
            sent.mention_all || sent.mentions.contains(&user)
        };
        assert_eq!(shown.first_mention_seq, recent.iter().find(mentions).copied().unwrap_or(0), "{context}");
        assert_eq!(
            (shown.read_seq, shown.pinned),
            (log.users[&user].read_seq, log.users[&user].pinned),
            "{context}"
        );
    }

    async fn check_counts(&self, node: &TestNode, user: i64, context: &str) {
        let ids: Vec<&str> = self.logs.keys().map(String::as_str).collect();
        let expected = |id: &&str| {
            let unread = i64::try_from(self.unread(user, id).len()).unwrap();
            (unread > 0).then(|| ((*id).to_owned(), unread))
        };
        let counted = count(node, user, &ids).await;
        let of_each: Vec<_> =
            counted.counts.iter().map(|one| (one.conversation_id.clone(), one.unread)).collect();
        assert_eq!(of_each, ids.iter().filter_map(expected).collect::<Vec<_>>(), "{context}, of {user}");
        let listed = self.listed(user);
        let total: usize = listed.iter().map(|id| self.unread(user, id).len()).sum();
        let counted = count(node, user, &[]).await;
        assert_eq!(counted.total, i64::try_from(total).unwrap(), "{context}, total of {user}");
    }

    async fn check_reads(&self, node: &TestNode, user: i64, context: &str) {
        let ids: Vec<&str> = self.logs.keys().map(String::as_str).collect();
        for (id, read) in ids.iter().zip(reads(node, user, &ids).await) {
            let context = format!("{context}, {id} of {user}");
            let Some((min, _)) = self.range(user, id) else {
                assert_eq!(read, Err("NOT_FOUND".to_owned()), "{context}");
                continue;
            };
            let (read, kept) = (read.unwrap(), &self.logs[*id].users[&user]);
            let skipped: Vec<i64> =
                read.unread_ranges.iter().flat_map(|range| range.first..=range.last).collect();
            assert_eq!((read.read_seq, skipped), (kept.read_seq, kept.skipped()), "{context}");
            assert_eq!(conversation(node, user, id).await.unwrap().min_seq, min, "{context}");
        }
    }
}
