//! Cases for what audience readers have read.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    notice_sample::{READERS, audience_id, mark, reader, reader_key, register_readers, slots},
    sample::{assert_fails, at_once, each_at_once},
};
use crate::{
    BATCH_MAX, NoticeRefusal, READERS_AT_ONCE, READERS_SCANNED, ReaderExtent, ReaderId, ReaderMark,
    SINCE_CREATION, SLOTS_AT_ONCE, StoreError, Stores, Timestamp, Version,
};

fn read(slots: &[u32]) -> ReaderMark {
    ReaderMark::Read(slots.to_vec())
}

fn unread(slots: &[u32]) -> ReaderMark {
    ReaderMark::Unread(slots.to_vec())
}

pub async fn readers_are_registered_once(stores: Stores) {
    let first = register_readers(&stores, &[30, 10, 20, 10]).await;
    assert_eq!(first.iter().map(|new| new.key.reader.get()).collect::<BTreeSet<_>>(), [10, 20, 30].into());
    assert_eq!(first.iter().map(|new| new.ordinal).collect::<BTreeSet<_>>().len(), 3);
    for new in &first {
        assert_eq!(reader(&stores, new.key).await.as_ref(), Some(new));
        assert_eq!((new.version, new.since, slots(new)), (Version::FIRST, Timestamp(0), vec![]));
    }
    let known = [(ReaderId::new(10).unwrap(), Timestamp(99)), (ReaderId::new(40).unwrap(), Timestamp(7))];
    let second = stores.notice_readers.register_readers(audience_id(1), &known, READERS).await.unwrap();
    assert_eq!(second.iter().map(|new| (new.key.reader.get(), new.since.0)).collect::<Vec<_>>(), [(40, 7)]);
    assert_eq!(reader(&stores, reader_key(1, 10)).await.unwrap().since, Timestamp(0));
    let extent = stores.notice_readers.count_readers(audience_id(1)).await.unwrap();
    assert_eq!(extent.readers, 4);
    assert!(first.iter().chain(&second).all(|new| new.ordinal < extent.end), "{extent:?}");
    let none = stores.notice_readers.count_readers(audience_id(2)).await.unwrap();
    assert_eq!(none, ReaderExtent::default());
}

pub async fn registrations_at_once_give_one_ordinal(stores: Stores) {
    let calls = (0..16_i64).map(|call| {
        let readers: Vec<_> =
            (1..=20).map(|id| (ReaderId::new(id + call % 4).unwrap(), Timestamp(0))).collect();
        let store = Arc::clone(&stores.notice_readers);
        async move { store.register_readers(audience_id(1), &readers, READERS).await.unwrap() }
    });
    let new: Vec<_> = at_once(calls).await.into_iter().flatten().collect();
    assert_eq!(new.len(), 23, "each was registered by one call");
    assert_eq!(new.iter().map(|new| new.ordinal).collect::<BTreeSet<_>>().len(), 23);
    for new in new {
        assert_eq!(reader(&stores, new.key).await, Some(new));
    }
}

pub async fn same_id_in_two_audiences_is_two_readers(stores: Stores) {
    let (one, other) = (reader_key(1, 7), reader_key(2, 7));
    for key in [one, other] {
        let new = [(key.reader, Timestamp(0))];
        stores.notice_readers.register_readers(key.audience, &new, READERS).await.unwrap();
    }
    mark(&stores, one, read(&[3])).await;
    assert_eq!(slots(&reader(&stores, one).await.unwrap()), [3]);
    assert_eq!(slots(&reader(&stores, other).await.unwrap()), [0_u32; 0]);
    let both = stores.notice_readers.readers(&[one, other, one], false).await.unwrap();
    assert_eq!(both.len(), 2);
}

pub async fn largest_reader_id_is_taken(stores: Stores) {
    let new = register_readers(&stores, &[i64::MAX, 1]).await;
    assert!(new.iter().all(|new| new.ordinal < 64), "an ordinal is no id: {new:?}");
    mark(&stores, reader_key(1, i64::MAX), read(&[0])).await;
}

pub async fn readers_have_a_limit(stores: Stores) {
    let readers = |ids: std::ops::RangeInclusive<i64>| -> Vec<_> {
        ids.map(|id| (ReaderId::new(id).unwrap(), Timestamp(0))).collect()
    };
    let register =
        async |ids, most| stores.notice_readers.register_readers(audience_id(1), &readers(ids), most).await;
    assert_eq!(register(1..=3, 3).await.unwrap().len(), 3);
    assert_fails!(register(4..=4, 3).await, StoreError::Notice(NoticeRefusal::TooManyReaders));
    assert_eq!(reader(&stores, reader_key(1, 4)).await, None);
    assert_eq!(register(1..=3, 3).await.unwrap(), [], "those that are registered need no room");
}

