//! Dialog store cases: read marks.

use super::{
    dialog_sample::{dialog, draft, every_setting, key, make, mark, range, set, up_to},
    sample::{assert_fails, at_once, each_at_once, version},
};
use crate::{
    Dialog, DialogKey, DialogMark, MARK_RANGES_MAX, MARKS_AT_ONCE, MarkBase, MarkKind, ReadMark, Seq,
    SeqRange, StoreError, Stores, Timestamp, UNREAD_RANGES_MAX, Version,
};

async fn read_seq(stores: &Stores, key: DialogKey) -> Seq {
    dialog(stores, key).await.read.read_seq()
}

async fn unread(stores: &Stores, key: DialogKey) -> Vec<SeqRange> {
    dialog(stores, key).await.read.unread().to_vec()
}

pub async fn mark_makes_the_dialog(stores: Stores) {
    let (key, now) = (key(7, "g9"), Timestamp::now());
    stores.dialogs.mark_dialogs(&[up_to(key, 5)], now).await.unwrap();
    let made = dialog(&stores, key).await;
    assert_eq!(made, Dialog { read: made.read.clone(), ..Dialog::new(key, now) });
    assert_eq!((made.read.read_seq(), made.read.unread()), (5, &[][..]));
}

pub async fn read_mark_never_falls(stores: Stores) {
    let key = key(7, "d7-8");
    for (seq, read) in [(90, 90), (80, 90), (91, 91), (0, 91), (91, 91)] {
        make(&stores, &[up_to(key, seq)]).await;
        assert_eq!(read_seq(&stores, key).await, read);
    }
}

pub async fn mark_keeps_settings_version(stores: Stores) {
    let key = key(7, "g9");
    let before = set(&stores, key, every_setting()).await;
    make(&stores, &[up_to(key, 5)]).await;
    let after = dialog(&stores, key).await;
    assert_eq!(after.read.read_seq(), 5);
    assert_eq!(after, Dialog { version: version(2), read: after.read.clone(), ..before });
}

pub async fn mark_that_changes_nothing_keeps_the_version(stores: Stores) {
    let (plain, ranged) = (key(7, "g9"), key(7, "g10"));
    let ranges = mark(ranged, MarkKind::Ranges(vec![range(3, 4), range(7, 9)]));
    make(&stores, &[up_to(plain, 9), ranges.clone()]).await;
    let before = [dialog(&stores, plain).await, dialog(&stores, ranged).await];
    let later = Timestamp(Timestamp::now().0 + 5 * 86_400_000);
    for again in [
        [up_to(plain, 9), ranges],
        [up_to(plain, 3), mark(ranged, MarkKind::Ranges(vec![range(8, 8)]))],
        [mark(plain, MarkKind::Hidden(9)), mark(ranged, MarkKind::Hidden(2))],
    ] {
        stores.dialogs.mark_dialogs(&again, later).await.unwrap();
        assert_eq!([dialog(&stores, plain).await, dialog(&stores, ranged).await], before);
    }
    assert_eq!(before.map(|dialog| dialog.version), [Version::FIRST; 2]);
}

pub async fn crossing_marks_never_lower_read_seq(stores: Stores) {
    let key = key(7, "g9");
    each_at_once(&stores, (1..=32).rev(), |stores, seq| async move {
        make(&stores, &[up_to(key, seq)]).await;
        assert!(read_seq(&stores, key).await >= seq, "an acknowledged mark is seen");
    })
    .await;
    let after = dialog(&stores, key).await;
    assert_eq!((after.read.read_seq(), after.read.unread()), (32, &[][..]));
    assert!((1..=32).contains(&after.version.get()), "{}", after.version);
}

pub async fn marks_of_many_lose_none(stores: Stores) {
    let users = 1..=i64::try_from(MARKS_AT_ONCE).unwrap();
    let batches = (1..=6).map(|round| {
        let (stores, users) = (stores.clone(), users.clone());
        async move {
            let marks: Vec<DialogMark> = users.map(|user| up_to(key(user, "g9"), user + round)).collect();
            make(&stores, &marks).await;
        }
    });
    at_once(batches).await;
    let keys: Vec<DialogKey> = users.map(|user| key(user, "g9")).collect();
    let found = stores.dialogs.dialogs(&keys).await.unwrap();
    assert_eq!(found.len(), keys.len());
    for dialog in found {
        assert_eq!(dialog.read.read_seq(), dialog.key.user.get() + 6, "{}", dialog.key);
    }
}

