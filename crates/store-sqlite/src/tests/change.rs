//! Tests that commits keep their changes, and that they cost nothing while changes are not kept.

use kith_store::{
    ChangesEntry, ConversationId, ENTRY_CHANGES_MAX, FeedRecord, GroupId, SeqRange,
    conformance::message_sample::message,
};

use super::*;
use crate::change::{AFTER, EXTENT, LAST, OLDEST, REMOVE};

async fn entries(handle: &SqliteHandle) -> Vec<ChangesEntry> {
    handle.stores().changes.changes_after("file", 0).await.unwrap()
}

async fn records(handle: &SqliteHandle) -> Vec<FeedRecord> {
    let entries = entries(handle).await;
    entries.iter().flat_map(|entry| &entry.changes).map(|change| change.record).collect()
}

async fn temporary_objects(handle: &SqliteHandle) -> i64 {
    let count = |connection: &Connection| {
        Ok(connection.query_row("SELECT count(*) FROM temp.sqlite_schema", [], |row| row.get(0))?)
    };
    handle.sqlite.writer.exclusively(count).await.unwrap()
}

async fn execute(handle: &SqliteHandle, sql: &'static str) {
    handle.sqlite.writer.write(move |connection| Ok(connection.execute_batch(sql)?)).await.unwrap();
}

#[tokio::test]
async fn nothing_is_collected_unless_kept() {
    let handle = open_in_memory().await.unwrap();
    let changes = handle.stores().changes;
    assert_eq!(temporary_objects(&handle).await, 0);
    changes.begin_generation(true).await.unwrap();
    let with_dialogs = temporary_objects(&handle).await;
    changes.begin_generation(false).await.unwrap();
    assert_eq!(temporary_objects(&handle).await, with_dialogs - 2);
    changes.end_changes().await.unwrap();
    assert_eq!(temporary_objects(&handle).await, 0);
    create(&handle, new_user(1)).await.unwrap();
}

#[tokio::test]
async fn failed_change_leaves_no_entry() {
    let handle = open_in_memory().await.unwrap();
    handle.stores().changes.begin_generation(false).await.unwrap();
    let (release, released) = hold_writer(&handle).await;
    let users = handle.stores().users;
    let fails = |connection: &Connection| -> Result<(), crate::error::Failure> {
        connection.execute("UPDATE users SET version = 9", [])?;
        Err(StoreError::NameTaken.into())
    };
    let all = async {
        tokio::join!(
            users.create_user(new_user(1), write()),
            handle.sqlite.writer.write(fails),
            users.create_user(new_user(3), write()),
            async { drop(release) }
        )
    };
    let ((first, second, third, ()), ()) = tokio::join!(all, released);
    assert!(first.is_ok() && second.is_err() && third.is_ok());
    let entries = entries(&handle).await;
    assert_eq!(entries.len(), 1, "one commit: {entries:?}");
    assert_eq!(records(&handle).await, [FeedRecord::User(id(1)), FeedRecord::User(id(3))]);
    assert!(entries[0].changes.iter().all(|change| change.version == Some(Version::FIRST)));
}

#[tokio::test]
async fn panicked_change_leaves_no_entry() {
    let handle = open_in_memory().await.unwrap();
    handle.stores().changes.begin_generation(false).await.unwrap();
    create(&handle, new_user(1)).await.unwrap();
    let panics = |connection: &Connection| -> Result<(), crate::error::Failure> {
        connection.execute("UPDATE users SET version = 9", []).unwrap();
        panic!("in a write")
    };
    handle.sqlite.writer.write(panics).await.unwrap_err();
    create(&handle, new_user(2)).await.unwrap();
    assert_eq!(records(&handle).await, [FeedRecord::User(id(1)), FeedRecord::User(id(2))]);
}

#[tokio::test]
async fn changes_are_kept_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    handle.stores().changes.begin_generation(false).await.unwrap();
    create(&handle, new_user(1)).await.unwrap();
    let before = handle.stores().changes.changes_extent().await.unwrap();
    handle.close().await;
    let handle = open_again(&folder).await;
    assert_eq!(handle.stores().changes.changes_extent().await.unwrap(), before);
    create(&handle, new_user(2)).await.unwrap();
    assert_eq!(records(&handle).await, [FeedRecord::User(id(1)), FeedRecord::User(id(2))]);
}

