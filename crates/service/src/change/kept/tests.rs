//! Tests pages over a store in memory.

use futures::future::join_all;

use super::*;
use crate::{
    change::fake::{FakeChanges, Reads, change},
    rpc::rights::Rights,
};

async fn changes() -> (Arc<FakeChanges>, KeptChanges) {
    let fake = Arc::new(FakeChanges::default());
    fake.begin_generation(false).await.unwrap();
    let store: Arc<dyn ChangesStore> = Arc::<FakeChanges>::clone(&fake);
    (fake, KeptChanges::new(&store))
}

fn terms(kinds: &[i32], limit: usize) -> PageTerms {
    PageTerms { kinds: Kinds::asked(kinds, Rights::ALL).unwrap(), limit }
}

/// Lets the node read the extent again.
async fn later() {
    tokio::time::advance(EXTENT_LASTS).await;
}

/// Everything after a cursor, in pages with this limit: the users' ids and the last cursor.
async fn all(changes: &KeptChanges, mut cursor: Cursor, limit: usize) -> (Vec<i64>, Cursor) {
    let mut users = Vec::new();
    loop {
        let page = changes.page(cursor, terms(&[], limit)).await.unwrap();
        assert!(page.changes.len() <= limit);
        users.extend(page.changes.iter().map(|change| change.user_id));
        cursor = page.next;
        if page.is_last {
            return (users, cursor);
        }
    }
}

async fn reason(changes: &KeptChanges, cursor: Cursor) -> Reason {
    changes.page(cursor, terms(&[], 10)).await.unwrap_err().reason()
}