pub async fn marks_of_one_batch_are_each_made(stores: Stores) {
    let (one, two) = (key(7, "g9"), key(8, "g9"));
    let skipping = mark(one, MarkKind::Ranges(vec![range(9, 9)]));
    make(&stores, &[up_to(one, 3), up_to(two, 4), skipping, up_to(one, 5), up_to(two, 2)]).await;
    assert_eq!((read_seq(&stores, one).await, unread(&stores, one).await), (9, vec![range(6, 8)]));
    assert_eq!((read_seq(&stores, two).await, unread(&stores, two).await), (4, vec![]));
}

pub async fn mark_and_settings_at_once_keep_both(stores: Stores) {
    let key = key(7, "g9");
    each_at_once(&stores, 1..=24, |stores, at| async move {
        match at % 3 {
            0 => drop(set(&stores, key, draft("kept")).await),
            1 => make(&stores, &[up_to(key, at)]).await,
            _ => make(&stores, &[mark(key, MarkKind::Ranges(vec![range(50 + 2 * at, 50 + 2 * at)]))]).await,
        }
    })
    .await;
    let after = dialog(&stores, key).await;
    assert_eq!((after.settings_version, after.ext.as_slice()), (version(8), &b"kept"[..]));
    assert_eq!(after.read.read_seq(), 50 + 2 * 23);
    assert!((1..=22).all(|seq| after.read.contains(seq)), "{:?}", after.read);
    assert!((1..=24).filter(|at| at % 3 == 2).all(|at| after.read.contains(50 + 2 * at)));
}

pub async fn hidden_mark_leaves_messages_unread(stores: Stores) {
    let key = key(7, "d7-8");
    make(&stores, &[up_to(key, 10)]).await;
    make(&stores, &[mark(key, MarkKind::Hidden(15))]).await;
    let after = dialog(&stores, key).await;
    assert_eq!((after.read.read_seq(), after.read.unread()), (15, &[range(11, 15)][..]));
    assert_eq!(
        (after.read.shown_seq(), after.version),
        (10, version(2)),
        "the other user sees nothing of it"
    );
}

pub async fn range_mark_leaves_what_it_skips(stores: Stores) {
    let key = key(7, "d7-8");
    make(&stores, &[up_to(key, 2)]).await;
    make(&stores, &[mark(key, MarkKind::Ranges(vec![range(8, 9), range(4, 5)]))]).await;
    assert_eq!(read_seq(&stores, key).await, 9);
    assert_eq!(unread(&stores, key).await, [range(3, 3), range(6, 7)]);
    make(&stores, &[mark(key, MarkKind::Ranges(vec![range(6, 6)]))]).await;
    assert_eq!(unread(&stores, key).await, [range(3, 3), range(7, 7)]);
}

pub async fn plain_mark_reads_what_was_skipped(stores: Stores) {
    let key = key(7, "d7-8");
    make(&stores, &[mark(key, MarkKind::Ranges(vec![range(4, 5), range(9, 9)]))]).await;
    make(&stores, &[up_to(key, 6)]).await;
    assert_eq!((read_seq(&stores, key).await, unread(&stores, key).await), (9, vec![range(7, 8)]));
    make(&stores, &[up_to(key, 8)]).await;
    assert_eq!((read_seq(&stores, key).await, unread(&stores, key).await), (9, vec![]));
    make(&stores, &[up_to(key, 12)]).await;
    assert_eq!((read_seq(&stores, key).await, unread(&stores, key).await), (12, vec![]));
}

pub async fn skipped_part_of_an_earlier_stay_stays_unread(stores: Stores) {
    let key = key(7, "g9");
    make(&stores, &[up_to(key, 10)]).await;
    let earlier = vec![range(1, 20), range(31, 40)];
    let rejoined = ReadMark { joined: 51, earlier, kind: MarkKind::UpTo(60) };
    make(&stores, &[DialogMark { key, mark: rejoined, expected: None }]).await;
    let stays = vec![range(11, 20), range(31, 40)];
    assert_eq!((read_seq(&stores, key).await, unread(&stores, key).await), (60, stays.clone()));
    // From here on the caller leaves the stays out; skipped messages cannot be marked any more.
    let known = ReadMark { joined: 51, earlier: Vec::new(), kind: MarkKind::UpTo(70) };
    make(&stores, &[DialogMark { key, mark: known, expected: None }]).await;
    assert_eq!((read_seq(&stores, key).await, unread(&stores, key).await), (70, stays));
}

