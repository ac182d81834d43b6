//! Tests what the contract suite cannot see: commits, queues, files, plans.

mod application;
mod change;
mod condition;
mod dialog;
mod file;
mod member;
mod message;
mod relation;

use std::{
    collections::BTreeMap,
    future::Future,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use kith_store::{
    Epoch, NewUser, Outcome, Params, StoreError, Stored, Timestamp, User, UserId, UserPatch, Version, Write,
    conformance::sample::bare_user,
};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    OpenError, SqliteHandle, SqliteOptions,
    change::Collecting,
    condition::Condition,
    group, migrate, open, open_in_memory, request, secret,
    user::{self, access},
    writer::Writer,
};

fn id(number: i64) -> UserId {
    UserId::new(number).unwrap()
}

fn new_user(number: i64) -> NewUser {
    bare_user(number, &format!("user {number}"))
}

fn large_user(number: i64) -> NewUser {
    let params = BTreeMap::from([("text".to_owned(), "x".repeat(60_000))]);
    NewUser { params: Params::new(params).unwrap(), ..new_user(number) }
}

fn write() -> Write {
    Write::at(Timestamp(1_000))
}

fn options(folder: &TempDir) -> SqliteOptions {
    SqliteOptions::new(folder.path().join("data").join("kith.db"))
}

async fn open_migrated(folder: &TempDir) -> SqliteHandle {
    let handle = open(options(folder)).await.unwrap();
    handle.stores().migrations.migrate().await.unwrap();
    handle
}

/// Opens a file while its last owner is letting it go.
async fn open_again(folder: &TempDir) -> SqliteHandle {
    for _ in 0..10_000 {
        match open(options(folder)).await {
            Err(OpenError::Locked { .. }) => tokio::task::yield_now().await,
            opened => return opened.unwrap(),
        }
    }
    panic!("the lock was never released");
}

async fn create(handle: &SqliteHandle, user: NewUser) -> Result<User, StoreError> {
    Ok(handle.stores().users.create_user(user, write()).await?.record)
}

/// Keeps the writer busy until the sender is dropped; the future ends when the writer goes on.
async fn hold_writer(handle: &SqliteHandle) -> (mpsc::Sender<()>, impl Future<Output = ()> + use<>) {
    let (release, held) = mpsc::channel::<()>();
    let (started, has_started) = tokio::sync::oneshot::channel();
    let sqlite = Arc::clone(&handle.sqlite);
    let hold = tokio::spawn(async move {
        let wait = move |_: &Connection| {
            started.send(()).unwrap();
            Ok(held.recv().unwrap_err())
        };
        sqlite.writer.exclusively(wait).await.unwrap();
    });
    has_started.await.unwrap();
    (release, async move { hold.await.unwrap() })
}

/// Lets all other tasks in this single-threaded runtime run until they wait.
async fn let_others_queue() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn pages(connection: &Connection) -> i64 {
    connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap()
}

/// Lets the file grow by this many pages and no further.
async fn limit_growth(handle: &SqliteHandle, more: i64) {
    let limit = move |connection: &Connection| {
        let sql = format!("PRAGMA max_page_count = {}", pages(connection) + more);
        Ok(connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
    };
    handle.sqlite.writer.exclusively(limit).await.unwrap();
}

/// Commits in a write-ahead log (sqlite.org/fileformat2, section 4.1): the frames that note a size.
fn commits(wal: &Path) -> usize {
    let log = std::fs::read(wal).unwrap();
    let page = usize::try_from(u32::from_be_bytes(log[8..12].try_into().unwrap())).unwrap();
    log[32..].chunks(24 + page).filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test]
async fn writes_that_wait_together_share_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let wal = folder.path().join("data").join("kith.db-wal");
    let before = commits(&wal);
    let (release, released) = hold_writer(&handle).await;
    let mut writes = JoinSet::new();
    for number in 1..=100 {
        let users = handle.stores().users;
        writes.spawn(async move { users.create_user(new_user(number), write()).await });
    }
    let_others_queue().await;
    drop(release);
    released.await;
    for created in writes.join_all().await {
        created.unwrap();
    }
    assert_eq!(commits(&wal) - before, 1);
}