#[tokio::test(start_paused = true)]
async fn any_limit_gives_the_same_changes() {
    let (fake, changes) = changes().await;
    fake.add("a", vec![change(1)]);
    let begin = changes.end().await.unwrap();
    for entry in 0..70 {
        fake.add("a", (0..=entry % 4).map(|at| change(100 + 10 * entry + at)).collect());
    }
    later().await;
    let (whole, end) = all(&changes, begin.clone(), 1_000).await;
    assert_eq!((whole.len(), whole.is_sorted()), (173, true));
    for limit in [1, 2, 3, 7, 64, 172, 173] {
        let (users, last) = all(&changes, begin.clone(), limit).await;
        assert_eq!((users, &last.places), (whole.clone(), &end.places), "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn readers_at_the_end_share_one_read() {
    let (fake, changes) = changes().await;
    fake.add("a", vec![change(1)]);
    fake.add("b", vec![change(2)]);
    let end = changes.end().await.unwrap();
    assert_eq!(fake.reads(), Reads { extents: 1, entries: 0 });
    later().await;
    let reads = join_all((0..1_000).map(|_| changes.page(end.clone(), terms(&[], 10)))).await;
    for page in reads {
        let page = page.unwrap();
        assert!(page.is_last && page.changes.is_empty() && page.next == end, "{page:?}");
    }
    assert_eq!(fake.reads(), Reads { extents: 2, entries: 0 });
    fake.add("b", vec![change(3)]);
    later().await;
    let page = changes.page(end, terms(&[], 10)).await.unwrap();
    assert_eq!((page.changes.len(), fake.reads()), (1, Reads { extents: 3, entries: 1 }));
}

#[tokio::test(start_paused = true)]
async fn page_without_asked_kinds_advances() {
    let (fake, changes) = changes().await;
    let begin = changes.end().await.unwrap();
    (1..=100).for_each(|id| fake.add("a", vec![change(id)]));
    later().await;
    let groups = [wire::ChangeKind::Group.into()];
    let first = changes.page(begin, terms(&groups, 10)).await.unwrap();
    assert_eq!((first.changes.len(), first.is_last, first.next.places["a"].number), (0, false, 64));
    let second = changes.page(first.next, terms(&groups, 10)).await.unwrap();
    assert_eq!((second.changes.len(), second.is_last, second.next.places["a"].number), (0, true, 100));
}

#[tokio::test(start_paused = true)]
async fn busy_feed_keeps_no_other_waiting() {
    let (fake, changes) = changes().await;
    let mut cursor = changes.end().await.unwrap();
    (1..=1_000).for_each(|id| fake.add("a", vec![change(id)]));
    fake.add("b", vec![change(5_000)]);
    later().await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let page = changes.page(cursor, terms(&[], 10)).await.unwrap();
        assert!(!page.is_last);
        seen.extend(page.changes.iter().map(|change| change.user_id));
        cursor = page.next;
    }
    assert!(seen.contains(&5_000), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn full_page_is_not_the_last() {
    let (fake, changes) = changes().await;
    let begin = changes.end().await.unwrap();
    fake.add("a", vec![change(1)]);
    fake.add("b", vec![change(2)]);
    later().await;
    let page = changes.page(begin, terms(&[], 1)).await.unwrap();
    assert_eq!((page.changes.len(), page.is_last), (1, false));
    let page = changes.page(page.next, terms(&[], 1)).await.unwrap();
    assert_eq!((page.changes.len(), page.is_last), (1, true));
}

#[tokio::test(start_paused = true)]
async fn cursor_below_the_oldest_entry_has_expired() {
    let (fake, changes) = changes().await;
    let begin = changes.end().await.unwrap();
    (1..=10).for_each(|id| fake.add("a", vec![change(id)]));
    later().await;
    let third = changes.page(begin.clone(), terms(&[], 3)).await.unwrap().next;
    fake.remove("a", 3);
    let store: Arc<dyn ChangesStore> = Arc::<FakeChanges>::clone(&fake);
    let other_node = || KeptChanges::new(&store);
    assert_eq!(reason(&other_node(), begin).await, Reason::CursorExpired, "its feed was not known yet");
    assert_eq!(all(&other_node(), third.clone(), 10).await.0, [4, 5, 6, 7, 8, 9, 10]);
    fake.remove("a", 1);
    assert_eq!(reason(&other_node(), third).await, Reason::CursorExpired);
}

#[tokio::test(start_paused = true)]
async fn cursor_of_another_generation_has_expired() {
    let (fake, changes) = changes().await;
    fake.add("a", vec![change(1)]);
    let begin = changes.end().await.unwrap();
    fake.begin_generation(false).await.unwrap();
    later().await;
    assert_eq!(reason(&changes, begin).await, Reason::CursorExpired);
    let second = changes.end().await.unwrap();
    fake.add("a", vec![change(2)]);
    later().await;
    assert_eq!(all(&changes, second.clone(), 10).await.0, [2], "it begins before the first entry");
    fake.end_changes().await.unwrap();
    later().await;
    assert_eq!(reason(&changes, second).await, Reason::CursorExpired);
    let error = changes.end().await.unwrap_err();
    assert_eq!(error.reason(), Reason::NotConfigured);
    assert!(error.to_string().contains("changes.kept"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn entries_of_the_next_generation_end_a_cursor() {
    let (fake, changes) = changes().await;
    (1..=3).for_each(|id| fake.add("a", vec![change(id)]));
    let mut begin = changes.end().await.unwrap();
    begin.places.insert("a".to_owned(), FeedPlace { number: 2, offset: 0 });
    fake.begin_generation(false).await.unwrap();
    fake.add("a", vec![change(4)]);
    assert_eq!(reason(&changes, begin).await, Reason::CursorExpired, "the extent is that of before");
}

#[tokio::test(start_paused = true)]
async fn cursor_beyond_the_end_waits() {
    let (fake, changes) = changes().await;
    fake.add("a", vec![change(1)]);
    let mut ahead = changes.end().await.unwrap();
    ahead.places.insert("a".to_owned(), FeedPlace { number: 5, offset: 0 });
    let page = changes.page(ahead.clone(), terms(&[], 10)).await.unwrap();
    assert!(page.is_last && page.next == ahead, "another node has read more: {page:?}");
}

#[tokio::test(start_paused = true)]
async fn dialogs_that_are_not_kept_are_refused() {
    let (fake, changes) = changes().await;
    let dialogs = [wire::ChangeKind::Dialog.into()];
    let cursor = changes.end().await.unwrap();
    let error = changes.page(cursor, terms(&dialogs, 10)).await.unwrap_err();
    assert_eq!((error.reason(), error.to_string().contains("changes.dialogs")), (Reason::InvalidField, true));
    fake.begin_generation(true).await.unwrap();
    later().await;
    let cursor = changes.end().await.unwrap();
    assert!(changes.page(cursor, terms(&dialogs, 10)).await.unwrap().is_last);
}

#[tokio::test(start_paused = true)]
async fn positions_identify_changes() {
    let (fake, changes) = changes().await;
    let begin = changes.end().await.unwrap();
    fake.add("a", vec![change(1), change(2)]);
    fake.add("a", vec![change(3)]);
    later().await;
    let page = changes.page(begin.clone(), terms(&[], 10)).await.unwrap();
    let positions: Vec<_> = page.changes.iter().map(|change| change.position.as_str()).collect();
    assert_eq!(positions, ["1.a.1.0", "1.a.1.1", "1.a.2.0"]);
    let first = changes.page(begin, terms(&[], 1)).await.unwrap();
    let second = changes.page(first.next, terms(&[], 1)).await.unwrap();
    assert_eq!(second.changes[0].position, "1.a.1.1");
}
