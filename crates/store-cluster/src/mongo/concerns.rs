//! Reads that may fill a cache use the primary with read concern majority; acknowledged writes are on a
//! majority. The commands are those that the driver sent, whatever the connection string asks for.

use std::{sync::Arc, time::Duration};

use kith_store::{
    AudienceId, DialogKey, DialogList, DialogMark, DialogPatch, GroupId, GroupPatch, GroupWords, Keyword,
    MarkKind, NewGroup, NewUser, NoticeId, ReadMark, ReaderId, ReaderKey, ReaderMark, Request, SecretChange,
    SecretOwner, StoredSecret, Stores, Timestamp, UserId, UserName, UserPatch, Write,
    conformance::sample::{bare_group, bare_user, write},
};
use mongodb::{
    bson::Document,
    event::{EventHandler, command::CommandEvent},
};
use parking_lot::Mutex;

use super::{
    connect::{ClusterHandle, driver_options},
    database::MongoOptions,
};

/// Returns the commands with these names that were sent while `work` ran, over connections that ask for less.
#[expect(clippy::disallowed_methods, reason = "tests have no configuration")]
pub(super) async fn commands(kinds: &[&str], work: impl AsyncFnOnce(&Stores)) -> Vec<Document> {
    let uri = std::env::var("KITH_TEST_MONGODB").expect("KITH_TEST_MONGODB names a MongoDB replica set");
    let joint = if uri.contains('?') { '&' } else { '?' };
    let less = "readConcernLevel=local&readPreference=secondaryPreferred&w=1&journal=false";
    let name = format!("kith_test_{}", uuid::Uuid::new_v4().simple());
    let options = MongoOptions::new(format!("{uri}{joint}{less}"), name);
    let mut driver = driver_options(&options).await.unwrap();
    let sent = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&sent);
    driver.command_event_handler = Some(EventHandler::callback(move |event| {
        if let CommandEvent::Started(started) = event {
            to.lock().push((started.command_name, started.command));
        }
    }));
    let handle = ClusterHandle::over(driver, options).unwrap();
    let stores = handle.stores();
    stores.migrations.migrate().await.unwrap();
    sent.lock().clear();
    work(&stores).await;
    let all = std::mem::take(&mut *sent.lock());
    handle.mongo.database.drop().await.unwrap();
    all.into_iter().filter(|(name, _)| kinds.contains(&name.as_str())).map(|(_, command)| command).collect()
}

/// Asserts the level for reads outside transactions.
pub(super) fn assert_reads(commands: &[Document], level: &str, at_least: usize) {
    assert!(commands.len() >= at_least, "{commands:?}");
    for command in commands {
        let text = |document: &str, field: &str| {
            command.get_document(document).ok().and_then(|document| document.get_str(field).ok())
        };
        assert_eq!(text("readConcern", "level"), Some(level), "{command}");
        assert!(matches!(text("$readPreference", "mode"), None | Some("primary")), "{command}");
    }
}

pub(super) fn assert_majority_writes(commands: &[Document], at_least: usize) {
    assert!(commands.len() >= at_least, "{commands:?}");
    for command in commands {
        let concern = command.get_document("writeConcern").unwrap();
        assert!(concern.get_str("w").is_ok_and(|w| w == "majority"), "{command}");
        assert!(concern.get_bool("j").is_ok_and(|journaled| journaled), "{command}");
    }
}

fn user(id: i64, name: &str, secrets: SecretChange) -> NewUser {
    NewUser { secrets, ..bare_user(id, name) }
}

fn group(id: i64) -> NewGroup {
    bare_group(id, "chess")
}

fn dialog() -> DialogKey {
    DialogKey { user: UserId::new(7).unwrap(), conversation: "g9".parse().unwrap() }
}