pub async fn mark_below_the_stay_reads_nothing(stores: Stores) {
    let (old, new) = (key(7, "g9"), key(8, "g9"));
    make(&stores, &[up_to(old, 10)]).await;
    let before = dialog(&stores, old).await;
    for kind in [MarkKind::UpTo(50), MarkKind::Ranges(vec![range(20, 50)]), MarkKind::Hidden(50)] {
        let mark = ReadMark { joined: 51, earlier: vec![range(1, 20)], kind };
        make(&stores, &[old, new].map(|key| DialogMark { key, mark: mark.clone(), expected: None })).await;
        assert_eq!(dialog(&stores, old).await, before);
        let made = dialog(&stores, new).await;
        assert_eq!((made.version, made.read.read_seq()), (Version::FIRST, 0), "it is made all the same");
    }
}

pub async fn ranges_at_once_lose_none(stores: Stores) {
    let key = key(7, "g9");
    each_at_once(&stores, 1..=24, |stores, at| async move {
        make(&stores, &[mark(key, MarkKind::Ranges(vec![range(3 * at, 3 * at + 1)]))]).await
    })
    .await;
    let expected: Vec<SeqRange> =
        (0..24).map(|at| if at == 0 { range(1, 2) } else { range(3 * at + 2, 3 * at + 2) }).collect();
    assert_eq!((read_seq(&stores, key).await, unread(&stores, key).await), (73, expected));
}

pub async fn every_kind_of_mark_makes_the_dialog(stores: Stores) {
    let ranges = MarkKind::Ranges(vec![range(3, 4), range(6, 6)]);
    let rejoined = ReadMark { joined: 8, earlier: vec![range(2, 4)], kind: MarkKind::UpTo(9) };
    let marks = [
        (ReadMark::direct(MarkKind::Hidden(5)), 5, vec![range(1, 5)]),
        (ReadMark::direct(ranges), 6, vec![range(1, 2), range(5, 5)]),
        (rejoined, 9, vec![range(2, 4)]),
    ];
    for (user, (mark, top, skipped)) in (1..).zip(marks) {
        let key = key(user, "g9");
        make(&stores, &[DialogMark { key, mark, expected: None }]).await;
        assert_eq!((read_seq(&stores, key).await, unread(&stores, key).await), (top, skipped));
        assert_eq!(dialog(&stores, key).await.version, Version::FIRST);
    }
}

/// Marks every second number, from 2, so that as many unread ranges are left as there may be.
fn filling(key: DialogKey) -> Vec<DialogMark> {
    let single: Vec<SeqRange> =
        (1..=i64::try_from(UNREAD_RANGES_MAX).unwrap()).map(|at| range(2 * at, 2 * at)).collect();
    single.chunks(MARK_RANGES_MAX).map(|part| mark(key, MarkKind::Ranges(part.to_vec()))).collect()
}

pub async fn more_than_256_ranges_are_refused(stores: Stores) {
    let (full, other) = (key(7, "g9"), key(8, "g9"));
    make(&stores, &filling(full)).await;
    let before = dialog(&stores, full).await;
    assert_eq!(before.read.unread().len(), UNREAD_RANGES_MAX);
    let end = before.read.read_seq();
    for kind in [MarkKind::Ranges(vec![range(end + 2, end + 2)]), MarkKind::Hidden(end + 2)] {
        let marks = [mark(full, kind), up_to(other, end)];
        let made = stores.dialogs.mark_dialogs(&marks, Timestamp::now()).await.unwrap();
        assert!(matches!(made[..], [Err(StoreError::TooManyRanges(_)), Ok(_)]), "{made:?}");
        assert_eq!(dialog(&stores, full).await, before);
    }
    assert_eq!(read_seq(&stores, other).await, end, "the other marks of the batch are made");
    make(&stores, &[up_to(full, end)]).await;
    assert_eq!(unread(&stores, full).await, []);
}

