//! Tests how the writer watches its files.

use std::{fs, path::PathBuf};

use super::*;
use crate::{WriteObstacle, quick_check};

const LIMIT: Duration = Duration::from_secs(10);

/// Damages the data folder.
type Damage = fn(&Path);

fn file(folder: &TempDir, end: &str) -> PathBuf {
    let mut name = options(folder).path.into_os_string();
    name.push(end);
    name.into()
}

#[tokio::test]
async fn writes_to_a_replaced_file_are_refused() {
    let ways: [(&str, Damage); 6] = [
        ("", |data| fs::remove_file(data.join("kith.db")).unwrap()),
        ("", |data| fs::remove_dir_all(data).unwrap()),
        ("", |data| fs::rename(data, data.with_extension("old")).unwrap()),
        ("", |data| {
            fs::copy(data.join("kith.db"), data.join("copy")).unwrap();
            fs::rename(data.join("copy"), data.join("kith.db")).unwrap();
        }),
        ("-wal", |data| fs::remove_file(data.join("kith.db-wal")).unwrap()),
        (".lock", |data| fs::remove_file(data.join("kith.db.lock")).unwrap()),
    ];
    for (end, damage) in ways {
        let folder = tempfile::tempdir().unwrap();
        let handle = open_migrated(&folder).await;
        create(&handle, new_user(1)).await.unwrap();
        handle.stores().node.ping(LIMIT).await.unwrap();
        assert_eq!(handle.probe().obstacle(), None);
        damage(&folder.path().join("data"));
        let refused = create(&handle, new_user(2)).await.unwrap_err();
        assert!(
            matches!(refused, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }),
            "{refused:?}"
        );
        assert_eq!(handle.probe().obstacle(), Some(WriteObstacle::Replaced(file(&folder, end))));
        handle.stores().node.ping(LIMIT).await.unwrap_err();
        let read = handle.stores().users.user(id(1)).await.unwrap();
        assert!(matches!(read, Stored::Live(_)), "the open file is read");
    }
}

#[tokio::test]
async fn a_folder_that_is_moved_back_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let (data, moved) = (folder.path().join("data"), folder.path().join("moved"));
    fs::rename(&data, &moved).unwrap();
    create(&handle, new_user(1)).await.unwrap_err();
    fs::rename(&moved, &data).unwrap();
    create(&handle, new_user(1)).await.unwrap();
    assert_eq!(handle.probe().obstacle(), None);
}

#[tokio::test]
async fn ping_fails_while_another_holds_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let node = handle.stores().node;
    node.ping(LIMIT).await.unwrap();
    let other = Connection::open(options(&folder).path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = std::time::Instant::now();
    node.ping(LIMIT).await.unwrap_err();
    assert!(begun.elapsed() < crate::writer::BUSY, "a ping does not wait for the lock");
    assert_eq!(handle.probe().obstacle(), Some(WriteObstacle::Locked));
    other.execute_batch("ROLLBACK").unwrap();
    node.ping(LIMIT).await.unwrap();
    assert_eq!(handle.probe().obstacle(), None);
    create(&handle, new_user(1)).await.unwrap();
}

#[tokio::test]
async fn ping_measures_the_room() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    assert_eq!(handle.probe().free_bytes(), None);
    handle.stores().node.ping(LIMIT).await.unwrap();
    assert!(handle.probe().free_bytes().is_some() && !handle.probe().is_full());
    let memory = open_in_memory().await.unwrap();
    memory.stores().node.ping(LIMIT).await.unwrap();
    assert_eq!(memory.probe().free_bytes(), None);
}

#[tokio::test]
async fn full_store_says_so_until_a_write_succeeds() {
    let handle = open_in_memory().await.unwrap();
    let pages = |count: u32| {
        move |connection: &Connection| Ok(connection.pragma_update(None, "max_page_count", count)?)
    };
    handle.sqlite.writer.exclusively(pages(1)).await.unwrap();
    let mut number = 1;
    while create(&handle, large_user(number)).await.is_ok() {
        number += 1;
    }
    assert!(handle.probe().is_full());
    handle.sqlite.writer.exclusively(pages(1 << 30)).await.unwrap();
    create(&handle, large_user(number)).await.unwrap();
    assert!(!handle.probe().is_full());
}

#[tokio::test]
async fn quick_check_finds_damaged_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(&folder).path;
    assert_eq!(quick_check(path.clone(), LIMIT).await.unwrap(), Some(Vec::new()), "no file");
    let handle = open_migrated(&folder).await;
    for number in 1..=200 {
        create(&handle, new_user(number)).await.unwrap();
    }
    assert_eq!(quick_check(path.clone(), LIMIT).await.unwrap(), Some(Vec::new()), "of a file that is open");
    handle.close().await;
    let pages = fs::metadata(&path).unwrap().len() / 4096;
    let opened = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for page in pages - 20..pages {
        opened.write_all_at(&[0xa5; 4096], page * 4096).unwrap();
    }
    let faults = quick_check(path, LIMIT).await.unwrap().unwrap();
    assert!((1..=6).contains(&faults.len()), "{faults:?}");
}
