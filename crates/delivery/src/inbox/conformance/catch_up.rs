//! Cases about receivers that begin: together with fan-outs and with other receivers, they neither miss nor
//! repeat a message.

use super::sample::{Subject, all, node, range};
use crate::{Generation, MarkOutcome, Wake};

pub async fn first_marks_enter_nothing(subject: Subject) {
    let opened = subject.open("a", 8).await;
    assert!(!opened.complete);
    let first = subject.marks(8, opened.generation, &[("g9", 56), ("d7-8", 0)], false).await;
    assert_eq!((&first.marks[..], first.position), (&[56, 0][..], 0));
    assert!(first.wakes.is_empty() && !subject.open("a", 8).await.complete);
    assert_eq!(first.conversations, 2);
    let last = subject.marks(8, opened.generation, &[("g10", 3)], true).await;
    assert_eq!((&last.marks[..], last.position), (&[3][..], 0));
    assert_eq!(last.conversations, 3);
    assert!(subject.open("a", 8).await.complete);
    subject.fan("g9", 57, &[8]).await;
    subject.fan("d7-8", 1, &[8]).await;
    let entries = subject.entries(8, opened.generation, 0).await;
    assert_eq!(entries, [range("g9", 57, 57), range("d7-8", 1, 1)]);
}

pub async fn missing_mark_is_a_new_conversation(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    subject.fan("g10", 3, &[8]).await;
    subject.fan("g10", 5, &[8]).await;
    // Others are new to the inbox by another receiver's marks; one without messages is not.
    let marks = subject.marks(8, generation, &[("d7-8", 2), ("g11", 0)], true).await;
    assert_eq!((&marks.marks[..], marks.position), (&[2, 0][..], 3));
    subject.fan("g11", 1, &[8]).await;
    let entries = subject.entries(8, generation, 0).await;
    assert_eq!(entries, [all("g10", 3), range("g10", 4, 5), all("d7-8", 2), range("g11", 1, 1)]);
}

pub async fn receivers_that_begin_together_miss_nothing(subject: Subject) {
    let (one, other) = (subject.open("a", 8).await, subject.open("b", 8).await);
    // The second receiver has read the conversations when there was one more conversation.
    let of_other = subject.marks(8, other.generation, &[("g9", 56), ("d7-8", 1)], true).await;
    assert_eq!((of_other.position, of_other.conversations), (0, 2));
    let of_one = subject.marks(8, one.generation, &[("g9", 56)], true).await;
    assert_eq!(of_one.conversations, 2, "it knows of one, and reads them again");
    // A conversation that comes up now is in both streams.
    subject.fan("g10", 1, &[8]).await;
    assert_eq!(subject.entries(8, one.generation, one.position).await, [all("g10", 1)]);
    assert_eq!(subject.marks(8, one.generation, &[("d7-8", 1)], true).await.marks, [1]);
}

pub async fn catch_up_before_fan_out_repeats_nothing(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    // A second receiver has read the end, which the fan-out for 57 has not entered yet.
    let marks = subject.marks(8, generation, &[("g9", 57)], true).await;
    assert_eq!((&marks.marks[..], marks.position), (&[57][..], 1));
    let fanned = subject.fan("g9", 57, &[8]).await;
    assert!(fanned.wakes.is_empty(), "it has nothing to enter");
    assert!(subject.entries(8, generation, marks.position).await.is_empty());
    subject.fan("g9", 58, &[8]).await;
    assert_eq!(subject.entries(8, generation, marks.position).await, [range("g9", 58, 58)]);
}

pub async fn fan_out_before_catch_up_repeats_nothing(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    // The second receiver has read 57 as the end; then 58 is entered.
    subject.fan("g9", 58, &[8]).await;
    let marks = subject.marks(8, generation, &[("g9", 57)], true).await;
    assert_eq!((&marks.marks[..], marks.position), (&[58][..], 1), "it catches up to 58 by the log");
    assert!(marks.wakes.is_empty());
    subject.fan("g9", 59, &[8]).await;
    assert_eq!(subject.entries(8, generation, marks.position).await, [range("g9", 59, 59)]);
}

pub async fn catch_up_hides_nothing_from_other_device(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    let opened = subject.open("b", 8).await;
    assert_eq!((opened.generation, opened.position, opened.complete), (generation, 0, true));
    let marks = subject.marks(8, generation, &[("g9", 58)], true).await;
    assert_eq!(subject.entries(8, generation, 0).await, [range("g9", 57, 58)], "for the receiver of a");
    let woken = Wake::Entries { user: super::sample::user(8), generation, position: 1 };
    let mut nodes: Vec<_> = marks.wakes.iter().map(|wake| wake.node.clone()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [node("a"), node("b")]);
    assert!(marks.wakes.iter().all(|wake| wake.wake == woken));
}

pub async fn marks_never_fall(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    for late in [0, 55, 56] {
        let marks = subject.marks(8, generation, &[("g9", late)], true).await;
        assert_eq!((&marks.marks[..], marks.position), (&[56][..], 0));
    }
    let none = subject.marks(8, generation, &[], true).await;
    assert!(none.marks.is_empty() && none.position == 0);
}

pub async fn marks_of_another_generation_are_reset(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    let others = [
        Generation { epoch: generation.epoch + 1, ..generation },
        Generation { number: generation.number + 1, ..generation },
    ];
    for other in others {
        assert_eq!(subject.mark(8, other, &[("g9", 60)], true).await, MarkOutcome::Reset);
    }
    assert_eq!(subject.mark(24, generation, &[("g9", 60)], true).await, MarkOutcome::Reset, "another user");
    assert!(!subject.open("a", 24).await.complete, "which has no inbox by that");
    let marks = subject.marks(8, generation, &[("g9", 57)], true).await;
    assert_eq!(marks.marks, [57], "nothing was changed");
}
