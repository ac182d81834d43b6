//! Entries and streams over logs in memory; time is virtual.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _};
use kith_cache::Node;
use kith_proto::message::v1::{OfflineMessage, WatchOfflineResponse};
use kith_store::{
    Appended, Changed, DocumentKey, LogDocument, LogEnd, LogHead, MessageChange, Outcome, StoreError,
    StoredHeader,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{standing::Standing, watch::OfflineStream, *};
use crate::{
    message::sample::{group, message, stored},
    rpc::page_token::PageTokens,
    write::mutations::WriteLimits,
};

const KEPT: Duration = Duration::from_secs(86_400);

/// Logs in memory, some of which have lost their first messages.
#[derive(Debug, Default)]
pub(in crate::message) struct FakeLogs {
    logs: Mutex<HashMap<ConversationId, Vec<NewMessage>>>,
    trimmed: Mutex<HashMap<ConversationId, Seq>>,
    pub(in crate::message) is_away: AtomicBool,
}

impl FakeLogs {
    /// Adds messages of users, which get the next numbers.
    pub(in crate::message) fn fill(&self, conversation: ConversationId, messages: &[NewMessage]) {
        self.logs.lock().entry(conversation).or_default().extend_from_slice(messages);
    }

    /// The entries of a conversation: each number, and the named users.
    pub(in crate::message) fn entered(&self, conversation: ConversationId) -> Vec<(Seq, Vec<i64>)> {
        let logs = self.logs.lock();
        let entries = logs.get(&conversation.offline_log()).cloned().unwrap_or_default();
        let entries = entries.into_iter().filter_map(|entry| entry::read(&entry.numbered(1)));
        entries.map(|entry| (entry.seq, entry.user_ids)).collect()
    }

    fn all(&self, conversation: ConversationId) -> Vec<Message> {
        let logs = self.logs.lock();
        let all = logs.get(&conversation).cloned().unwrap_or_default();
        (1..).zip(all).map(|(seq, message)| message.numbered(seq)).collect()
    }

    fn available(&self) -> Result<(), StoreError> {
        if self.is_away.load(Ordering::Relaxed) {
            let source = Arc::new(std::io::Error::other("away"));
            return Err(StoreError::Unavailable { outcome: Outcome::NotApplied, source });
        }
        Ok(())
    }
}

#[async_trait]
impl MessageStore for FakeLogs {
    async fn append(
        &self,
        conversation: ConversationId,
        batch: &[NewMessage],
    ) -> Result<Vec<Appended>, StoreError> {
        self.available()?;
        let mut logs = self.logs.lock();
        let log = logs.entry(conversation).or_default();
        let mut appended = Vec::with_capacity(batch.len());
        for new in batch {
            appended.push(match (1..).zip(&*log).find(|(_, old)| old.key == new.key) {
                Some((_, old)) if old.hash != new.hash => Appended::OtherContent,
                Some((seq, old)) => Appended::Replayed { seq, sent: old.sent },
                None => {
                    log.push(new.clone());
                    Appended::New(Seq::try_from(log.len()).unwrap())
                }
            });
        }
        Ok(appended)
    }

    async fn messages(
        &self,
        conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Message>, StoreError> {
        self.available()?;
        let first = first.max(self.trimmed.lock().get(&conversation).map_or(1, |trimmed| trimmed + 1));
        let is_asked = |message: &Message| (first..=last).contains(&message.seq);
        Ok(self.all(conversation).into_iter().filter(is_asked).collect())
    }

    async fn ends(&self, conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        self.available()?;
        let end =
            |log: &ConversationId| LogEnd { seq: Seq::try_from(self.all(*log).len()).unwrap(), sent: None };
        Ok(conversations.iter().map(end).collect())
    }

    async fn seq_at(&self, conversation: ConversationId, time: Timestamp) -> Result<Seq, StoreError> {
        let all = self.all(conversation);
        let end = Seq::try_from(all.len()).unwrap();
        Ok(all.into_iter().find(|message| message.sent >= time).map_or(end + 1, |message| message.seq))
    }

    async fn document(&self, _: DocumentKey) -> Result<Option<LogDocument>, StoreError> {
        unreachable!("messages are read")
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        unreachable!("messages are read")
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        unreachable!("messages are read")
    }

    async fn strong_end(&self, _: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("messages are read")
    }

    async fn change(&self, _: ConversationId, _: &MessageChange) -> Result<Changed, StoreError> {
        unreachable!("nothing is changed")
    }
}

/// Standings of users who have read and set nothing, with exceptions.
#[derive(Debug, Default)]
struct FakeStandings(HashMap<UserId, Standing>);

#[async_trait]
impl Standings for FakeStandings {
    async fn of(&self, _: ConversationId, users: &[UserId]) -> Result<Vec<Standing>, Error> {
        Ok(users.iter().map(|user| self.0.get(user).copied().unwrap_or_default()).collect())
    }
}

/// Over these logs. No user has read or set anything.
pub(in crate::message) fn over(store: &Arc<FakeLogs>) -> OfflineLogs {
    with(store, FakeStandings::default())
}

fn with(store: &Arc<FakeLogs>, standings: FakeStandings) -> OfflineLogs {
    let limits = WriteLimits { at_once: 8, wait: KEPT, takes: KEPT, answer: KEPT };
    let mutations = Mutations::new(Node::local(1), &limits);
    OfflineLogs::over(Arc::<FakeLogs>::clone(store), Arc::new(standings), mutations, KEPT)
}

fn users(ids: &[i64]) -> Vec<UserId> {
    ids.iter().map(|id| UserId::new(*id).unwrap()).collect()
}

fn sent_by(seq: Seq, sender: i64, mentions: &[i64]) -> Message {
    Message { sender: UserId::new(sender).ok(), mentions: users(mentions), ..stored(seq, 1) }
}

/// The users who are named for a message, and the mentioned ones of them.
fn named(message: &Message, absent: &Absent, known: &[(i64, Seq, bool)]) -> Option<(Vec<i64>, Vec<i64>)> {
    let standing = |(id, read_seq, do_not_disturb): &(i64, Seq, bool)| {
        (UserId::new(*id).unwrap(), Standing { read_seq: *read_seq, do_not_disturb: *do_not_disturb })
    };
    let known: Vec<_> = known.iter().map(standing).collect();
    let entry = entry::of(group(9), message, absent, &known)?;
    let entry = entry::read(&entry.numbered(1)).unwrap();
    Some((entry.user_ids, entry.mentioned_user_ids))
}

#[test]
fn sender_and_readers_are_left_out() {
    let absent = Absent::All(users(&[1, 2, 3, 4]));
    let known = [(4, 0, false), (1, 0, false), (2, 7, false), (3, 6, false)];
    assert_eq!(named(&sent_by(7, 1, &[]), &absent, &known), Some((vec![3, 4], vec![])));
    assert_eq!(named(&sent_by(7, 1, &[1, 2]), &absent, &known), Some((vec![3, 4], vec![])));
    assert_eq!(named(&sent_by(7, 4, &[]), &absent, &[(4, 0, false)]), None, "no user is left");
}

#[test]
fn do_not_disturb_yields_to_a_mention() {
    let absent = Absent::All(users(&[2, 3]));
    let known = [(2, 0, true), (3, 0, true)];
    assert_eq!(named(&sent_by(7, 1, &[3]), &absent, &known), Some((vec![3], vec![3])));
    let all = Message { mention_all: true, ..sent_by(7, 1, &[]) };
    assert_eq!(named(&all, &absent, &known), None);
}

#[test]
fn large_groups_name_only_mentioned_users() {
    let absent = Absent::Mentioned(users(&[2, 3]));
    let known = [(2, 0, false), (3, 0, false)];
    assert_eq!(named(&sent_by(7, 1, &[3]), &absent, &known), Some((vec![3], vec![3])));
    assert_eq!(named(&sent_by(8, 1, &[]), &absent, &known), None);
}

#[tokio::test(start_paused = true)]
async fn entry_is_there_once() {
    let store = Arc::<FakeLogs>::default();
    let logs = over(&store);
    for absent in [&[2, 3][..], &[2], &[2, 3, 4]] {
        logs.enter(group(9), &[sent_by(7, 1, &[])], &Absent::All(users(absent))).await.unwrap();
    }
    assert_eq!(store.entered(group(9)), [(7, vec![2, 3])]);
    let silent = Message { silent: true, ..sent_by(8, 1, &[]) };
    logs.enter(group(9), &[silent], &Absent::All(users(&[2]))).await.unwrap();
    assert_eq!(store.entered(group(9)).len(), 1);
}

async fn watch(logs: &OfflineLogs, cursor: &str) -> OfflineStream {
    let (tokens, places) = (PageTokens::new([7; 32]), Arc::new(Semaphore::new(1)));
    let place = watch::place(&tokens, cursor).unwrap();
    logs.watch(place, tokens, places.try_acquire_owned().unwrap()).await.unwrap()
}

async fn next(stream: &mut OfflineStream) -> WatchOfflineResponse {
    stream.next().await.unwrap().unwrap()
}

fn seqs(response: &WatchOfflineResponse) -> Vec<Seq> {
    response.messages.iter().map(|message| message.seq).collect()
}

/// Enters messages of a group with these numbers, all for one user.
async fn enter(logs: &OfflineLogs, id: i64, seqs: std::ops::RangeInclusive<Seq>) {
    let messages: Vec<Message> = seqs.map(|seq| sent_by(seq, 1, &[])).collect();
    logs.enter(group(id), &messages, &Absent::All(users(&[2]))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stream_without_a_cursor_begins_now() {
    let store = Arc::<FakeLogs>::default();
    let logs = over(&store);
    enter(&logs, 9, 1..=3).await;
    let mut stream = watch(&logs, "").await;
    let first = next(&mut stream).await;
    assert_eq!((seqs(&first), first.missed), (vec![], false));
    assert!(stream.next().now_or_never().is_none(), "nothing new");
    enter(&logs, 9, 4..=4).await;
    assert_eq!(seqs(&next(&mut stream).await), [4]);
    assert_eq!(seqs(&next(&mut watch(&logs, &first.cursor).await).await), [4]);
}

#[tokio::test(start_paused = true)]
async fn entries_of_other_nodes_are_found() {
    let store = Arc::<FakeLogs>::default();
    let (here, there) = (over(&store), over(&store));
    let mut stream = watch(&here, "").await;
    next(&mut stream).await;
    let began = tokio::time::Instant::now();
    let (response, ()) = tokio::join!(next(&mut stream), enter(&there, 9, 1..=1));
    assert_eq!(seqs(&response), [1]);
    assert!(began.elapsed() <= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn stream_outlives_an_absence_of_the_store() {
    let store = Arc::<FakeLogs>::default();
    let logs = over(&store);
    let mut stream = watch(&logs, "").await;
    next(&mut stream).await;
    store.is_away.store(true, Ordering::Relaxed);
    assert!(tokio::time::timeout(Duration::from_secs(2), stream.next()).await.is_err(), "it waits");
    store.is_away.store(false, Ordering::Relaxed);
    enter(&logs, 9, 1..=1).await;
    assert_eq!(seqs(&next(&mut stream).await), [1]);
    store.is_away.store(true, Ordering::Relaxed);
    assert_eq!(stream.next().await.unwrap().unwrap_err().code(), tonic::Code::Unavailable);
    assert!(stream.next().await.is_none(), "the error is its end");
}

#[tokio::test(start_paused = true)]
async fn removed_entries_are_missed() {
    let store = Arc::<FakeLogs>::default();
    let logs = over(&store);
    let begin = next(&mut watch(&logs, "").await).await.cursor;
    let old = |seq: Seq| NewMessage { sent: Timestamp(0), ..message(&format!("old{seq}"), 1) };
    store.fill(group(9).offline_log(), &(1..=200).map(old).collect::<Vec<_>>());
    enter(&logs, 9, 1..=5).await;
    for trimmed in [50, 100, 150, 200] {
        store.trimmed.lock().insert(group(9).offline_log(), trimmed);
        let mut stream = watch(&logs, &begin).await;
        let mut all = Vec::new();
        let mut missed = false;
        while all.len() < 5 {
            let response = next(&mut stream).await;
            missed |= response.missed;
            all.extend(seqs(&response).into_iter().filter(|seq| *seq > 0));
        }
        assert_eq!((all, missed), (vec![1, 2, 3, 4, 5], true), "{trimmed}");
    }
}

#[tokio::test(start_paused = true)]
async fn log_that_was_set_back_is_missed() {
    let store = Arc::<FakeLogs>::default();
    let logs = over(&store);
    enter(&logs, 9, 1..=5).await;
    let cursor = next(&mut watch(&logs, "").await).await.cursor;
    store.logs.lock().clear();
    enter(&logs, 9, 1..=2).await;
    let mut stream = watch(&logs, &cursor).await;
    let response = next(&mut stream).await;
    assert_eq!((seqs(&response), response.missed), (vec![], true));
    enter(&logs, 9, 3..=3).await;
    assert_eq!(seqs(&next(&mut stream).await), [3]);
}

#[tokio::test(start_paused = true)]
async fn no_log_waits_for_another() {
    let store = Arc::<FakeLogs>::default();
    let logs = over(&store);
    let begin = next(&mut watch(&logs, "").await).await.cursor;
    let many = users(&(1_000_000_000_000..1_000_000_000_500).collect::<Vec<_>>());
    for seq in 1..=600 {
        logs.enter(group(8), &[sent_by(seq, 1, &[])], &Absent::All(many.clone())).await.unwrap();
    }
    enter(&logs, 9, 1..=1).await;
    let mut stream = watch(&logs, &begin).await;
    let is_of_other = |message: &OfflineMessage| message.conversation_id == "g9";
    for _ in 0..4 {
        if next(&mut stream).await.messages.iter().any(is_of_other) {
            return;
        }
    }
    panic!("a log that is always full is before the others");
}
