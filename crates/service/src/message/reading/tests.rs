//! Which numbers a page has, and how much is read for it.

use async_trait::async_trait;
use kith_store::{
    Appended, Changed, LogEnd, LogHead, MessageChange, MessageStore, NewMessage, StoreError, StoredHeader,
};
use parking_lot::Mutex;

use super::{
    super::sample::{group, stored},
    *,
};

const ALL: Timestamp = Timestamp(i64::MIN);

fn range(min: Seq, max: Seq) -> Range {
    Range { min, max, since: ALL }
}

fn pull(from: Seq, to: Seq, limit: usize) -> Pull {
    Pull { conversation: group(9), from, to, limit, at_least: 0 }
}

fn back(before: Seq, limit: usize) -> Back {
    Back { conversation: group(9), before, limit, at_least: 0 }
}

#[test]
fn pull_is_cut_to_what_may_be_read() {
    let readable = range(11, 50);
    assert_eq!(pull(0, 0, 1_000).within(readable), (11, 50, false));
    assert_eq!(pull(1, 9_999, 1_000).within(readable), (11, 50, false));
    assert_eq!(pull(20, 30, 1_000).within(readable), (20, 30, false));
    assert_eq!(pull(20, 30, 11).within(readable), (20, 30, false));
    assert_eq!(pull(20, 30, 10).within(readable), (20, 29, true));
    assert_eq!(pull(0, 0, 7).within(readable), (11, 17, true));
    let (first, last, more) = pull(51, i64::MAX, 10).within(readable);
    assert!(last < first && !more, "beyond the end");
    let (first, last, more) = pull(i64::MAX, 0, 10).within(readable);
    assert!(last < first && !more);
    let (first, last, more) = pull(1, 10, 10).within(readable);
    assert!(last < first && !more, "below the range");
}

#[test]
fn history_goes_down_to_the_lowest_number() {
    let readable = range(11, 50);
    assert_eq!(back(0, 10).within(readable), (41, 50, true));
    assert_eq!(back(41, 10).within(readable), (31, 40, true));
    assert_eq!(back(21, 10).within(readable), (11, 20, false));
    assert_eq!(back(15, 10).within(readable), (11, 14, false));
    assert_eq!(back(i64::MAX, 10).within(readable), (41, 50, true));
    for (before, readable) in [(11, readable), (1, readable), (0, range(1, 0)), (0, range(51, 50))] {
        let (first, last, more) = back(before, 10).within(readable);
        assert!(last < first && !more, "{before}");
    }
}

#[test]
fn parts_are_those_of_documents() {
    assert_eq!(parts(1, 100), [(1, 100)]);
    assert_eq!(parts(100, 101), [(100, 100), (101, 101)]);
    assert_eq!(parts(95, 305), [(95, 100), (101, 200), (201, 300), (301, 305)]);
    assert_eq!(parts(7, 7), [(7, 7)]);
    assert_eq!(parts(8, 7), []);
}

/// A log of many messages of one size; it notes what is read.
#[derive(Debug)]
struct FakeLog {
    bytes: usize,
    reads: Mutex<Vec<(Seq, Seq)>>,
}

#[async_trait]
impl MessageStore for FakeLog {
    async fn append(
        &self,
        _conversation: ConversationId,
        _batch: &[NewMessage],
    ) -> Result<Vec<Appended>, StoreError> {
        unreachable!("nothing is appended")
    }

    async fn messages(
        &self,
        _conversation: ConversationId,
        first: Seq,
        last: Seq,
    ) -> Result<Vec<Message>, StoreError> {
        self.reads.lock().push((first, last));
        // Answers come later, so that reads that are ahead have begun.
        tokio::task::yield_now().await;
        Ok((first..=last).map(|seq| stored(seq, self.bytes)).collect())
    }

    async fn headers(&self, _: ConversationId, _: Seq, _: Seq) -> Result<Vec<StoredHeader>, StoreError> {
        Err(StoreError::Overloaded)
    }

    async fn heads(&self, _: &[(ConversationId, Seq)]) -> Result<Vec<LogHead>, StoreError> {
        Err(StoreError::Overloaded)
    }

    async fn ends(&self, _conversations: &[ConversationId]) -> Result<Vec<LogEnd>, StoreError> {
        unreachable!("the end is known")
    }

    async fn strong_end(&self, _conversation: ConversationId) -> Result<Seq, StoreError> {
        unreachable!("the end is known")
    }

    async fn seq_at(&self, _conversation: ConversationId, _time: Timestamp) -> Result<Seq, StoreError> {
        unreachable!("no time is asked")
    }

    async fn change(&self, _: ConversationId, _: &MessageChange) -> Result<Changed, StoreError> {
        unreachable!("nothing is changed")
    }
}

/// Numbers of what a page has, whether it was cut, and what was read for it.
async fn page(bytes: usize, order: Order, first: Seq, last: Seq) -> (Vec<Seq>, bool, Vec<(Seq, Seq)>) {
    let log = FakeLog { bytes, reads: Mutex::default() };
    let mut found = Found::new(range(1, 9_999));
    let parts = ordered(parts(first, last), order);
    let cut = read(&log, group(9), parts, order, |_| true, &mut found).await.unwrap();
    let seqs = found.messages.iter().map(|message| message.seq).collect();
    (seqs, cut, log.reads.into_inner())
}

#[tokio::test]
async fn page_within_a_document_reads_that_part_alone() {
    let (seqs, cut, reads) = page(10, Order::Rising, 120, 180).await;
    assert_eq!((seqs, cut), ((120..=180).collect(), false));
    assert_eq!(reads, [(120, 180)]);
}

#[tokio::test]
async fn page_of_1000_reads_11_documents() {
    let (seqs, cut, reads) = page(10, Order::Rising, 51, 1_050).await;
    assert_eq!((seqs, cut, reads.len()), ((51..=1_050).collect(), false, 11));
    let (seqs, cut, reads) = page(10, Order::Falling, 51, 1_050).await;
    assert_eq!((seqs, cut, reads.len()), ((51..=1_050).rev().collect(), false, 11));
}

#[tokio::test]
async fn cut_page_reads_one_document_more_at_most() {
    let sixteenth = PAGE_BYTES / 16;
    let (seqs, cut, reads) = page(sixteenth, Order::Rising, 91, 1_050).await;
    assert_eq!((seqs, cut), ((91..=105).collect(), true));
    assert_eq!(reads[..2], [(91, 100), (101, 200)]);
    assert!(reads.len() <= 3, "{reads:?}");
    let (seqs, cut, reads) = page(sixteenth, Order::Falling, 91, 1_010).await;
    assert_eq!((seqs, cut), ((996..=1_010).rev().collect(), true));
    assert_eq!(reads[..2], [(1_001, 1_010), (901, 1_000)]);
    assert!(reads.len() <= 3, "{reads:?}");
}

#[tokio::test]
async fn page_has_one_message_of_any_size() {
    let (seqs, cut, _) = page(2 * PAGE_BYTES, Order::Rising, 1, 10).await;
    assert_eq!((seqs, cut), (vec![1], true));
}

#[tokio::test]
async fn message_from_before_the_account_is_left_out() {
    let log = FakeLog { bytes: 10, reads: Mutex::default() };
    let sent = stored(1, 10).sent;
    for (since, count, met) in [(sent, 5, false), (Timestamp(sent.0 + 1), 0, true)] {
        let mut found = Found::new(Range { since, ..range(1, 5) });
        read(&log, group(9), vec![(1, 5)], Order::Rising, |_| true, &mut found).await.unwrap();
        assert_eq!((found.messages.len(), found.met_predecessor), (count, met));
    }
}
