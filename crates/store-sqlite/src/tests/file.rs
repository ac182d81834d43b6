//! Files: opening, migrating, closing, damage.

use super::*;

#[tokio::test]
async fn a_second_open_of_a_file_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let first = open_migrated(&folder).await;
    let error = open(options(&folder)).await.unwrap_err();
    let path = options(&folder).path;
    let expected = format!(
        "another kith process (pid {}) has {} open; stop it, or choose another data folder",
        std::process::id(),
        path.display()
    );
    assert_eq!(error.to_string(), expected);
    first.close().await;
    open(options(&folder)).await.unwrap();
}

#[tokio::test]
async fn folder_and_files_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    create(&handle, new_user(1)).await.unwrap();
    let data = folder.path().join("data");
    assert_eq!(std::fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    let files: Vec<_> = std::fs::read_dir(&data).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), 4, "data, lock, log and its index");
    for file in files {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn foreign_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = options(&folder).path;
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let content = "These are not the data you are looking for.\n".repeat(50);
    std::fs::write(&path, &content).unwrap();
    let error = open(options(&folder)).await.unwrap_err();
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    assert!(!crate::lock::lock_path(&path).exists(), "nothing of this program is left beside it");
}

/// A database as another program leaves it, in this journal mode.
fn foreign(path: &std::path::Path, sql: &str) -> Vec<u8> {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
    std::fs::read(path).unwrap()
}

#[tokio::test]
async fn a_database_of_another_program_is_not_changed() {
    for sql in [
        "CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('mine')",
        "PRAGMA journal_mode = WAL; CREATE TABLE notes (text TEXT)",
        "CREATE TABLE migrations (id INTEGER PRIMARY KEY, migration TEXT, batch INTEGER)",
        "PRAGMA application_id = 7; CREATE TABLE migrations (number INTEGER, name TEXT, applied_ms INTEGER)",
        "PRAGMA application_id = 7",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = options(&folder).path;
        let before = foreign(&path, sql);
        let error = open(options(&folder)).await.unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{sql}: {error:?}");
        let error = crate::migration_status(path.clone()).await.unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{sql}: {error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{sql}");
        assert!(!crate::lock::lock_path(&path).exists(), "{sql}");
    }
}

#[tokio::test]
async fn data_files_are_marked_and_old_ones_recognised() {
    let folder = tempfile::tempdir().unwrap();
    open_migrated(&folder).await.close().await;
    let path = options(&folder).path;
    let id = || u32::from_be_bytes(std::fs::read(&path).unwrap()[68..72].try_into().unwrap());
    assert_eq!(id().to_be_bytes(), *b"kith");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA application_id = 0").unwrap();
    connection.close().unwrap();
    assert_eq!(id(), 0);
    let handle = open(options(&folder)).await.unwrap();
    handle.stores().migrations.migrate().await.unwrap();
    handle.close().await;
    assert_eq!(id().to_be_bytes(), *b"kith");
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let newer = |connection: &Connection| {
        Ok(connection.execute("INSERT INTO migrations VALUES (99, 'next', 0)", [])?)
    };
    handle.sqlite.writer.write(newer).await.unwrap();
    let error = handle.stores().migrations.status().await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
    handle.close().await;
    let error = open(options(&folder)).await.unwrap_err();
    let known = migrate::newest_known();
    assert!(
        matches!(&error, OpenError::NewerSchema { found: 99, name, known: k, .. } if name == "next" && *k == known),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(text.contains("0099 (next)") && text.contains(&format!("{known:04}")), "{text}");
}

#[tokio::test]
async fn migration_is_explicit_and_idempotent() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open(options(&folder)).await.unwrap();
    let migrations = handle.stores().migrations;
    let pending = migrations.status().await.unwrap();
    assert!(pending.iter().all(|one| one.applied.is_none()));
    let applied = migrations.migrate().await.unwrap();
    assert_eq!(applied, migrations.status().await.unwrap());
    assert_eq!(applied.len(), pending.len());
    assert_eq!(migrations.migrate().await.unwrap(), []);
}

#[tokio::test]
async fn failed_migration_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open(options(&folder)).await.unwrap();
    let migrations = handle.stores().migrations;
    // This table is in the way when a late migration runs.
    let block = |connection: &Connection| Ok(connection.execute_batch("CREATE TABLE messages (a)")?);
    handle.sqlite.writer.exclusively(block).await.unwrap();
    migrations.migrate().await.unwrap_err();
    assert!(migrations.status().await.unwrap().iter().all(|one| one.applied.is_none()));
    let clear = |connection: &Connection| Ok(connection.execute_batch("DROP TABLE messages")?);
    handle.sqlite.writer.exclusively(clear).await.unwrap();
    let all = migrations.status().await.unwrap().len();
    assert_eq!(migrations.migrate().await.unwrap().len(), all);
}

