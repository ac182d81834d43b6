//! A page's numbers, and the reads for it.

use std::sync::Arc;

use super::{
    super::{
        fake_logs::FakeLogs,
        sample::{group, logs, message, stored},
    },
    *,
};

fn range(min: Seq, max: Seq) -> ReadRange {
    ReadRange { min, max, closed_at: None }
}

fn pull(from: Seq, to: Seq, limit: usize) -> ForwardRead {
    ForwardRead { conversation: group(9), from, to, limit, at_least: 0 }
}

fn back(before: Seq, limit: usize) -> BackwardRead {
    BackwardRead { conversation: group(9), before, limit, at_least: 0 }
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

/// The parts for these numbers as pairs; known messages have a negative first number.
fn parts_of(first: Seq, last: Seq, recent: std::ops::Range<Seq>) -> Vec<(Seq, Seq)> {
    let recent: Vec<Message> = recent.map(|seq| stored(seq, 1)).collect();
    let numbers = |part: PagePart| match part {
        PagePart::Stored(span) => (span.first, span.last),
        PagePart::Recent(messages) => (-messages[0].seq, messages[messages.len() - 1].seq),
    };
    parts(Span { first, last }, &recent).into_iter().map(numbers).collect()
}

#[test]
fn parts_are_those_of_documents() {
    let none = 0..0;
    assert_eq!(parts_of(1, 100, none.clone()), [(1, 100)]);
    assert_eq!(parts_of(100, 101, none.clone()), [(100, 100), (101, 101)]);
    assert_eq!(parts_of(95, 305, none.clone()), [(95, 100), (101, 200), (201, 300), (301, 305)]);
    assert_eq!(parts_of(7, 7, none.clone()), [(7, 7)]);
    assert_eq!(parts_of(8, 7, none), []);
}

#[test]
fn known_messages_are_not_read() {
    assert_eq!(parts_of(120, 180, 101..201), [(-120, 180)]);
    assert_eq!(parts_of(95, 160, 151..251), [(95, 100), (101, 150), (-151, 160)]);
    assert_eq!(parts_of(160, 260, 151..251), [(-160, 250), (251, 260)], "the end was read again");
    assert_eq!(parts_of(1, 10, 151..251), [(1, 10)]);
    assert_eq!(parts_of(8, 7, 1..11), []);
}

#[test]
fn last_messages_are_asked_for_with_the_end() {
    let unknown_end = range(11, Seq::MAX);
    let span = |asked: PageRequest| {
        let Span { first, last } = asked.wanted_of_last(unknown_end).span;
        (first, last)
    };
    assert_eq!(span(PageRequest::Forward(pull(0, 0, 20))), (11, 30));
    assert_eq!(span(PageRequest::Forward(pull(100, 105, 20))), (100, 105));
    assert_eq!(span(PageRequest::Backward(back(100, 20))), (80, 99));
    assert_eq!(span(PageRequest::Backward(back(0, 20))), (11, Seq::MAX), "the last 20, wherever they are");
    assert_eq!(PageRequest::Backward(back(0, 20)).wanted_of_last(unknown_end).most, 20);
}

/// A page's numbers, whether it was cut, and the reads for it.
async fn page(bytes: usize, order: PageOrder, first: Seq, last: Seq) -> (Vec<Seq>, bool, Vec<(Seq, Seq)>) {
    let (end, store) = (last, Arc::<FakeLogs>::default());
    store.fill(group(9), &vec![message("any", bytes); usize::try_from(end).unwrap()]);
    let mut found = PageContent::default();
    let parts = ordered(parts(Span { first, last }, &[]), order);
    let logs = logs(Arc::<FakeLogs>::clone(&store));
    let log = LogSource { logs: &logs, conversation: group(9), range: range(first, end) };
    let cut = read(log, parts, order, |_| true, &mut found).await.unwrap();
    let seqs = found.messages.iter().map(|message| message.seq).collect();
    (seqs, cut, store.reads())
}

#[tokio::test]
async fn page_within_a_document_reads_that_part_alone() {
    let (seqs, cut, reads) = page(10, PageOrder::Rising, 120, 180).await;
    assert_eq!((seqs, cut), ((120..=180).collect(), false));
    assert_eq!(reads, [(120, 180)]);
}

#[tokio::test]
async fn page_of_1000_reads_11_documents() {
    let (seqs, cut, reads) = page(10, PageOrder::Rising, 51, 1_050).await;
    assert_eq!((seqs, cut, reads.len()), ((51..=1_050).collect(), false, 11));
    let (seqs, cut, reads) = page(10, PageOrder::Falling, 51, 1_050).await;
    assert_eq!((seqs, cut, reads.len()), ((51..=1_050).rev().collect(), false, 11));
}

#[tokio::test]
async fn cut_page_reads_one_document_more_at_most() {
    let sixteenth = PAGE_BYTES / 16;
    let (seqs, cut, reads) = page(sixteenth, PageOrder::Rising, 91, 1_050).await;
    assert_eq!((seqs, cut), ((91..=105).collect(), true));
    assert_eq!(reads[..2], [(1, 100), (101, 200)], "documents are read whole");
    assert!(reads.len() <= 3, "{reads:?}");
    let (seqs, cut, reads) = page(sixteenth, PageOrder::Falling, 91, 1_010).await;
    assert_eq!((seqs, cut), ((996..=1_010).rev().collect(), true));
    assert_eq!(reads[..2], [(1_001, 1_010), (901, 1_000)]);
    assert!(reads.len() <= 3, "{reads:?}");
}

#[tokio::test]
async fn page_has_one_message_of_any_size() {
    let (seqs, cut, _) = page(2 * PAGE_BYTES, PageOrder::Rising, 1, 10).await;
    assert_eq!((seqs, cut), (vec![1], true));
}
