//! Sequence store cases.

use super::sample::{assert_fails, each_at_once};
use crate::{ABOVE_MAX, SEQUENCE_NAME_CHARS_MAX, SEQUENCES_READ, SeqRange, SequenceName, StoreError, Stores};

fn name(text: &str) -> SequenceName {
    text.parse().unwrap()
}

async fn take(stores: &Stores, text: &str, count: u32, above: i64) -> SeqRange {
    let taken = stores.sequences.take_seqs(&name(text), count, above).await.unwrap();
    assert_eq!(taken.last - taken.first + 1, i64::from(count), "{taken:?}");
    taken
}

async fn max(stores: &Stores, texts: &[&str]) -> Vec<i64> {
    let names: Vec<SequenceName> = texts.iter().map(|text| name(text)).collect();
    stores.sequences.max_seqs(&names).await.unwrap()
}

pub async fn first_block_begins_at_one(stores: Stores) {
    assert_eq!(take(&stores, "a", 100, 0).await, SeqRange { first: 1, last: 100 });
}

pub async fn blocks_follow_each_other(stores: Stores) {
    let mut last = 0;
    for count in [1, 100, 6_400, 1] {
        let taken = take(&stores, "a", count, 0).await;
        assert_eq!(taken.first, last + 1);
        last = taken.last;
    }
}

pub async fn reserved_blocks_are_disjoint(stores: Stores) {
    let mut taken = each_at_once(&stores, 1..=32, |stores, count| async move {
        stores.sequences.take_seqs(&name("a"), count, 0).await.unwrap()
    })
    .await;
    taken.sort_unstable();
    let mut last = 0;
    for block in taken {
        assert_eq!(block.first, last + 1, "{block:?}");
        last = block.last;
    }
    assert_eq!(last, (1..=32).sum::<i64>());
}

pub async fn block_is_above_the_known_number(stores: Stores) {
    assert_eq!(take(&stores, "a", 10, 500).await, SeqRange { first: 501, last: 510 });
    assert_eq!(take(&stores, "a", 10, 3).await, SeqRange { first: 511, last: 520 });
    assert_eq!(take(&stores, "a", 10, 520).await, SeqRange { first: 521, last: 530 });
    let far = take(&stores, "a", 6_400, ABOVE_MAX).await;
    assert_eq!(far, SeqRange { first: ABOVE_MAX + 1, last: ABOVE_MAX + 6_400 });
    assert_eq!(take(&stores, "a", 1, ABOVE_MAX).await.first, far.last + 1);
    assert_eq!(max(&stores, &["a"]).await, [far.last + 1]);
}

pub async fn sequences_count_apart(stores: Stores) {
    take(&stores, "a", 1_000, 0).await;
    assert_eq!(take(&stores, "b", 1, 0).await.first, 1);
    assert_eq!(take(&stores, "a", 1, 0).await.first, 1_001);
}

pub async fn names_of_every_form_are_kept_apart(stores: Stores) {
    let long = "x".repeat(SEQUENCE_NAME_CHARS_MAX);
    let names = ["a", "A", "a.", "a:b", "a.b", "-", "_", "0", "00", &long, &long[1..]];
    for (count, text) in (1..).zip(names) {
        assert_eq!(take(&stores, text, count, 0).await.first, 1, "{text}");
    }
    assert_eq!(max(&stores, &names).await, (1..=11).collect::<Vec<_>>());
}

pub async fn max_is_the_end_of_the_last_block(stores: Stores) {
    take(&stores, "a", 100, 0).await;
    take(&stores, "a", 100, 0).await;
    take(&stores, "b", 7, 20).await;
    assert_eq!(max(&stores, &["b", "none", "a", "b"]).await, [27, 0, 200, 27]);
    assert_eq!(max(&stores, &[]).await, [0_i64; 0]);
}

pub async fn reading_the_max_takes_nothing(stores: Stores) {
    for _ in 0..3 {
        assert_eq!(max(&stores, &["a"]).await, [0]);
    }
    assert_eq!(take(&stores, "a", 5, 0).await.first, 1);
    assert_eq!(max(&stores, &["a"]).await, [5]);
    assert_eq!(take(&stores, "a", 5, 0).await.first, 6);
}

pub async fn more_names_than_allowed_are_refused(stores: Stores) {
    let names = vec![name("a"); SEQUENCES_READ + 1];
    assert_eq!(stores.sequences.max_seqs(&names[1..]).await.unwrap(), [0; SEQUENCES_READ]);
    assert_fails!(stores.sequences.max_seqs(&names).await, StoreError::Overloaded);
}