#[tokio::test]
async fn queued_writes_wait_for_a_lock_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Connection::open(folder.path().join("kith.db")).unwrap();
    let (mut connection, other, asked) = (open(), open(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&asked);
    let give_up = move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        false
    };
    connection.busy_handler(Some(give_up)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (condition, collecting) = (Condition::in_memory(), Collecting::default());
    let writer = Writer::start(connection, 10, 1, condition, collecting, Box::new(())).unwrap();
    let writer = Arc::new(writer);
    let (release, held) = mpsc::channel::<()>();
    let holder = Arc::clone(&writer);
    let holding =
        tokio::spawn(async move { holder.exclusively(move |_| Ok(held.recv().unwrap_err())).await });
    let mut writes = JoinSet::new();
    for _ in 0..9 {
        let writer = Arc::clone(&writer);
        writes.spawn(async move { writer.write(|_| Ok(())).await });
    }
    let_others_queue().await;
    drop(release);
    holding.await.unwrap().unwrap();
    for refused in writes.join_all().await {
        assert!(matches!(refused, Err(StoreError::Unavailable { outcome: Outcome::NotApplied, .. })));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    other.execute_batch("COMMIT").unwrap();
    writer.write(|_| Ok(())).await.unwrap();
}

#[tokio::test]
async fn failed_change_keeps_others_of_its_commit() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let (release, released) = hold_writer(&handle).await;
    let users = handle.stores().users;
    let same_name = NewUser { user_name: new_user(1).user_name, ..new_user(2) };
    let all = async {
        tokio::join!(
            users.create_user(new_user(1), write()),
            users.create_user(same_name, write()),
            users.create_user(new_user(3), write()),
            async { drop(release) }
        )
    };
    let ((first, second, third, ()), ()) = tokio::join!(all, released);
    first.unwrap();
    assert!(matches!(second, Err(StoreError::NameTaken)), "{second:?}");
    third.unwrap();
    assert_eq!(users.user(id(2)).await.unwrap(), Stored::Never);
    assert!(matches!(users.user(id(3)).await.unwrap(), Stored::Live(_)));
}

#[tokio::test]
async fn a_write_whose_caller_has_gone_is_made_whole() {
    let handle = open_in_memory().await.unwrap();
    let (release, released) = hold_writer(&handle).await;
    let users = handle.stores().users;
    let gone = tokio::spawn(async move { users.create_user(new_user(1), write()).await });
    let_others_queue().await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    drop(release);
    released.await;
    create(&handle, new_user(2)).await.unwrap();
    assert!(matches!(handle.stores().users.user(id(1)).await.unwrap(), Stored::Live(_)));
}

#[tokio::test]
async fn full_queue_refuses_until_it_moves() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open(SqliteOptions { queue: 2, ..options(&folder) }).await.unwrap();
    handle.stores().migrations.migrate().await.unwrap();
    let (release, released) = hold_writer(&handle).await;
    let mut writes = JoinSet::new();
    for number in 1..=2 {
        let users = handle.stores().users;
        writes.spawn(async move { users.create_user(new_user(number), write()).await });
    }
    let_others_queue().await;
    let refused = create(&handle, new_user(3)).await;
    assert!(matches!(refused, Err(StoreError::Overloaded)), "{refused:?}");
    drop(release);
    released.await;
    assert!(writes.join_all().await.iter().all(Result::is_ok));
    create(&handle, new_user(3)).await.unwrap();
}

#[tokio::test]
async fn panic_in_write_or_read_ends_nothing_else() {
    let handle = open_in_memory().await.unwrap();
    let insert = "INSERT INTO node_state (name, value) VALUES ('epoch', 7)";
    let panics = move |connection: &Connection| -> Result<(), crate::error::Failure> {
        connection.execute(insert, []).unwrap();
        panic!("in a write")
    };
    let error = handle.sqlite.writer.write(panics).await.unwrap_err();
    assert!(matches!(error, StoreError::Internal { outcome: Outcome::NotApplied, .. }), "{error:?}");
    let panics = |_: &Connection| -> Result<(), crate::error::Failure> { panic!("in a read") };
    for _ in 0..10 {
        handle.sqlite.readers.read(panics).await.unwrap_err();
    }
    create(&handle, new_user(1)).await.unwrap();
    assert_eq!(handle.stores().node.epoch().await.unwrap(), Epoch::default());
}

#[tokio::test]
async fn full_disk_refuses_writes_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    create(&handle, new_user(1)).await.unwrap();
    limit_growth(&handle, 2).await;
    for number in 2..5 {
        let error = create(&handle, large_user(number)).await.unwrap_err();
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        assert_eq!(handle.stores().users.user(id(number)).await.unwrap(), Stored::Never);
    }
    assert!(matches!(handle.stores().users.user(id(1)).await.unwrap(), Stored::Live(_)));
    limit_growth(&handle, 1_000).await;
    create(&handle, large_user(2)).await.unwrap();
    assert_eq!(handle.integrity_check().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn full_disk_answers_of_one_commit_are_true() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    limit_growth(&handle, 3).await;
    let (release, released) = hold_writer(&handle).await;
    let mut writes = JoinSet::new();
    for number in 1..=9 {
        let users = handle.stores().users;
        let user = if number % 3 == 0 { large_user(number) } else { new_user(number) };
        writes.spawn(async move { (id(number), users.create_user(user, write()).await) });
    }
    let_others_queue().await;
    drop(release);
    released.await;
    for (id, created) in writes.join_all().await {
        let stored = handle.stores().users.user(id).await.unwrap();
        assert_eq!(created.is_ok(), matches!(stored, Stored::Live(_)), "{id}: {created:?}");
        assert!(id.get() % 3 != 0 || matches!(created, Err(StoreError::Full { .. })), "{created:?}");
    }
}