async fn mark(stores: &Stores, kind: MarkKind) {
    let mark = DialogMark { key: dialog(), mark: ReadMark::direct(kind), expected: None };
    stores.dialogs.mark_dialogs(&[mark], Timestamp::now()).await.unwrap()[0].clone().unwrap();
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn reads_ask_the_primary_for_majority_data() {
    let seen = commands(&["find"], async |stores| {
        let (id, group) = (UserId::new(1).unwrap(), GroupId::new(1).unwrap());
        stores.users.user(id).await.unwrap();
        stores.users.users(&[id]).await.unwrap();
        stores.users.user_by_name(&UserName::new("ann").unwrap()).await.unwrap();
        for keyword in ["ann", "ann@example.org", "+15550000000"] {
            stores.users.search_users(&Keyword::new(keyword).unwrap(), None, 20).await.unwrap();
        }
        stores.users.scan_users(None, 20).await.unwrap();
        stores.groups.group(group).await.unwrap();
        stores.groups.groups(&[group]).await.unwrap();
        stores.groups.search_groups(&GroupWords::exact_key("chess"), None, 20).await.unwrap();
        stores.groups.scan_groups(None, 20).await.unwrap();
        stores.secrets.secret(SecretOwner::User(id), "pwd").await.unwrap();
        stores.node.epoch().await.unwrap();
        stores.coordination.mark("feed").await.unwrap();
    });
    assert_reads(&seen.await, "majority", 16);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn reads_of_dialogs_ask_for_what_a_majority_has() {
    let seen = commands(&["find"], async |stores| {
        let key = dialog();
        stores.dialogs.dialogs(&[key]).await.unwrap();
        stores.dialogs.dialog_list(key.user, DialogList::All, None, 20).await.unwrap();
        stores.dialogs.dialog_conversations(key.user, None, 20).await.unwrap();
        stores.conversations.conversations(&[key.conversation]).await.unwrap();
        // The second mark meets unread ranges, and reads them.
        for kind in [MarkKind::Hidden(5), MarkKind::UpTo(3)] {
            mark(stores, kind).await;
        }
    });
    assert_reads(&seen.await, "majority", 5);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn strong_read_asks_a_confirmed_primary() {
    let seen = commands(&["find"], async |stores| {
        stores.strong.strong_users(&[UserId::new(1).unwrap()]).await.unwrap();
        stores.strong.strong_groups(&[GroupId::new(1).unwrap(), GroupId::new(2).unwrap()]).await.unwrap();
        stores.conversations.strong_conversations(&[dialog().conversation]).await.unwrap();
        // This read must be linearizable: a deposed primary could return no erasure, or an erasure that has
        // ended.
        stores.erasures.begin_erasure(UserId::new(1).unwrap(), false, Timestamp::now()).await.unwrap();
    });
    assert_reads(&seen.await, "linearizable", 4);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn feed_reads_what_a_majority_has() {
    let seen = commands(&["aggregate"], async |stores| {
        let feed = &stores.feeds[0].feed;
        let mark = feed.open(None).await.unwrap().next(Duration::ZERO).await.unwrap().mark;
        feed.open(Some(&mark)).await.unwrap();
    });
    assert_reads(&seen.await, "majority", 2);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn writes_need_a_journaled_majority() {
    let seen = commands(&["insert", "update", "findAndModify"], async |stores| {
        let (id, of_group) = (UserId::new(1).unwrap(), GroupId::new(1).unwrap());
        stores.users.create_user(user(1, "ann", SecretChange::new()), write()).await.unwrap();
        stores.users.update_user(id, UserPatch::default(), write()).await.unwrap();
        stores.groups.create_group(group(1), write()).await.unwrap();
        stores.groups.update_group(of_group, GroupPatch::default(), write()).await.unwrap();
        stores.node.raise_epoch(0, "a").await.unwrap();
        stores.coordination.lease("feed", "a", Duration::from_secs(60)).await.unwrap();
        stores.coordination.set_mark("feed", "a", b"1").await.unwrap();
        stores.coordination.release("feed", "a").await.unwrap();
        stores.dialogs.make_dialogs(&[dialog()], Timestamp::now()).await.unwrap();
        for kind in [MarkKind::Hidden(5), MarkKind::UpTo(3)] {
            mark(stores, kind).await;
        }
        stores.dialogs.change_dialog(dialog(), DialogPatch::default(), write()).await.unwrap();
        let ends = [(dialog().conversation, 5)];
        stores.dialogs.reduce_dialogs(dialog().user, &ends, Timestamp::now()).await.unwrap();
        stores.conversations.raise_min_seq(dialog().conversation, 5, true).await.unwrap();
        let erasure = stores.erasures.begin_erasure(id, false, Timestamp::now()).await.unwrap();
        stores.erasures.save_erasure(&erasure).await.unwrap();
    });
    assert_majority_writes(&seen.await, 18);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn transactions_need_a_journaled_majority() {
    let kinds = ["commitTransaction", "insert", "find", "findAndModify", "update", "delete"];
    let seen = commands(&kinds, async |stores| {
        let secrets = SecretChange::from([("pwd".to_owned(), Some(StoredSecret::new("sealed".to_owned())))]);
        let request = Request { id: "r1".parse().unwrap(), fingerprint: [7; 32] };
        let requested = Write { request: Some(request), ..write() };
        stores.users.create_user(user(1, "ann", secrets), requested).await.unwrap();
        stores.users.delete_user(UserId::new(1).unwrap(), Timestamp(0), write()).await.unwrap();
        let request = Request { id: "r2".parse().unwrap(), fingerprint: [7; 32] };
        let requested = Write { request: Some(request), ..write() };
        stores.dialogs.change_dialog(dialog(), DialogPatch::default(), requested).await.unwrap();
        let (upkeep, id) = (&stores.message_upkeep, UserId::new(1).unwrap());
        upkeep.erase_document(dialog().conversation, 1, id, Timestamp::now()).await.unwrap();
    });
    let (commits, steps): (Vec<Document>, Vec<Document>) =
        seen.await.into_iter().partition(|command| command.contains_key("commitTransaction"));
    assert_majority_writes(&commits, 3);
    for step in steps {
        assert!(step.contains_key("txnNumber") && !step.contains_key("writeConcern"), "{step}");
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn replay_waits_for_majority_of_first_write() {
    let seen = commands(&["commitTransaction", "abortTransaction"], async |stores| {
        let request = Request { id: "r1".parse().unwrap(), fingerprint: [7; 32] };
        let requested = Write { request: Some(request), ..write() };
        for replayed in [false, true] {
            let made = stores.users.create_user(user(1, "ann", SecretChange::new()), requested.clone()).await;
            assert_eq!(made.unwrap().replayed, replayed);
        }
    });
    let seen = seen.await;
    assert!(seen.iter().all(|command| command.contains_key("commitTransaction")), "{seen:?}");
    assert_majority_writes(&seen, 2);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn notices_are_read_and_marked_with_majority() {
    let audience = AudienceId::new(1).unwrap();
    let key = ReaderKey { audience, reader: ReaderId::new(7).unwrap() };
    let read = commands(&["find", "aggregate"], async |stores| {
        stores.notices.audiences(&[audience], false).await.unwrap();
        stores.notices.audience_list(None, 10).await.unwrap();
        stores.notices.notices(&[NoticeId::new(1).unwrap()], false).await.unwrap();
        stores.notices.expired_notices(Timestamp::now(), 10).await.unwrap();
        stores.notice_readers.readers(&[key], false).await.unwrap();
        stores.notice_readers.scan_readers(audience, 0, 9, 0, 9).await.unwrap();
        stores.notice_readers.count_readers(audience).await.unwrap();
    });
    assert_reads(&read.await, "majority", 8);
    let strong = commands(&["find"], async |stores| {
        stores.notices.audiences(&[audience], true).await.unwrap();
        stores.notices.notices(&[NoticeId::new(1).unwrap()], true).await.unwrap();
        stores.notice_readers.readers(&[key], true).await.unwrap();
    });
    assert_reads(&strong.await, "linearizable", 3);
    let written = commands(&["insert", "findAndModify"], async |stores| {
        let new = [(key.reader, Timestamp(0))];
        stores.notice_readers.register_readers(audience, &new, 9).await.unwrap();
        stores.notice_readers.mark_reader(key, ReaderMark::Read(vec![3]), &[]).await.unwrap();
    });
    assert_majority_writes(&written.await, 3);
}
