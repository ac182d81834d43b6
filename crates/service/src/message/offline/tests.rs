//! Entries and streams over logs in memory; time is virtual.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use futures::{FutureExt as _, StreamExt as _};
use kith_proto::message::v1::{OfflineMessage, WatchOfflineResponse};
use tokio::sync::Semaphore;

use super::{recipient_state::RecipientState, watch::OfflineStream, *};
use crate::{
    message::{
        fake_logs::FakeLogs,
        sample::{group, message, mutations, stored},
    },
    rpc::page_token::PageTokens,
    sample::users,
};

const KEPT: Duration = Duration::from_secs(86_400);

/// A conversation's entries: each number, and the named users.
pub(in crate::message) fn entered(logs: &FakeLogs, conversation: ConversationId) -> Vec<(Seq, Vec<i64>)> {
    let entries = logs.log(conversation.offline_log()).into_iter();
    let entries = entries.filter_map(|entry| entry::read(&entry.numbered(1)));
    entries.map(|entry| (entry.seq, entry.user_ids)).collect()
}

/// The states for users who have read and set nothing.
#[derive(Debug)]
struct FakeRecipientStates;

#[async_trait]
impl RecipientStates for FakeRecipientStates {
    async fn of(&self, _: ConversationId, users: &[UserId]) -> Result<Vec<RecipientState>, Error> {
        Ok(vec![RecipientState::default(); users.len()])
    }
}

/// Creates it over these logs. No user has read or set anything.
pub(in crate::message) fn over(store: &Arc<FakeLogs>) -> OfflineLogs {
    OfflineLogs::over(Arc::<FakeLogs>::clone(store), Arc::new(FakeRecipientStates), mutations(), KEPT)
}

fn sent(seq: Seq) -> Message {
    Message { sender: UserId::new(1).ok(), ..stored(seq, 1) }
}

#[tokio::test(start_paused = true)]
async fn entry_is_there_once() {
    let store = Arc::<FakeLogs>::default();
    let logs = over(&store);
    for absent in [&[2, 3][..], &[2], &[2, 3, 4]] {
        logs.enter(group(9), &[sent(7)], &AbsentRecipients::All(users(absent))).await.unwrap();
    }
    assert_eq!(entered(&store, group(9)), [(7, vec![2, 3])]);
    let silent = Message { silent: true, ..sent(8) };
    logs.enter(group(9), &[silent], &AbsentRecipients::All(users(&[2]))).await.unwrap();
    assert_eq!(entered(&store, group(9)).len(), 1);
}

async fn watch(logs: &OfflineLogs, cursor: &str) -> OfflineStream {
    let (tokens, permits) = (PageTokens::new([7; 32]), Arc::new(Semaphore::new(1)));
    let position = watch::position(&tokens, cursor).unwrap();
    logs.watch(position, tokens, permits.try_acquire_owned().unwrap()).await.unwrap()
}

async fn next(stream: &mut OfflineStream) -> WatchOfflineResponse {
    stream.next().await.unwrap().unwrap()
}

fn seqs(response: &WatchOfflineResponse) -> Vec<Seq> {
    response.messages.iter().map(|message| message.seq).collect()
}

/// Enters group messages with these numbers, all for one user.
async fn enter(logs: &OfflineLogs, id: i64, seqs: std::ops::RangeInclusive<Seq>) {
    let messages: Vec<Message> = seqs.map(sent).collect();
    logs.enter(group(id), &messages, &AbsentRecipients::All(users(&[2]))).await.unwrap();
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
        logs.enter(group(8), &[sent(seq)], &AbsentRecipients::All(many.clone())).await.unwrap();
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
