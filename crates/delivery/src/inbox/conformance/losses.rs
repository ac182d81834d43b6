//! Tests which entries are left after a keeper lost parts of an inbox.

use kith_store::Seq;

use super::sample::{Part, Subject, range, user};
use crate::{Entry, Generation, MarkOutcome, ReadOutcome};

/// The range that a receiver at the last position gets next; `None`: it begins again.
async fn next_range(subject: &Subject, generation: Generation, after: u64) -> Option<(Option<Seq>, Seq)> {
    match subject.read(8, generation, after, 10).await {
        ReadOutcome::Reset => None,
        ReadOutcome::Entries(entries) => match entries[..] {
            [(_, Entry::Range { first, last, .. })] => Some((first, last)),
            _ => panic!("{entries:?}"),
        },
    }
}

pub async fn stream_evicted(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    subject.fan("g9", 57, &[8]).await;
    subject.fan("g9", 58, &[8]).await;
    subject.faults.lose(user(8), Part::Stream).await;
    assert_eq!(subject.read(8, generation, 1, 10).await, ReadOutcome::Reset, "entry 2 is gone");
    subject.fan("g9", 59, &[8]).await;
    assert_eq!(subject.read(8, generation, 1, 10).await, ReadOutcome::Reset);
    // A receiver that had all misses nothing, or begins again.
    let next = next_range(&subject, generation, 2).await;
    assert!(next.is_none_or(|next| next == (Some(59), 59)), "{next:?}");
    // A receiver that begins again goes on.
    let opened = subject.open("a", 8).await;
    let marks = subject.marks(8, opened.generation, &[("g9", 59)], true).await;
    assert_eq!(marks.marks, [59]);
    subject.fan("g9", 60, &[8]).await;
    assert_eq!(subject.entries(8, opened.generation, marks.position).await, [range("g9", 60, 60)]);
}

pub async fn hash_evicted(subject: Subject) {
    is_begun_again(&subject, Part::Hash).await;
}

pub async fn both_expired(subject: Subject) {
    is_begun_again(&subject, Part::Both).await;
}

async fn is_begun_again(subject: &Subject, part: Part) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    subject.fan("g9", 57, &[8]).await;
    subject.faults.lose(user(8), part).await;
    for after in [0, 1] {
        assert_eq!(subject.read(8, generation, after, 10).await, ReadOutcome::Reset);
    }
    let fanned = subject.fan("g9", 58, &[8]).await;
    assert!(fanned.wakes.is_empty() && fanned.without_receiver == [user(8)]);
    let opened = subject.open("a", 8).await;
    assert_ne!(opened.generation, generation);
    assert_eq!((opened.position, opened.complete), (0, false));
    assert!(subject.entries(8, opened.generation, 0).await.is_empty(), "nothing of the earlier one is left");
    let marks = subject.marks(8, opened.generation, &[("g9", 58)], true).await;
    assert_eq!((&marks.marks[..], marks.position), (&[58][..], 0));
    subject.fan("g9", 59, &[8]).await;
    assert_eq!(subject.entries(8, opened.generation, 0).await, [range("g9", 59, 59)]);
    assert_eq!(subject.read(8, generation, 0, 10).await, ReadOutcome::Reset, "the earlier one stays ended");
    assert_eq!(subject.mark(8, generation, &[("g9", 70)], true).await, MarkOutcome::Reset);
}

pub async fn position_of_another_generation_is_reset(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    subject.fan("g9", 57, &[8]).await;
    let others = [
        Generation { epoch: generation.epoch + 1, ..generation },
        Generation { number: generation.number + 1, ..generation },
    ];
    for other in others {
        for after in [0, 1, 2] {
            assert_eq!(subject.read(8, other, after, 10).await, ReadOutcome::Reset);
        }
    }
    assert_eq!(subject.read(24, generation, 0, 10).await, ReadOutcome::Reset, "another user");
}
