//! Answers that are lost on the way, made by the server's own fail points. They are one switch for the whole
//! server, so each names the connections that it concerns by their application.

#![expect(clippy::unwrap_used, reason = "tests")]

use crate::server;
use std::{sync::Arc, time::Duration};

use kith_store::{
    DialogKey, DialogMark, DialogPatch, MarkKind, NewUser, Outcome, ReadMark, SecretChange, SecretOwner,
    StoreError, Stored, StoredSecret, Stores, Timestamp, UserId, UserPatch, Version, Write,
    conformance::sample::{bare_user, requested, write},
};
use kith_store_cluster::{MongoOptions, connect};
use mongodb::{
    Client, Database,
    bson::{Document, doc},
};
use tokio::sync::{Mutex, MutexGuard};

/// The server has one fail point of each kind.
static FAIL_POINT: Mutex<()> = Mutex::const_new(());

/// Stores whose connections carry a separate name, and a switch for their faults.
pub(crate) struct FaultyStores {
    pub(crate) stores: Stores,
    admin: Client,
    app: String,
    _guard: server::DatabaseGuard,
    _alone: MutexGuard<'static, ()>,
}

impl FaultyStores {
    pub(crate) async fn open() -> Self {
        let alone = FAIL_POINT.lock().await;
        let options = server::options();
        let app = options.database.clone();
        let (_, guard) = server::open_with(options.clone()).await;
        let joint = if options.uri.contains('?') { '&' } else { '?' };
        let uri = format!("{}{joint}appName={app}", options.uri);
        let stores = connect(MongoOptions { uri, ..options.clone() }).await.unwrap().stores();
        let admin = Client::with_uri_str(&options.uri).await.unwrap();
        Self { stores, admin, app, _guard: guard, _alone: alone }
    }

    /// The next commands with these names, `times` of them, fail as `how` says.
    pub(crate) async fn fail(&self, commands: &[&str], times: i32, how: Document) {
        let mut data = doc! { "failCommands": commands, "appName": &self.app };
        data.extend(how);
        let mode = doc! { "times": times };
        let command = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
        self.admin.database("admin").run_command(command).await.unwrap();
    }

    /// The driver's own view of the database.
    pub(crate) fn database(&self) -> Database {
        // The connections have the same name.
        self.admin.database(&self.app)
    }

    pub(crate) async fn heal(&self) {
        let command = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        self.admin.database("admin").run_command(command).await.unwrap();
    }
}

fn ann(secrets: SecretChange) -> NewUser {
    NewUser { secrets, ..bare_user(7, "ann") }
}

fn secret() -> SecretChange {
    SecretChange::from([("pwd".to_owned(), Some(StoredSecret::new("sealed".to_owned())))])
}

fn older() -> UserPatch {
    UserPatch { age: Some(8), ..UserPatch::default() }
}

fn id() -> UserId {
    UserId::new(7).unwrap()
}

pub(crate) fn cut() -> Document {
    doc! { "closeConnection": true }
}