pub async fn too_many_marks_are_refused(stores: Stores) {
    let count = i64::try_from(MARKS_AT_ONCE).unwrap() + 1;
    let marks: Vec<DialogMark> = (1..=count).map(|user| up_to(key(user, "g9"), 5)).collect();
    let ranges = vec![range(1, 2); MARK_RANGES_MAX + 1];
    for refused in [marks, vec![up_to(key(1, "g9"), 5), mark(key(2, "g9"), MarkKind::Ranges(ranges))]] {
        assert_fails!(stores.dialogs.mark_dialogs(&refused, Timestamp::now()).await, StoreError::Overloaded);
    }
    let keys = [key(1, "g9"), key(2, "g9")];
    assert_eq!(stores.dialogs.dialogs(&keys).await.unwrap(), []);
    assert!(stores.dialogs.mark_dialogs(&[], Timestamp::now()).await.unwrap().is_empty());
}

/// A mark up to a number by a caller whose copy has this version.
fn expecting(key: DialogKey, expected: Version, seq: Seq) -> DialogMark {
    DialogMark { expected: Some(expected), ..up_to(key, seq) }
}

/// Makes a mark, and returns which dialog it was made in.
async fn base(stores: &Stores, mark: DialogMark, now: Timestamp) -> MarkBase {
    stores.dialogs.mark_dialogs(&[mark], now).await.unwrap().remove(0).unwrap()
}

pub async fn right_copy_can_be_marked_by_its_caller(stores: Stores) {
    let (key, now) = (key(7, "g9"), Timestamp(Timestamp::now().0 + 3 * 86_400_000));
    let mut copy = Dialog::absent(key);
    for seq in [5, 9] {
        let mark = expecting(key, copy.version, seq);
        copy = copy.marked(&mark.mark, now).unwrap().unwrap();
        assert_eq!(base(&stores, mark, now).await, MarkBase::Expected);
        assert_eq!(dialog(&stores, key).await, copy);
        copy = set(&stores, key, every_setting()).await;
    }
    let mark = expecting(key, copy.version, 12);
    assert_eq!(base(&stores, mark.clone(), now).await, MarkBase::Expected);
    assert_eq!(dialog(&stores, key).await, copy.marked(&mark.mark, now).unwrap().unwrap());
}

pub async fn mark_by_an_old_copy_is_made_elsewhere(stores: Stores) {
    let (key, now) = (key(7, "g9"), Timestamp::now());
    let old = set(&stores, key, draft("a")).await;
    set(&stores, key, draft("b")).await;
    for (seq, expected) in [(5, old.version), (6, Version::NONE), (7, version(90))] {
        assert_eq!(base(&stores, expecting(key, expected, seq), now).await, MarkBase::Other, "{expected:?}");
        let after = dialog(&stores, key).await;
        assert_eq!(
            (after.read.read_seq(), after.ext.as_slice()),
            (seq, &b"b"[..]),
            "it is made all the same"
        );
    }
    let after = dialog(&stores, key).await;
    assert_eq!(base(&stores, expecting(key, after.version, 6), now).await, MarkBase::Other);
    assert_eq!(dialog(&stores, key).await, after, "a mark that changes nothing is made in no dialog");
    assert_eq!(base(&stores, up_to(key, 8), now).await, MarkBase::Other, "its caller has no copy");
}

pub async fn copies_marked_at_once_are_the_stored_ones(stores: Stores) {
    let (key, now) = (key(7, "g9"), Timestamp::now());
    let mut marked = Vec::new();
    for round in 1..=8 {
        let copy = dialog(&stores, key).await;
        let writers = each_at_once(&stores, 1..=4, |stores, writer| {
            let (copy, mark) = (copy.clone(), expecting(key, copy.version, 4 * round + writer));
            async move {
                if writer == 4 {
                    return Some(set(&stores, key, draft("b")).await);
                }
                let base = base(&stores, mark.clone(), now).await;
                let after = copy.marked(&mark.mark, now).unwrap();
                after.filter(|_| base == MarkBase::Expected)
            }
        });
        marked.push(writers.await.into_iter().flatten().collect::<Vec<_>>());
    }
    for round in &marked {
        let mut versions: Vec<Version> = round.iter().map(|dialog| dialog.version).collect();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions.len(), round.len(), "two dialogs of one version: {round:?}");
    }
}