#[tokio::test]
async fn acknowledged_writes_survive_without_close() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    for number in 1..=50 {
        create(&handle, new_user(number)).await.unwrap();
    }
    drop(handle);
    let again = open_again(&folder).await;
    let ids: Vec<_> = (1..=50).map(id).collect();
    assert_eq!(again.stores().users.users(&ids).await.unwrap().len(), 50);
    assert_eq!(again.integrity_check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn copied_files_have_acknowledged_writes() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let handle = open_migrated(&folder).await;
    for number in 1..=50 {
        create(&handle, new_user(number)).await.unwrap();
    }
    // Copies what a machine that loses power at this moment has on its disk.
    std::fs::create_dir(copy.path().join("data")).unwrap();
    for name in ["kith.db", "kith.db-wal"] {
        std::fs::copy(folder.path().join("data").join(name), copy.path().join("data").join(name)).unwrap();
    }
    let copied = open(options(&copy)).await.unwrap();
    assert_eq!(copied.stores().users.scan_users(None, 100).await.unwrap().len(), 50);
}

#[tokio::test]
async fn close_flushes_the_queue_into_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let stores = handle.stores();
    let (release, released) = hold_writer(&handle).await;
    let users = handle.stores().users;
    let queued = tokio::spawn(async move { users.create_user(new_user(1), write()).await });
    let_others_queue().await;
    let ((), (), ()) = tokio::join!(handle.close(), released, async { drop(release) });
    queued.await.unwrap().unwrap();
    let error = stores.users.user(id(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
    let error = stores.users.create_user(new_user(2), write()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
    assert!(!folder.path().join("data").join("kith.db-wal").exists());
    let again = open(options(&folder)).await.unwrap();
    assert!(matches!(again.stores().users.user(id(1)).await.unwrap(), Stored::Live(_)));
}

#[tokio::test]
async fn memory_copy_is_independent() {
    async fn held(handle: &SqliteHandle) -> Vec<i64> {
        let users = handle.stores().users.scan_users(None, 10).await.unwrap();
        users.iter().map(|user| user.id.get()).collect()
    }
    let source = open_in_memory().await.unwrap();
    create(&source, new_user(1)).await.unwrap();
    let copy = source.copy_in_memory(1).await.unwrap();
    assert_eq!(copy.stores().migrations.migrate().await.unwrap(), []);
    create(&source, new_user(2)).await.unwrap();
    create(&copy, new_user(3)).await.unwrap();
    assert_eq!(held(&source).await, [1, 2]);
    source.close().await;
    assert_eq!(held(&copy).await, [1, 3]);
    assert_eq!(copy.integrity_check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_cannot_be_copied_into_memory() {
    let folder = tempfile::tempdir().unwrap();
    let source = open_migrated(&folder).await;
    let error = source.copy_in_memory(1).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
}

#[tokio::test]
async fn what_cannot_be_read_is_not_shown_in_the_error() {
    let handle = open_in_memory().await.unwrap();
    create(&handle, new_user(1)).await.unwrap();
    let damage = |connection: &Connection| {
        Ok(connection.execute("UPDATE users SET params = '[\"private\"]', gender = 9", [])?)
    };
    handle.sqlite.writer.write(damage).await.unwrap();
    let error = handle.stores().users.user(id(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("private"));
}

#[tokio::test]
async fn integrity_check_reports_damage() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    create(&handle, new_user(1)).await.unwrap();
    assert_eq!(handle.integrity_check().await.unwrap(), Vec::<String>::new());
    let root = |connection: &Connection| {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'users_name'";
        Ok(connection.query_row(sql, [], |row| row.get::<_, u32>(0))?)
    };
    let page = handle.sqlite.readers.read(root).await.unwrap();
    handle.close().await;
    // Makes an index that has lost its entries: an empty page with the same kind.
    let file = std::fs::OpenOptions::new().write(true).open(options(&folder).path).unwrap();
    file.write_all_at(&[0x0a, 0, 0, 0, 0, 0x10, 0, 0], u64::from(page - 1) * 4096).unwrap();
    let damaged = open(options(&folder)).await.unwrap();
    assert_ne!(damaged.integrity_check().await.unwrap(), Vec::<String>::new());
}
