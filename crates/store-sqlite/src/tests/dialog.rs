//! Dialogs: plans, damage, restarts.

use kith_store::{Dialog, DialogKey, DialogList, DialogMark, MarkKind, ReadMark, SeqRange};

use super::*;
use crate::{conversation, dialog};

fn key(user: i64) -> DialogKey {
    DialogKey { user: id(user), conversation: "g9".parse().unwrap() }
}

fn mark(user: i64, kind: MarkKind) -> DialogMark {
    DialogMark { key: key(user), mark: ReadMark::direct(kind), expected: None }
}

async fn change(handle: &SqliteHandle, sql: &'static str) {
    handle.sqlite.writer.exclusively(move |connection| Ok(connection.execute_batch(sql)?)).await.unwrap();
}

#[tokio::test]
async fn no_query_of_dialogs_scans_or_sorts() {
    let handle = open_in_memory().await.unwrap();
    let primary = ["dialogs_recent", "PRIMARY KEY"];
    for (sql, index) in [
        (dialog::BY_KEY, primary[1]),
        (dialog::LIST, primary[0]),
        (dialog::LIST_DIRECT, primary[0]),
        (dialog::CONVERSATIONS, primary[1]),
        (dialog::SET_DAY, primary[1]),
        (conversation::BY_ID, primary[1]),
    ] {
        let plan = plan(&handle, sql).await.join("\n");
        assert!(plan.starts_with("SEARCH") && plan.contains(index), "{plan}\n{sql}");
        assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{plan}\n{sql}");
    }
    let list = plan(&handle, dialog::LIST).await.join("\n");
    assert!(list.contains("(user_id=? AND (day,conversation)<(?,?))"), "pages begin at their place: {list}");
}

#[tokio::test]
async fn damaged_dialog_fails_its_own_mark_alone() {
    let handle = open_in_memory().await.unwrap();
    let dialogs = handle.stores().dialogs;
    let up_to = |seq| [1, 2, 3].map(|user| mark(user, MarkKind::UpTo(seq)));
    dialogs.mark_dialogs(&up_to(5), Timestamp(0)).await.unwrap();
    change(&handle, "UPDATE dialogs SET unread_ranges = x'00' WHERE user_id = 2").await;
    let made = dialogs.mark_dialogs(&up_to(7), Timestamp(0)).await.unwrap();
    assert!(matches!(made[..], [Ok(_), Err(StoreError::Corrupt { .. }), Ok(_)]), "{made:?}");
    let found = dialogs.dialogs(&[key(1), key(3)]).await.unwrap();
    assert!(found.iter().all(|dialog| dialog.read.read_seq() == 7), "{found:?}");
    let damaged = dialogs.dialogs(&[key(2)]).await;
    assert!(matches!(damaged, Err(StoreError::Corrupt { .. })), "{damaged:?}");
}

#[tokio::test]
async fn dialogs_outlive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let skipping = MarkKind::Ranges(vec![SeqRange { first: 300, last: 70_000_000_000 }]);
    let now = Timestamp(86_400_000 * 20_000);
    handle.stores().dialogs.mark_dialogs(&[mark(1, skipping)], now).await.unwrap();
    handle.close().await;
    let handle = open_again(&folder).await;
    let found = handle.stores().dialogs.dialog_list(id(1), DialogList::All, None, 10).await.unwrap();
    let [Dialog { read, day: 20_000, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((read.read_seq(), read.unread()), (70_000_000_000, &[SeqRange { first: 1, last: 299 }][..]));
}
