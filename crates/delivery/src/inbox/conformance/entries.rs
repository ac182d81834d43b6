//! Cases about entries: contiguous ranges, repeated and concurrent fan-outs, positions, pages and notes.

use std::collections::BTreeSet;

use futures::future::join_all;
use kith_store::{ApplicationId, ApplicationKey, GroupId, Receiver};

use super::sample::{Subject, log, node, range, user};
use crate::{Entry, NodeWake, Note, ReadOutcome, Wake};

pub async fn ranges_are_contiguous(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56), ("d7-8", 3)]).await;
    // 58 comes before 57, which then is nothing new; 60 is lost.
    for last in [58, 57, 59, 61] {
        subject.fan("g9", last, &[8]).await;
        subject.fan("d7-8", last - 50, &[8]).await;
    }
    let entries = subject.entries(8, generation, 0).await;
    let of = |id: &str| {
        let is_of =
            |entry: &&Entry| matches!(entry, Entry::Range { conversation, .. } if *conversation == log(id));
        entries.iter().filter(is_of).copied().collect::<Vec<_>>()
    };
    assert_eq!(of("g9"), [range("g9", 57, 58), range("g9", 59, 59), range("g9", 60, 61)]);
    assert_eq!(of("d7-8"), [range("d7-8", 4, 8), range("d7-8", 9, 9), range("d7-8", 10, 11)]);
    assert_eq!(entries.len(), 6);
}

pub async fn repeated_fan_out_is_idempotent(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 56)]).await;
    assert_eq!(subject.fan("g9", 57, &[8]).await.wakes.len(), 1);
    for _ in 0..2 {
        let again = subject.fan("g9", 57, &[8]).await;
        assert!(again.wakes.is_empty() && again.without_receiver.is_empty());
    }
    subject.fan("g9", 58, &[8, 8]).await;
    assert_eq!(subject.entries(8, generation, 0).await, [range("g9", 57, 57), range("g9", 58, 58)]);
}

pub async fn no_inbox_no_entry(subject: Subject) {
    let fanned = subject.fan("g9", 57, &[8, 24]).await;
    assert!(fanned.wakes.is_empty());
    assert_eq!(fanned.without_receiver, [user(8), user(24)]);
    assert!(subject.keeper.note(user(8), Note::ContactAdded { user: user(7) }).await.unwrap().is_empty());
    subject.keeper.close(&node("a"), user(8)).await.unwrap();
    let opened = subject.open("a", 8).await;
    assert_eq!((opened.position, opened.complete), (0, false), "none of it has made an inbox");
    assert!(subject.entries(8, opened.generation, 0).await.is_empty());
}

/// More inboxes than a script enters at once, first, last and in between.
pub async fn inboxes_among_many_users_are_entered(subject: Subject) {
    let ids: Vec<i64> = (1..=500).collect();
    let has_inbox = |id: i64| id <= 20 || id % 9 == 0 || id > 490;
    let mut generations = Vec::new();
    for id in ids.iter().copied().filter(|id| has_inbox(*id)) {
        generations.push((id, subject.begin("a", id, &[("g9", 56)]).await));
    }
    let fanned = subject.fan("g9", 57, &ids).await;
    let [NodeWake { wake: Wake::Messages { woken, .. }, .. }] = &fanned.wakes[..] else { panic!() };
    let set = |ids: Vec<i64>| ids.into_iter().collect::<BTreeSet<_>>();
    let entered = woken.iter().map(|woken| woken.user.get()).collect();
    assert_eq!(set(entered), set(generations.iter().map(|(id, _)| *id).collect()));
    let others = set(ids.into_iter().filter(|id| !has_inbox(*id)).collect());
    assert_eq!(fanned.without_receiver.len(), others.len(), "each once");
    assert_eq!(set(fanned.without_receiver.iter().map(|user| user.get()).collect()), others);
    for (id, generation) in generations {
        assert_eq!(subject.entries(id, generation, 0).await, [range("g9", 57, 57)], "{id}");
    }
}

pub async fn positions_survive_trim(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 0)]).await;
    for last in 1..=450 {
        let fanned = subject.fan("g9", last, &[8]).await;
        let [NodeWake { wake: Wake::Messages { woken, .. }, .. }] = &fanned.wakes[..] else { panic!() };
        assert_eq!(i64::try_from(woken[0].position), Ok(last));
    }
    assert_eq!(subject.read(8, generation, 0, 10).await, ReadOutcome::Reset, "the first ones are gone");
    let last_ones = subject.entries(8, generation, 251).await;
    assert_eq!((last_ones.len(), last_ones[0]), (199, range("g9", 252, 252)));
    assert!(subject.entries(8, generation, 450).await.is_empty());
    assert_eq!(subject.read(8, generation, 451, 10).await, ReadOutcome::Reset, "there was no such entry");
}

pub async fn first_entry_is_read(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 0)]).await;
    assert!(subject.entries(8, generation, 0).await.is_empty());
    subject.fan("g9", 2, &[8]).await;
    assert_eq!(subject.entries(8, generation, 0).await, [range("g9", 1, 2)]);
    assert!(subject.entries(8, generation, 1).await.is_empty());
}

pub async fn entries_are_read_in_pages(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 0)]).await;
    for last in 1..=5 {
        subject.fan("g9", last, &[8]).await;
    }
    let ReadOutcome::Entries(page) = subject.read(8, generation, 1, 2).await else { panic!() };
    assert_eq!(page, [(2, range("g9", 2, 2)), (3, range("g9", 3, 3))]);
    let ReadOutcome::Entries(page) = subject.read(8, generation, 3, 9).await else { panic!() };
    assert_eq!(page.len(), 2);
}

pub async fn notes_are_entries(subject: Subject) {
    let generation = subject.begin("a", 8, &[("g9", 0)]).await;
    let (group, id) = (GroupId::new(9).unwrap(), ApplicationId::new(57).unwrap());
    let notes = [
        Note::Dialog { conversation: log("d7-8"), read_seq: 5 },
        Note::ContactAdded { user: user(7) },
        Note::ContactEnded { user: user(7) },
        Note::GroupJoined { group },
        Note::GroupLeft { group },
        Note::GroupChanged { group },
        Note::Application(ApplicationKey { receiver: Receiver::User(user(7)), id }),
        Note::Application(ApplicationKey { receiver: Receiver::Group(group), id }),
    ];
    for note in notes {
        subject.keeper.note(user(8), note).await.unwrap();
    }
    subject.fan("g9", 1, &[8]).await;
    let expected = notes.map(Entry::Note).into_iter().chain([range("g9", 1, 1)]);
    assert_eq!(subject.entries(8, generation, 0).await, expected.collect::<Vec<_>>());
}

pub async fn concurrent_fan_outs_leave_one_order(subject: Subject) {
    let generation = subject.begin("a", 8, &[]).await;
    join_all((1..=40).map(|last| subject.fan("g9", last, &[7, 8, 24]))).await;
    let mut end = 0;
    for (index, entry) in subject.entries(8, generation, 0).await.into_iter().enumerate() {
        let Entry::Range { first, last, .. } = entry else { panic!("{entry:?}") };
        assert_eq!(first, (index > 0).then_some(end + 1));
        end = last;
    }
    assert_eq!(end, 40);
}
