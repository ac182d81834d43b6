//! Backups show one moment, and a restoration must never repeat ids, tokens or numbers.

#![expect(clippy::unwrap_used, reason = "all of it are tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use kith_store::{IdKind, Stores};
use kith_store_sqlite::{
    SqliteOptions,
    backup::{self, BackupError, Manifest, Progress, Replace, Restored},
};
use rusqlite::Connection;
use tempfile::TempDir;

/// A data file with some 8 MiB: more than one backup step.
async fn filled(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("data").join("kith.db");
    let handle = kith_store_sqlite::open(SqliteOptions::new(&path)).await.unwrap();
    handle.stores().migrations.migrate().await.unwrap();
    handle.close().await;
    let connection = Connection::open(&path).unwrap();
    connection.execute("INSERT INTO node_keys VALUES ('filler', zeroblob(8388608))", []).unwrap();
    path
}

fn take(from: &Path, to: &Path) -> Result<Manifest, BackupError> {
    backup::take(from, to, &mut |_| {})
}

fn restore(from: &Path, to: &Path) -> Restored {
    backup::restore(from, to, Replace::KeepAside).unwrap()
}

/// Starts on the file as a node does, lets `use_of` work with it, and ends.
async fn life<T>(path: &Path, use_of: impl AsyncFnOnce(Stores) -> T) -> T {
    let handle = kith_store_sqlite::open(SqliteOptions::new(path)).await.unwrap();
    let stores = handle.stores();
    stores.migrations.migrate().await.unwrap();
    let result = use_of(stores).await;
    handle.close().await;
    result
}

async fn raise(stores: &Stores) -> u64 {
    stores.node.raise_epoch(stores.node.epoch().await.unwrap().number, "").await.unwrap().number
}

async fn allocate(stores: &Stores, count: u32) -> i64 {
    stores.node.allocate_ids(IdKind::User, count).await.unwrap().first
}

#[tokio::test]
async fn backup_ignores_writes_during_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let writer = Connection::open(&path).unwrap();
    let (mut copied_before, mut calls) = (0, 0);
    let mut progress = |Progress { copied, pages }| {
        calls += 1;
        assert!(calls < 100, "it starts again with every write");
        assert!(copied >= copied_before && copied <= pages, "{copied} of {pages} after {copied_before}");
        copied_before = copied;
        writer.execute("INSERT INTO requests VALUES (hex(randomblob(8)), x'00', '{}', 0)", []).unwrap();
    };
    let to = folder.path().join("backup.db");
    backup::take(&path, &to, &mut progress).unwrap();
    let count = |file: &Path| -> i64 {
        let connection = Connection::open(file).unwrap();
        connection.query_row("SELECT count(*) FROM requests", [], |row| row.get(0)).unwrap()
    };
    assert!(count(&path) >= 8, "there were several steps");
    assert_eq!(count(&to), 0);
}

#[tokio::test]
async fn backup_is_two_private_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (path, target) = (filled(&folder).await, folder.path().join("backups"));
    fs::create_dir(&target).unwrap();
    let manifest = take(&path, &target.join("one.db")).unwrap();
    assert_eq!(Manifest::of(&target.join("one.db")).unwrap(), manifest);
    let mut names: Vec<_> = fs::read_dir(&target).unwrap().map(|file| file.unwrap()).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    for file in &names {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
    }
    let names: Vec<_> = names.iter().map(fs::DirEntry::file_name).collect();
    assert_eq!(names, ["one.db", "one.db.manifest.json"]);
}

#[tokio::test]
async fn concurrent_backup_of_same_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let to = folder.path().join("backup.db");
    let mut second = None;
    backup::take(&path, &to, &mut |_| {
        second.get_or_insert_with(|| take(&path, &to).unwrap_err());
    })
    .unwrap();
    assert!(matches!(second, Some(BackupError::UnderWay { .. })), "{second:?}");
    assert!(matches!(take(&path, &to), Err(BackupError::Exists { .. })));
    restore(&to, &folder.path().join("restored").join("kith.db"));
}

#[tokio::test]
async fn what_a_killed_backup_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let to = folder.path().join("backup.db");
    fs::write(folder.path().join("backup.db.part"), "half of it").unwrap();
    fs::write(folder.path().join("backup.db.part-wal"), "a log").unwrap();
    take(&path, &to).unwrap();
    assert!(!folder.path().join("backup.db.part").exists());
    assert!(!folder.path().join("backup.db.part-wal").exists());
}

#[tokio::test]
async fn damaged_data_are_not_backed_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let connection = Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'users_name'";
    let page: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    let user = "INSERT INTO users (id, version, deleted, name_key, nick, gender, age, region, icon, params,
        created_ms, updated_ms) VALUES (1, 1, 0, 'a', '', 0, 0, '', '', '{}', 0, 0)";
    connection.execute(user, []).unwrap();
    drop(connection);
    // Makes an index that has lost its entries: an empty page with the same kind.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(
        &file,
        &[0x0a, 0, 0, 0, 0, 0x10, 0, 0],
        u64::from(page - 1) * 4096,
    )
    .unwrap();
    let to = folder.path().join("backup.db");
    let error = take(&path, &to).unwrap_err();
    assert!(matches!(&error, BackupError::Unsound { path: found } if *found == path), "{error:?}");
    assert!(error.is_failure());
    assert!(
        !to.exists() && !Manifest::path_of(&to).exists() && !folder.path().join("backup.db.part").exists()
    );
}