#[tokio::test]
async fn stub_keeps_no_personal_data() {
    let handle = open_in_memory().await.unwrap();
    let stores = handle.stores();
    create(&handle, new_user(1)).await.unwrap();
    stores.users.delete_user(id(1), Timestamp(5_000), write()).await.unwrap();
    stores.node.forget_requests(Timestamp(4_999)).await.unwrap();
    let name = |connection: &Connection| {
        Ok(connection.query_row("SELECT name_key FROM users", [], |row| row.get::<_, Option<String>>(0))?)
    };
    assert_eq!(handle.sqlite.readers.read(name).await.unwrap().as_deref(), Some("user 1"));
    stores.node.forget_requests(Timestamp(5_000)).await.unwrap();
    assert_eq!(handle.sqlite.readers.read(name).await.unwrap(), None);
    assert_eq!(stores.users.user(id(1)).await.unwrap(), Stored::Deleted(Version::new(2).unwrap()));
}

#[tokio::test]
async fn a_ping_answers_in_time_or_fails() {
    let handle = open_in_memory().await.unwrap();
    let node = handle.stores().node;
    node.ping(Duration::from_secs(5)).await.unwrap();
    let (release, released) = hold_writer(&handle).await;
    let error = node.ping(Duration::from_millis(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    drop(release);
    released.await;
}

#[tokio::test]
async fn no_hot_query_scans_or_sorts() {
    let handle = open_in_memory().await.unwrap();
    let batches =
        [8, 500].map(|count| [user::BY_IDS.sql(count), access::BY_IDS.sql(count), group::BY_IDS.sql(count)]);
    let single = [
        user::BY_ID,
        user::BY_NAME,
        user::SEARCH,
        user::SCAN,
        user::STATE,
        user::UPDATE,
        user::RENAME,
        user::SET_EMAIL,
        user::SET_PHONE,
        user::DELETE,
        user::FREE_NAME,
        user::FREE_NAMES,
        access::BY_ID,
        access::SUSPEND,
        access::REFUSE_TOKENS,
        group::BY_ID,
        group::SEARCH,
        group::SCAN,
        group::STATE,
        group::DISMISS,
        group::UNLIST_KEY,
        request::READ,
        request::FORGET,
        secret::READ,
        secret::REMOVE_ALL,
    ];
    for sql in batches.into_iter().flatten().chain(single) {
        for step in plan(&handle, sql).await {
            // A subquery is a list with ids that an index yielded, no longer than a page.
            let scans = step.starts_with("SCAN") && !step.starts_with("SCAN (subquery");
            assert!(!scans && !step.contains("TEMP B-TREE"), "{step}\n{sql}");
        }
    }
    let search = plan(&handle, user::SEARCH).await.join("\n");
    for index in
        ["users_name (name_key=?", "users_email (email_key=? AND id>?)", "users_phone (phone=? AND id>?)"]
    {
        assert!(search.contains(index), "{index}\n{search}");
    }
}

async fn plan(handle: &SqliteHandle, sql: &str) -> Vec<String> {
    let sql = format!("EXPLAIN QUERY PLAN {sql}");
    let explain = move |connection: &Connection| {
        let mut explain = connection.prepare(&sql)?;
        let nothing = vec![rusqlite::types::Null; explain.parameter_count()];
        let steps = explain.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))?;
        Ok(steps.collect::<Result<Vec<String>, _>>()?)
    };
    handle.sqlite.readers.read(explain).await.unwrap()
}

#[tokio::test]
async fn update_names_no_unchanged_indexed_column() {
    let handle = open_in_memory().await.unwrap();
    let users = handle.stores().users;
    let before = create(&handle, new_user(1)).await.unwrap();
    let patch = UserPatch { age: Some(9), ..UserPatch::default() };
    let after = users.update_user(id(1), patch, write()).await.unwrap().record;
    assert_eq!(after, User { age: 9, version: before.version.next(), ..before });
    assert!(["name_key", "email", "phone", "deleted"].iter().all(|column| !user::UPDATE.contains(column)));
}