pub async fn mark_of_unregistered_reader_changes_nothing(stores: Stores) {
    let key = reader_key(1, 7);
    for mark in [read(&[1]), unread(&[1]), ReaderMark::Forget(Timestamp(1))] {
        assert_eq!(stores.notice_readers.mark_reader(key, mark, &[]).await.unwrap(), None);
    }
    assert_eq!(reader(&stores, key).await, None);
}

pub async fn first_mark_of_a_page_and_bit_63_are_kept(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    for (slot, expected) in
        [(63, &[63][..]), (64, &[63, 64]), (0, &[0, 63, 64]), (6_399, &[0, 63, 64, 6_399])]
    {
        let marked = mark(&stores, key, read(&[slot])).await;
        assert!(marked.is_changed, "{slot}");
        assert_eq!(slots(&marked.reader), expected);
    }
    assert_eq!(slots(&mark(&stores, key, unread(&[63])).await.reader), [0, 64, 6_399]);
}

pub async fn repeated_mark_keeps_the_version(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    let marks = [
        (read(&[1, 70]), true, 2),
        (read(&[1, 70]), false, 2),
        (read(&[70]), false, 2),
        (read(&[1, 2]), true, 3),
        (unread(&[5, 500]), false, 3),
        (unread(&[2, 5]), true, 4),
        (unread(&[2]), false, 4),
        (read(&[]), false, 4),
    ];
    for (made, is_changed, version) in marks {
        let marked = mark(&stores, key, made.clone()).await;
        assert_eq!((marked.is_changed, marked.reader.version.get()), (is_changed, version), "{made:?}");
    }
    assert_eq!(slots(&reader(&stores, key).await.unwrap()), [1, 70]);
}

pub async fn marks_are_set_and_cleared_in_every_order(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    for round in 0..2 {
        for set in [[1, 2, 65], [2, 65, 1], [65, 1, 2]] {
            for slot in set {
                mark(&stores, key, read(&[slot])).await;
            }
            assert_eq!(slots(&reader(&stores, key).await.unwrap()), [1, 2, 65], "{round}");
            for slot in set.iter().rev() {
                mark(&stores, key, unread(&[*slot])).await;
            }
            assert_eq!(slots(&reader(&stores, key).await.unwrap()), [0_u32; 0]);
        }
    }
}

/// Guards against schemes that write later: a mark that is merged after an unmark sets the bit again.
pub async fn unread_survives_late_marks(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    mark(&stores, key, read(&[1, 2])).await;
    mark(&stores, key, unread(&[1])).await;
    mark(&stores, key, read(&[3])).await;
    assert_eq!(slots(&reader(&stores, key).await.unwrap()), [2, 3]);
}

pub async fn marks_at_once_are_all_present(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    let marked = each_at_once(&stores, 0..64, |stores, slot| async move {
        stores.notice_readers.mark_reader(key, read(&[slot, slot + 64]), &[]).await.unwrap().unwrap()
    })
    .await;
    assert!(marked.iter().all(|marked| marked.is_changed));
    let versions: BTreeSet<_> = marked.iter().map(|marked| marked.reader.version).collect();
    assert_eq!(versions.len(), 64, "each mark has a version of its own");
    let after = reader(&stores, key).await.unwrap();
    assert_eq!((slots(&after), after.version.get()), ((0..128).collect(), 65));
}

pub async fn marks_and_unmarks_at_once_leave_other_bits(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    mark(&stores, key, read(&(0..32).collect::<Vec<_>>())).await;
    each_at_once(&stores, 0..32, |stores, slot| async move {
        let made = if slot % 2 == 0 { unread(&[slot]) } else { read(&[slot + 32]) };
        stores.notice_readers.mark_reader(key, made, &[]).await.unwrap().unwrap()
    })
    .await;
    let expected: Vec<u32> = (0..64).filter(|slot| slot % 2 == 1).collect();
    assert_eq!(slots(&reader(&stores, key).await.unwrap()), expected);
}