/// The server does the command, and then says that the majority is not known to have it.
pub(crate) fn majority_unknown(code: i32) -> Document {
    doc! { "writeConcernError": { "code": code, "errmsg": "made by a test" } }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn a_cut_connection_does_not_fail_a_write() {
    let faulty = FaultyStores::open().await;
    faulty.fail(&["insert"], 1, cut()).await;
    let made = faulty.stores.users.create_user(ann(secret()), requested("r", 7)).await.unwrap();
    faulty.fail(&["findAndModify"], 1, cut()).await;
    let changed = faulty.stores.users.update_user(id(), older(), write()).await.unwrap();
    faulty.heal().await;
    assert_eq!((made.record.version, changed.record.version), (Version::FIRST, Version::FIRST.next()));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn update_with_lost_answer_is_done_once() {
    let faulty = FaultyStores::open().await;
    let users = Arc::clone(&faulty.stores.users);
    users.create_user(ann(SecretChange::new()), write()).await.unwrap();
    // Done, but answered in a way that makes the driver send it again.
    let mut lost = majority_unknown(64);
    lost.insert("errorLabels", ["RetryableWriteError"].as_slice());
    faulty.fail(&["findAndModify"], 1, lost).await;
    let changed = users.update_user(id(), older(), write()).await.unwrap();
    faulty.heal().await;
    assert_eq!(changed.record.version, Version::FIRST.next());
    assert_eq!(users.user(id()).await.unwrap(), Stored::Live(changed.record.into()));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn an_insert_that_meets_itself_is_no_conflict() {
    let faulty = FaultyStores::open().await;
    let users = Arc::clone(&faulty.stores.users);
    // The insert is done; its second sending is refused, and that comes back.
    faulty.fail(&["insert"], 1, majority_unknown(11000)).await;
    let made = users.create_user(ann(SecretChange::new()), write()).await.unwrap();
    faulty.heal().await;
    assert_eq!(made.record.version, Version::FIRST);
    assert!(!made.replayed);
    assert_eq!(users.user(id()).await.unwrap(), Stored::Live(made.record.into()));
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn silent_majority_leaves_outcome_unknown() {
    let faulty = FaultyStores::open().await;
    faulty.fail(&["insert"], 1, majority_unknown(64)).await;
    let made = faulty.stores.users.create_user(ann(SecretChange::new()), write()).await;
    faulty.heal().await;
    let error = made.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
    let there = async {
        while faulty.stores.users.user(id()).await.unwrap() == Stored::Never {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), there).await.unwrap();
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn unknown_commit_is_replayed_by_request_id() {
    let faulty = FaultyStores::open().await;
    let users = Arc::clone(&faulty.stores.users);
    faulty.fail(&["commitTransaction"], 100, majority_unknown(64)).await;
    let error = users.create_user(ann(secret()), requested("r", 7)).await.unwrap_err();
    faulty.heal().await;
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    let again = users.create_user(ann(secret()), requested("r", 7)).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.record.version, Version::FIRST);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn commit_with_lost_answers_happens_once() {
    let faulty = FaultyStores::open().await;
    let users = Arc::clone(&faulty.stores.users);
    faulty.fail(&["commitTransaction"], 3, cut()).await;
    let made = users.create_user(ann(secret()), requested("r", 7)).await.unwrap();
    faulty.heal().await;
    assert!(!made.replayed);
    assert_eq!(users.user(id()).await.unwrap(), Stored::Live(made.record.into()));
    let kept = faulty.stores.secrets.secret(SecretOwner::User(id()), "pwd").await.unwrap();
    assert_eq!(kept.unwrap().expose(), "sealed");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn dead_transaction_leaves_nothing() {
    let faulty = FaultyStores::open().await;
    let users = Arc::clone(&faulty.stores.users);
    // The record and the secret are written; the request's memory is refused for good.
    let refused = doc! { "errorCode": 13 };
    faulty.fail(&["update"], 1, refused).await;
    let error = users.create_user(ann(secret()), requested("r", 7)).await.unwrap_err();
    faulty.heal().await;
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    assert_eq!(users.user(id()).await.unwrap(), Stored::Never);
    assert_eq!(faulty.stores.secrets.secret(SecretOwner::User(id()), "pwd").await.unwrap(), None);
    let made = users.create_user(ann(secret()), requested("r", 7)).await.unwrap();
    assert!(!made.replayed);
}

fn dialog(user: i64) -> DialogKey {
    DialogKey { user: UserId::new(user).unwrap(), conversation: "g9".parse().unwrap() }
}

/// Marks by two users.
fn marks(kind: &MarkKind) -> [DialogMark; 2] {
    [7, 8].map(|user| DialogMark { key: dialog(user), mark: ReadMark::direct(kind.clone()), expected: None })
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn mark_without_majority_has_unknown_outcome() {
    let faulty = FaultyStores::open().await;
    let dialogs = Arc::clone(&faulty.stores.dialogs);
    faulty.fail(&["update"], 1, majority_unknown(64)).await;
    let error = dialogs.mark_dialogs(&marks(&MarkKind::UpTo(5)), Timestamp::now()).await.unwrap_err();
    faulty.heal().await;
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::Unknown, .. }), "{error:?}");
    dialogs.mark_dialogs(&marks(&MarkKind::UpTo(5)), Timestamp::now()).await.unwrap();
    let found = dialogs.dialogs(&[dialog(7), dialog(8)]).await.unwrap();
    assert!(found.iter().all(|dialog| dialog.version == Version::FIRST), "once each: {found:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn refused_marks_are_not_applied() {
    let faulty = FaultyStores::open().await;
    let dialogs = Arc::clone(&faulty.stores.dialogs);
    faulty.fail(&["update"], 1, doc! { "errorCode": 13 }).await;
    let error = dialogs.mark_dialogs(&marks(&MarkKind::UpTo(5)), Timestamp::now()).await.unwrap_err();
    faulty.heal().await;
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn marks_that_fail_after_others_are_unknown() {
    let faulty = FaultyStores::open().await;
    let dialogs = Arc::clone(&faulty.stores.dialogs);
    let hidden = DialogMark { key: dialog(7), mark: ReadMark::direct(MarkKind::Hidden(3)), expected: None };
    dialogs.mark_dialogs(&[hidden], Timestamp::now()).await.unwrap();
    // User 8's mark is made; user 7's dialog has to be read.
    faulty.fail(&["find"], 1, doc! { "errorCode": 13 }).await;
    let error = dialogs.mark_dialogs(&marks(&MarkKind::UpTo(5)), Timestamp::now()).await.unwrap_err();
    faulty.heal().await;
    assert_eq!(error.outcome(), Outcome::Unknown, "{error:?}");
    let found = dialogs.dialogs(&[dialog(8)]).await.unwrap();
    assert_eq!(found[0].read.read_seq(), 5);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn settings_whose_answer_was_lost_change_once() {
    let faulty = FaultyStores::open().await;
    let dialogs = Arc::clone(&faulty.stores.dialogs);
    let now = Timestamp::now();
    for commands in [["findAndModify"], ["commitTransaction"]] {
        faulty.fail(&commands, 1, cut()).await;
        let write = if commands == ["findAndModify"] { Write::at(now) } else { requested("r", 7) };
        dialogs.change_dialog(dialog(7), DialogPatch::default(), write).await.unwrap();
    }
    faulty.heal().await;
    let found = dialogs.dialogs(&[dialog(7)]).await.unwrap();
    assert_eq!(found[0].settings_version, Version::FIRST.next());
}

#[tokio::test]
async fn away_server_fails_in_time_and_applies_nothing() {
    let uri = "mongodb://127.0.0.1:1/?replicaSet=rs0";
    let limit = Duration::from_millis(200);
    let options = MongoOptions { server_selection: limit, ..MongoOptions::new(uri, "kith") };
    let stores = connect(options).await.unwrap().stores();
    let error = stores.users.create_user(ann(SecretChange::new()), write()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { outcome: Outcome::NotApplied, .. }), "{error:?}");
    let error = stores.node.ping(limit).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn no_error_repeats_a_name_or_an_address() {
    let faulty = FaultyStores::open().await;
    faulty.fail(&["insert"], 1, doc! { "errorCode": 121 }).await;
    let made = faulty.stores.users.create_user(ann(SecretChange::new()), write()).await;
    faulty.heal().await;
    let shown = format!("{:?}", made.unwrap_err());
    for private in ["ann", "27017", "127.0.0.1", faulty.app.as_str()] {
        assert!(!shown.contains(private), "{shown}");
    }
}