#[tokio::test]
async fn restore_repeats_no_epoch_and_no_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    life(&path, async |stores| {
        raise(&stores).await;
        allocate(&stores, 100).await;
    })
    .await;
    let to = folder.path().join("backup.db");
    let manifest = take(&path, &to).unwrap();
    // After the backup the node starts again and again, and gives out ids.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let last = async |stores: Stores| (raise(&stores).await, allocate(&stores, 100_000).await + 99_999);
        seen.push(life(&path, last).await);
    }
    // Once with the lost data at hand, then without them, twice.
    for restored_path in [path.clone(), folder.path().join("a/kith.db"), folder.path().join("a/kith.db")] {
        let restored = restore(&to, &restored_path);
        assert!(restored.epoch > manifest.epoch);
        let (epoch, id) =
            life(&restored_path, async |stores| (raise(&stores).await, allocate(&stores, 1).await)).await;
        assert_eq!(epoch, restored.epoch + 1);
        assert!(
            seen.iter().all(|(earlier, last)| epoch > *earlier && id > *last),
            "{epoch} and {id} after {seen:?}"
        );
        seen.push((epoch, id));
    }
}

#[tokio::test]
async fn restored_sequence_goes_on_above_used_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (path, to) = (filled(&folder).await, folder.path().join("backup.db"));
    let take_seqs = async |stores: Stores| {
        let name = "room:9".parse().unwrap();
        stores.sequences.take_seqs(&name, 1_000, 0).await.unwrap()
    };
    assert_eq!(life(&path, take_seqs).await.first, 1);
    take(&path, &to).unwrap();
    let mut highest = life(&path, take_seqs).await.last;
    for _twice in 0..2 {
        restore(&to, &path);
        let after = life(&path, take_seqs).await;
        assert!(after.first > highest, "{after:?} after {highest}");
        highest = after.last;
    }
}

#[tokio::test]
async fn restore_keeps_the_replaced_file_and_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let to = folder.path().join("backup.db");
    take(&path, &to).unwrap();
    // A connection that is never closed leaves the log as a killed node does.
    let killed = Connection::open(&path).unwrap();
    killed.execute("INSERT INTO node_state (name, value) VALUES ('late', 7)", []).unwrap();
    let log = fs::read(folder.path().join("data/kith.db-wal")).unwrap();
    let file = fs::read(&path).unwrap();
    drop(killed);
    fs::write(&path, file).unwrap();
    fs::write(folder.path().join("data/kith.db-wal"), log).unwrap();
    let refused = backup::restore(&to, &path, Replace::Never).unwrap_err();
    assert!(matches!(refused, BackupError::HasData { .. }), "{refused:?}");
    let kept = restore(&to, &path).kept.unwrap();
    let late = "SELECT value FROM node_state WHERE name = 'late'";
    let of = |file: &Path| Connection::open(file).unwrap().query_row(late, [], |row| row.get::<_, i64>(0));
    assert_eq!(of(&kept).unwrap(), 7);
    assert!(of(&path).is_err());
    assert_ne!(restore(&to, &path).kept.unwrap(), kept, "each has a name of its own");
}

#[tokio::test]
async fn data_that_cannot_be_read_are_kept_aside_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let to = folder.path().join("backup.db");
    take(&path, &to).unwrap();
    fs::write(&path, "no data at all").unwrap();
    fs::write(folder.path().join("data/kith.db-wal"), "no log").unwrap();
    let kept = restore(&to, &path).kept.unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "no data at all");
    let log = PathBuf::from(format!("{}-wal", kept.display()));
    assert_eq!(fs::read_to_string(log).unwrap(), "no log");
    life(&path, async |stores| raise(&stores).await).await;
}

#[tokio::test]
async fn backup_of_older_schema_is_migrated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let old = Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../../../../migrations/sqlite/0001_users_and_groups.sql")).unwrap();
    old.execute_batch(
        "CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER NOT NULL) STRICT;
         INSERT INTO migrations VALUES (1, 'users and groups', 0)",
    )
    .unwrap();
    drop(old);
    let to = folder.path().join("backup.db");
    let manifest = take(&path, &to).unwrap();
    assert_eq!((manifest.schema, manifest.epoch), (1, 0));
    let restored_path = folder.path().join("restored/kith.db");
    let restored = restore(&to, &restored_path);
    let epoch = life(&restored_path, async |stores| raise(&stores).await).await;
    assert_eq!(epoch, restored.epoch + 1);
}

#[tokio::test]
async fn a_folder_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let to = folder.path().join("backup.db");
    take(&path, &to).unwrap();
    let handle = kith_store_sqlite::open(SqliteOptions::new(&path)).await.unwrap();
    let refused = backup::restore(&to, &path, Replace::KeepAside).unwrap_err();
    assert!(refused.to_string().starts_with("another kith process"), "{refused}");
    assert!(!refused.is_failure());
    handle.close().await;
}

#[tokio::test]
async fn restored_changes_are_another_generation() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder).await;
    let kept = async |stores: Stores| stores.changes.changes_extent().await.unwrap();
    let before = life(&path, async |stores| {
        stores.changes.begin_generation(true).await.unwrap();
        let user = kith_store::conformance::sample::bare_user(7, "ann");
        stores.users.create_user(user, kith_store::conformance::sample::write()).await.unwrap();
        kept(stores).await
    })
    .await
    .unwrap();
    let to = folder.path().join("backup.db");
    take(&path, &to).unwrap();
    let restored = folder.path().join("restored").join("kith.db");
    restore(&to, &restored);
    let after = life(&restored, kept).await.unwrap();
    assert_ne!(after.generation, before.generation);
    assert!(after.dialogs);
    assert_eq!((after.feeds["file"].first, after.feeds["file"].last), (2, 1), "no entry is left");
    assert_eq!(life(&path, kept).await, Some(before), "the file that was backed up goes on");
}