pub async fn forgotten_reader_is_as_a_new_one(stores: Stores) {
    let new = register_readers(&stores, &[7]).await;
    mark(&stores, new[0].key, read(&[1, 100])).await;
    let forgotten = mark(&stores, new[0].key, ReaderMark::Forget(Timestamp(50))).await.reader;
    assert_eq!((slots(&forgotten), forgotten.since), (vec![], Timestamp(50)));
    assert_eq!((forgotten.ordinal, forgotten.version.get()), (new[0].ordinal, 3));
    assert!(!mark(&stores, new[0].key, ReaderMark::Forget(Timestamp(50))).await.is_changed);
    let again = mark(&stores, new[0].key, ReaderMark::Forget(SINCE_CREATION)).await.reader;
    assert_eq!(again.since, SINCE_CREATION);
    assert!(!mark(&stores, new[0].key, ReaderMark::Forget(SINCE_CREATION)).await.is_changed);
    assert_eq!(slots(&mark(&stores, new[0].key, read(&[1])).await.reader), [1]);
}

pub async fn dead_pages_are_dropped(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    mark(&stores, key, read(&[1, 65, 130])).await;
    let make = async |made, dead: &[u32]| {
        let marked = stores.notice_readers.mark_reader(key, made, dead).await.unwrap().unwrap();
        slots(&marked.reader)
    };
    assert_eq!(make(read(&[1]), &[1]).await, [1, 65, 130], "a mark that changes nothing drops nothing");
    assert_eq!(make(read(&[200]), &[0, 1, 9]).await, [130, 200]);
}

pub async fn many_slots_are_marked_at_once(stores: Stores) {
    let key = register_readers(&stores, &[7]).await[0].key;
    let all: Vec<u32> = (0..u32::try_from(SLOTS_AT_ONCE).unwrap()).map(|slot| slot * 3).collect();
    assert_eq!(slots(&mark(&stores, key, read(&all)).await.reader), all);
    assert!(slots(&mark(&stores, key, unread(&all)).await.reader).is_empty());
}

pub async fn scan_returns_acknowledged_marks_by_ordinal(stores: Stores) {
    let mut new = register_readers(&stores, &(1..=50).collect::<Vec<_>>()).await;
    new.sort_by_key(|new| new.ordinal);
    for (at, new) in (0_u32..).zip(&new) {
        mark(&stores, new.key, read(&[at % 3 + 64, 200])).await;
    }
    let scan = async |from, end, page, limit| {
        stores.notice_readers.scan_readers(audience_id(1), from, end, page, limit).await.unwrap()
    };
    let all = scan(0, u32::MAX, 1, 100).await;
    assert_eq!(
        all.iter().map(|found| (found.ordinal, found.reader, found.since)).collect::<Vec<_>>(),
        new.iter().map(|new| (new.ordinal, new.key.reader, new.since)).collect::<Vec<_>>()
    );
    for (at, found) in (0_u32..).zip(&all) {
        assert!(found.has(at % 3 + 64) && !found.has((at + 1) % 3 + 64), "{found:?}");
    }
    assert!(scan(0, u32::MAX, 0, 100).await.iter().all(|found| found.word == 0));
    assert_eq!(scan(new[10].ordinal, u32::MAX, 1, 5).await, all[10..15]);
    assert_eq!(scan(new[10].ordinal, new[12].ordinal, 1, 100).await, all[10..12]);
    assert_eq!(scan(new[49].ordinal + 1, u32::MAX, 1, 100).await, []);
    assert_eq!(stores.notice_readers.scan_readers(audience_id(2), 0, 9, 0, 9).await.unwrap(), []);
}

pub async fn more_than_allowed_is_refused(stores: Stores) {
    let overloaded = |is_overloaded: bool| assert!(is_overloaded);
    let (key, store) = (reader_key(1, 1), &stores.notice_readers);
    let refused = store.readers(&vec![key; BATCH_MAX + 1], false).await;
    overloaded(matches!(refused, Err(StoreError::Overloaded)));
    let readers = vec![(key.reader, Timestamp(0)); READERS_AT_ONCE + 1];
    let refused = store.register_readers(key.audience, &readers, READERS).await;
    overloaded(matches!(refused, Err(StoreError::Overloaded)));
    let refused = store.mark_reader(key, read(&vec![1; SLOTS_AT_ONCE + 1]), &[]).await;
    overloaded(matches!(refused, Err(StoreError::Overloaded)));
    let refused = store.scan_readers(key.audience, 0, 1, 0, READERS_SCANNED + 1).await;
    overloaded(matches!(refused, Err(StoreError::Overloaded)));
    assert_eq!(store.readers(&[], false).await.unwrap(), []);
    assert_eq!(store.register_readers(key.audience, &[], READERS).await.unwrap(), []);
}