#[tokio::test]
async fn large_commit_makes_several_entries() {
    let handle = open_in_memory().await.unwrap();
    handle.stores().changes.begin_generation(false).await.unwrap();
    execute(
        &handle,
        "WITH RECURSIVE ids (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < 600)
         INSERT INTO rosters (id, version, count, ordinals) SELECT id, 1, 0, 0 FROM ids",
    )
    .await;
    let sizes: Vec<_> = entries(&handle).await.iter().map(|entry| entry.changes.len()).collect();
    assert_eq!(sizes, [ENTRY_CHANGES_MAX, ENTRY_CHANGES_MAX, 600 - 2 * ENTRY_CHANGES_MAX]);
    let rosters = (1..=600).map(|id| FeedRecord::Roster(GroupId::new(id).unwrap()));
    assert!(records(&handle).await.into_iter().eq(rosters));
}

#[tokio::test]
async fn record_is_once_in_a_commit_at_its_end() {
    let handle = open_in_memory().await.unwrap();
    create(&handle, new_user(1)).await.unwrap();
    create(&handle, new_user(2)).await.unwrap();
    handle.stores().changes.begin_generation(false).await.unwrap();
    execute(
        &handle,
        "UPDATE users SET version = 5 WHERE id = 1; UPDATE users SET version = 6 WHERE id = 2;
         UPDATE users SET version = 7 WHERE id = 1; UPDATE users SET nick = 'x' WHERE id = 2",
    )
    .await;
    let changes = entries(&handle).await.remove(0).changes;
    let found: Vec<_> = changes.iter().map(|change| (change.record, change.version)).collect();
    let expected = |user, version| (FeedRecord::User(id(user)), Version::new(version));
    assert_eq!(found, [expected(2, 6), expected(1, 7)]);
}

#[tokio::test]
async fn appended_messages_are_ranges() {
    let handle = open_in_memory().await.unwrap();
    handle.stores().changes.begin_generation(false).await.unwrap();
    let messages = handle.stores().messages;
    let group: ConversationId = "g9".parse().unwrap();
    messages.append(group, &[message("a"), message("b"), message("c")]).await.unwrap();
    messages.append(ConversationId::OFFLINE[0], &[message("log")]).await.unwrap();
    messages.append(group, &[message("b")]).await.unwrap();
    messages.append(group, &[message("d")]).await.unwrap();
    let range = |first, last| FeedRecord::Messages(group, SeqRange { first, last });
    assert_eq!(records(&handle).await, [range(1, 3), range(4, 4)]);
    execute(&handle, "DELETE FROM messages WHERE seq < 4").await;
    assert_eq!(records(&handle).await.len(), 2, "retention is no change");
}

#[tokio::test]
async fn kept_changes_are_read_by_key() {
    let handle = open_in_memory().await.unwrap();
    for sql in [EXTENT, AFTER, LAST, OLDEST, REMOVE] {
        for step in plan(&handle, sql).await {
            // The state has one row, and the oldest and the last entry are the ends of the primary key.
            let scans = step.starts_with("SCAN") && ![EXTENT, LAST, OLDEST].contains(&sql);
            assert!(!scans && !step.contains("TEMP B-TREE"), "{step}\n{sql}");
        }
    }
}

#[tokio::test]
async fn entry_of_a_wrong_clock_is_trimmed() {
    let handle = open_in_memory().await.unwrap();
    let changes = handle.stores().changes;
    changes.begin_generation(false).await.unwrap();
    for number in 1..=3 {
        create(&handle, new_user(number)).await.unwrap();
    }
    execute(&handle, "UPDATE changes SET written_ms = written_ms + 1000000000 WHERE number = 1").await;
    execute(&handle, "UPDATE changes SET written_ms = 1000 WHERE number > 1").await;
    assert!(!changes.trim_changes(Duration::from_secs(60), u64::MAX).await.unwrap());
    let numbers: Vec<_> = entries(&handle).await.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [3]);
}
