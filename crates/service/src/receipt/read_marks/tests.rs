//! Copies of marks over a store that counts its reads.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use futures::future::join_all;
use kith_store::{
    Applied, DialogList, DialogMark, DialogPatch, DialogPosition, MarkBase, Outcome, Seq, Timestamp, Write,
};
use tokio::sync::Semaphore;

use super::*;
use crate::sample::{partial, unavailable};

/// A store in which every user has read up to the same number.
#[derive(Debug)]
struct Stored {
    read_seq: AtomicI64,
    /// Dialogs that were read.
    reads: AtomicUsize,
    is_away: AtomicBool,
    /// Reads wait for one of these.
    permits: Semaphore,
}

partial! {
    DialogStore for Stored {
        async fn dialogs(&self, keys: &[DialogKey]) -> Result<Vec<Dialog>, StoreError> {
            self.permits.acquire().await.unwrap().forget();
            if self.is_away.load(Ordering::Relaxed) {
                return Err(unavailable(Outcome::NotApplied));
            }
            self.reads.fetch_add(keys.len(), Ordering::Relaxed);
            let read = ReadRanges::new(self.read_seq.load(Ordering::Relaxed), Vec::new()).unwrap();
            Ok(keys.iter().map(|key| Dialog { read: read.clone(), ..Dialog::absent(*key) }).collect())
        }
    }
    fn dialog_list(UserId, DialogList, Option<DialogPosition>, usize) -> Result<Vec<Dialog>, StoreError>;
    fn dialog_conversations(UserId, Option<ConversationId>, usize) -> Result<Vec<ConversationId>, StoreError>;
    fn mark_dialogs(&[DialogMark], Timestamp) -> Result<Vec<Result<MarkBase, StoreError>>, StoreError>;
    fn change_dialog(DialogKey, DialogPatch, Write) -> Result<Applied<Dialog>, StoreError>;
    fn make_dialogs(&[DialogKey], Timestamp) -> Result<(), StoreError>;
    fn reduce_dialogs(UserId, &[(ConversationId, Seq)], Timestamp) -> Result<(), StoreError>;
}

fn over(permits: usize) -> (Arc<Stored>, ReadMarks) {
    let store = Arc::new(Stored {
        read_seq: AtomicI64::new(1),
        reads: AtomicUsize::new(0),
        is_away: AtomicBool::new(false),
        permits: Semaphore::new(permits),
    });
    let marks = ReadMarks::new(Arc::<Stored>::clone(&store), ReceiptsConfig::default());
    (store, marks)
}

impl Stored {
    fn set(&self, read_seq: Seq) {
        self.read_seq.store(read_seq, Ordering::Relaxed);
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }
}

fn group() -> ConversationId {
    "g9".parse().unwrap()
}

/// Users with these ordinals.
fn users(ordinals: std::ops::Range<usize>) -> Vec<(usize, UserId)> {
    ordinals.map(|at| (at, UserId::new(i64::try_from(at + 1).unwrap()).unwrap())).collect()
}

async fn read_seq(marks: &ReadMarks, count: usize, is_fresh: bool) -> Seq {
    let found = marks.of(group(), users(0..count), is_fresh).await.unwrap();
    let seqs = (1..).take_while(|seq| found.have_read(*seq)(count - 1));
    seqs.last().unwrap_or_default()
}

const MANY: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn marks_are_kept_for_a_second() {
    let (store, marks) = over(MANY);
    assert_eq!(read_seq(&marks, 3, false).await, 1);
    store.set(2);
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!((read_seq(&marks, 3, false).await, store.reads()), (1, 3));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!((read_seq(&marks, 3, false).await, store.reads()), (2, 6));
}

#[tokio::test(start_paused = true)]
async fn only_users_that_are_not_kept_are_read() {
    let (store, marks) = over(MANY);
    marks.of(group(), users(0..3), false).await.unwrap();
    let found = marks.of(group(), users(2..5), false).await.unwrap();
    assert_eq!((found.len(), store.reads()), (5, 5));
    // Their age is that of the first of them.
    tokio::time::advance(Duration::from_secs(1)).await;
    let found = marks.of(group(), users(4..5), false).await.unwrap();
    assert_eq!((found.len(), store.reads()), (1, 6));
}

#[tokio::test(start_paused = true)]
async fn mark_of_this_node_drops_what_is_kept() {
    let (store, marks) = over(MANY);
    read_seq(&marks, 3, false).await;
    store.set(2);
    marks.forget("g8".parse().unwrap());
    assert_eq!(read_seq(&marks, 3, false).await, 1);
    marks.forget(group());
    assert_eq!(read_seq(&marks, 3, false).await, 2);
}

#[tokio::test(start_paused = true)]
async fn read_begun_before_a_mark_is_not_kept() {
    let (store, marks) = over(0);
    let reader = marks.clone();
    let before = tokio::spawn(async move { read_seq(&reader, 3, false).await });
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    marks.forget(group());
    store.permits.add_permits(MANY);
    assert_eq!(before.await.unwrap(), 1);
    store.set(2);
    assert_eq!(read_seq(&marks, 3, false).await, 2);
}

#[tokio::test(start_paused = true)]
async fn large_conversation_is_kept_10_s_despite_marks() {
    let (store, marks) = over(MANY);
    let large = LARGE + 1;
    read_seq(&marks, large, false).await;
    store.set(2);
    marks.forget(group());
    tokio::time::advance(Duration::from_millis(9_999)).await;
    assert_eq!((read_seq(&marks, large, false).await, store.reads()), (1, large));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(read_seq(&marks, large, false).await, 2);
}

#[tokio::test(start_paused = true)]
async fn fresh_read_of_the_store_is_kept_for_others() {
    let (store, marks) = over(MANY);
    read_seq(&marks, 3, false).await;
    store.set(2);
    assert_eq!(read_seq(&marks, 3, true).await, 2);
    store.set(3);
    assert_eq!((read_seq(&marks, 3, false).await, store.reads()), (2, 6));
}

#[tokio::test(start_paused = true)]
async fn one_call_reads_for_all() {
    let (store, marks) = over(0);
    let calls = (0..20).map(|_| read_seq(&marks, 3, false));
    let (found, ()) = tokio::join!(join_all(calls), async {
        tokio::task::yield_now().await;
        store.permits.add_permits(MANY);
    });
    assert_eq!((found, store.reads()), (vec![1; 20], 3));
}

#[tokio::test(start_paused = true)]
async fn what_a_dropped_call_reads_is_kept() {
    let (store, marks) = over(0);
    let call = tokio::time::timeout(Duration::from_millis(10), marks.of(group(), users(0..3), false));
    assert!(call.await.is_err());
    store.permits.add_permits(MANY);
    assert_eq!((read_seq(&marks, 3, false).await, store.reads()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn failed_read_is_repeated_by_the_next_call() {
    let (store, marks) = over(MANY);
    store.is_away.store(true, Ordering::Relaxed);
    let failed = marks.of(group(), users(0..3), false).await.unwrap_err();
    assert_eq!(failed.reason(), crate::error::Reason::StoreUnavailable);
    store.is_away.store(false, Ordering::Relaxed);
    assert_eq!(read_seq(&marks, 3, false).await, 1);
}
