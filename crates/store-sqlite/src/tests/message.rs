//! Messages: restarts, commits, plans, damage.

use kith_store::{
    Appended, ContentChange, Message, MessageChange, MessageChangeOutcome, MessageKey, MessageKind,
    NewMessage, Recalled, RecalledBy, Seq, StoredHeader,
    conformance::message_sample::{self, log_of, replayed},
};
use rusqlite::{StatementStatus, params};

use super::*;
use crate::{
    conversation,
    message::{self, HeaderTables, append, change, erase, erasure, page, reaction, upkeep},
    notice::{self, reader},
    sequence,
};

/// A message without sender and id.
pub(super) fn message(text: &str) -> NewMessage {
    let (key, sender, client_message_id) = (MessageKey::of(None, text), None, None);
    NewMessage { key, sender, client_message_id, ..message_sample::message(text) }
}

fn batch(ids: &str, count: usize) -> Vec<NewMessage> {
    (1..=count).map(|number| message(&format!("{ids}{number}"))).collect()
}

async fn append_to(handle: &SqliteHandle, group: i64, batch: &[NewMessage]) -> Vec<Appended> {
    handle.stores().messages.append(log_of(group), batch).await.unwrap()
}

fn new_from(first: Seq, count: usize) -> Vec<Appended> {
    (first..).take(count).map(Appended::New).collect()
}

fn new_number(appended: &Appended) -> Seq {
    match appended {
        Appended::New(seq) => *seq,
        Appended::Replayed { .. } | Appended::OtherContent => panic!("not appended: {appended:?}"),
    }
}

async fn first_page(handle: &SqliteHandle, group: i64) -> Result<Vec<Message>, StoreError> {
    handle.stores().messages.messages(log_of(group), 1, 100).await
}

async fn bodies(handle: &SqliteHandle, group: i64) -> Vec<String> {
    let found = first_page(handle, group).await.unwrap();
    found.into_iter().map(|one| String::from_utf8(one.body.to_vec()).unwrap()).collect()
}

#[tokio::test]
async fn numbers_go_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    append_to(&handle, 9, &batch("a", 2)).await;
    append_to(&handle, 8, &batch("b", 1)).await;
    handle.close().await;
    let again = open(options(&folder)).await.unwrap();
    assert_eq!(bodies(&again, 9).await, ["a1", "a2"]);
    let appended = append_to(&again, 9, &[message("a2"), message("a3")]).await;
    assert_eq!(appended, [replayed(2), Appended::New(3)]);
    assert_eq!(append_to(&again, 8, &batch("c", 1)).await, new_from(2, 1));
    assert_eq!(bodies(&again, 9).await, ["a1", "a2", "a3"]);
}

#[tokio::test]
async fn acknowledged_messages_are_in_copied_files() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let handle = open_migrated(&folder).await;
    for number in 1..=20 {
        append_to(&handle, 9, &[message(&format!("a{number}"))]).await;
    }
    // Copies what a machine that loses power at this moment has on its disk.
    std::fs::create_dir(copy.path().join("data")).unwrap();
    for name in ["kith.db", "kith.db-wal"] {
        std::fs::copy(folder.path().join("data").join(name), copy.path().join("data").join(name)).unwrap();
    }
    let copied = open(options(&copy)).await.unwrap();
    assert_eq!(bodies(&copied, 9).await.len(), 20);
    assert_eq!(append_to(&copied, 9, &batch("b", 1)).await, new_from(21, 1));
}

#[tokio::test]
async fn appends_that_wait_together_share_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let wal = folder.path().join("data").join("kith.db-wal");
    let before = commits(&wal);
    let (release, released) = hold_writer(&handle).await;
    let mut appends = JoinSet::new();
    for number in 0..30 {
        let messages = handle.stores().messages;
        let (group, batch) = (number % 3 + 1, batch(&format!("{number}-"), 2));
        appends.spawn(async move { (group, messages.append(log_of(group), &batch).await.unwrap()) });
    }
    let_others_queue().await;
    drop(release);
    released.await;
    let appended = appends.join_all().await;
    assert_eq!(commits(&wal) - before, 1);
    for group in 1..=3 {
        let of_group = appended.iter().filter(|(of, _)| *of == group);
        let mut numbers: Vec<Seq> = of_group.flat_map(|(_, results)| results).map(new_number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
        assert_eq!(bodies(&handle, group).await.len(), 20);
    }
}

#[tokio::test]
async fn append_on_a_full_disk_uses_no_number() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    append_to(&handle, 9, &batch("a", 1)).await;
    limit_growth(&handle, 20).await;
    let large = |text: &String| NewMessage { body: text.repeat(60_000).into(), ..message(text) };
    let batch: Vec<_> = ["b", "c", "d"].map(str::to_owned).iter().map(large).collect();
    let error = handle.stores().messages.append(log_of(9), &batch).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(bodies(&handle, 9).await, ["a1"], "the messages before the one that failed");
    limit_growth(&handle, 1_000).await;
    assert_eq!(append_to(&handle, 9, &batch).await, new_from(2, 3));
}

fn recall(seq: Seq, event: NewMessage) -> MessageChange {
    let recalled = Recalled { by: RecalledBy::Service, time: Timestamp(2_000) };
    let event = NewMessage { key: MessageKey::of_recall(seq), kind: MessageKind::Event, ..event };
    MessageChange { seq, content: ContentChange::Recall(recalled), event }
}

#[tokio::test]
async fn recall_leaves_no_text_and_a_new_version() {
    let handle = open_in_memory().await.unwrap();
    append_to(&handle, 9, &[message("private")]).await;
    let changed = handle.stores().messages.change(log_of(9), &recall(1, message("event"))).await.unwrap();
    assert!(
        matches!(changed, MessageChangeOutcome::Done { event_seq: 2, replayed: false, .. }),
        "{changed:?}"
    );
    let rows = |connection: &Connection| {
        let count = "SELECT count(*) FROM messages WHERE instr(body, CAST('private' AS BLOB)) > 0";
        let version = "SELECT version FROM messages WHERE seq = 1";
        Ok((
            connection.query_row(count, [], |row| row.get::<_, i64>(0))?,
            connection.query_row(version, [], |row| row.get::<_, i64>(0))?,
        ))
    };
    assert_eq!(handle.sqlite.writer.write(rows).await.unwrap(), (0, 2));
}

#[tokio::test]
async fn recall_on_a_full_disk_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    append_to(&handle, 9, &batch("a", 1)).await;
    limit_growth(&handle, 20).await;
    let large = NewMessage { body: vec![7; 1_000_000].into(), ..message("event") };
    let error = handle.stores().messages.change(log_of(9), &recall(1, large)).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(bodies(&handle, 9).await, ["a1"]);
    assert_eq!(first_page(&handle, 9).await.unwrap()[0].recalled, None);
}

#[tokio::test]
async fn damaged_message_is_corrupt_and_not_shown() {
    let of = |sql: &'static str| async move {
        let handle = open_in_memory().await.unwrap();
        append_to(&handle, 9, &[message("private")]).await;
        assert_eq!(bodies(&handle, 9).await, ["private"]);
        let damage = move |connection: &Connection| Ok(connection.execute(sql, [])?);
        assert_eq!(handle.sqlite.writer.write(damage).await.unwrap(), 1, "{sql}");
        first_page(&handle, 9).await.unwrap_err()
    };
    for sql in [
        "UPDATE messages SET body = x''",
        "UPDATE messages SET body = substr(body, 1, length(body) - 1)",
        "UPDATE messages SET body = zeroblob(20)",
        "UPDATE messages SET body = CAST('private' AS BLOB)",
        "UPDATE messages SET sender = -1",
    ] {
        let error = of(sql).await;
        assert!(matches!(error, StoreError::Corrupt { .. }), "{sql}: {error:?}");
        assert!(!format!("{error:?}").contains("private"), "{error:?}");
    }
}

/// The highest times in all documents, as appends or the migration wrote them.
fn document_times(connection: &Connection) -> Result<Vec<(String, Seq, i64, bool)>, crate::error::Failure> {
    let text = "SELECT conversation, first, highest_ms, settled FROM message_documents ORDER BY 1, 2";
    crate::statement::all(connection, text, [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })
}

#[tokio::test]
async fn migration_adds_times_to_older_documents() {
    const MIGRATION: &str = include_str!("../../../../migrations/sqlite/0018_message_times.sql");
    let handle = open_in_memory().await.unwrap();
    let times = (0..350).map(|at| [500, 7, 900, 3][at % 4] * i64::try_from(at % 90).unwrap());
    let sent_at = |(at, time): (usize, i64)| NewMessage { sent: Timestamp(time), ..message(&at.to_string()) };
    let messages: Vec<_> = times.enumerate().map(sent_at).collect();
    for (group, count) in [(8, 350), (9, 120)] {
        for some in messages[..count].chunks(70) {
            append_to(&handle, group, some).await;
        }
    }
    let (by_appends, by_migration) = handle
        .sqlite
        .writer
        .exclusively(|connection| {
            let by_appends = document_times(connection)?;
            connection.execute_batch(
                "DROP TABLE message_documents; CREATE INDEX messages_aged ON messages (seq)",
            )?;
            connection.execute_batch(MIGRATION)?;
            Ok((by_appends, document_times(connection)?))
        })
        .await
        .unwrap();
    assert_eq!(by_appends.len(), 6);
    assert_eq!(by_migration, by_appends);
}

#[tokio::test]
async fn statement_is_planned_once_for_all_values() {
    let handle = open_in_memory().await.unwrap();
    append_to(&handle, 9, &batch("a", 3)).await;
    let planned_again = handle.sqlite.readers.read(|connection| {
        let mut read = connection.prepare(page::PAGE)?;
        for (first, count) in [(1, 3), (2, 2), (3, 1)] {
            let rows = read.query_map(params!["g9", first, 3], |row| row.get::<_, i64>(0))?;
            assert_eq!(rows.count(), count);
        }
        Ok(read.get_status(StatementStatus::RePrepare))
    });
    assert_eq!(planned_again.await.unwrap(), 0);
}

#[tokio::test]
async fn queries_of_messages_read_their_index() {
    let handle = open_in_memory().await.unwrap();
    for (sql, expected) in [
        (page::PAGE, "messages USING PRIMARY KEY (conversation=? AND seq>? AND seq<?)"),
        (page::LAST, "messages USING PRIMARY KEY (conversation=?)"),
        (page::VERSIONS, "messages USING PRIMARY KEY (conversation=? AND seq>? AND seq<?)"),
        (message::END, "messages USING PRIMARY KEY (conversation=?)"),
        (message::BEGINNING, "messages USING PRIMARY KEY (conversation=?)"),
        (message::SENT, "messages USING PRIMARY KEY (conversation=? AND seq=?)"),
        (append::BY_KEY, "messages USING INDEX messages_sent (conversation=? AND key=?)"),
        (change::BODY, "messages USING PRIMARY KEY (conversation=? AND seq=?)"),
        (change::UPDATE, "messages USING PRIMARY KEY (conversation=? AND seq=?)"),
        (erase::FROM, "messages USING PRIMARY KEY (conversation=? AND seq>?)"),
        (erase::SENT_BY, "messages USING PRIMARY KEY (conversation=? AND seq>? AND seq<?)"),
        (erase::ERASE, "messages USING PRIMARY KEY (conversation=? AND seq=?)"),
        (upkeep::REMOVE, "messages USING PRIMARY KEY (conversation=? AND seq<?)"),
        (upkeep::AGED, "INDEX message_documents_aging (highest_ms>? AND highest_ms<?)"),
        (upkeep::SETTLE, "message_documents USING PRIMARY KEY (conversation=? AND first=?)"),
        (upkeep::REMOVE_DOCUMENTS, "message_documents USING PRIMARY KEY (conversation=? AND first<?)"),
        (message::BEFORE, "INDEX message_documents_by_time (conversation=? AND highest_ms<?)"),
        (message::SENT_SINCE, "messages USING PRIMARY KEY (conversation=? AND seq>? AND seq<?)"),
        (append::BEGIN_DOCUMENT, "INDEX message_documents_by_time (conversation=?)"),
        (conversation::UNTRIMMED, "INDEX conversations_untrimmed ("),
        (erasure::UNFINISHED, "INDEX erasures_unfinished ("),
        (erasure::BY_USER, "erasures USING INTEGER PRIMARY KEY (rowid=?)"),
        (sequence::LAST, "sequences USING PRIMARY KEY (name=?)"),
        (reaction::SUMMARY, "reaction_summaries USING PRIMARY KEY (conversation=? AND document=?)"),
        (reaction::OWN, "reactions USING PRIMARY KEY (conversation=? AND seq=? AND user_id=?)"),
        (reaction::LIST, "INDEX reactions_by_kind (conversation=? AND seq=? AND kind=?"),
        (reaction::OF_USER, "INDEX reactions_by_user (user_id=?)"),
        (reaction::REMOVE, "kind=?)"),
        (reaction::REMOVE_ALL, "(conversation=? AND seq=?)"),
        (reaction::REMOVE_BELOW, "(conversation=? AND seq<?)"),
        (reaction::REMOVE_SUMMARIES, "PRIMARY KEY (conversation=? AND document<?)"),
        (notice::AUDIENCE, "audiences USING INTEGER PRIMARY KEY (rowid=?)"),
        (notice::AUDIENCES, "audiences USING INTEGER PRIMARY KEY (rowid>?)"),
        (notice::NOTICE, "notices USING INTEGER PRIMARY KEY (rowid=?)"),
        (notice::DELETE_NOTICE, "notices USING INTEGER PRIMARY KEY (rowid=?)"),
        (notice::EXPIRED, "INDEX notices_expired (expire_ms"),
        (reader::READER, "INDEX notice_readers_by_id (audience=? AND reader=?)"),
        (reader::LAST, "notice_readers USING PRIMARY KEY (audience=?)"),
        (reader::PUT, "notice_readers USING PRIMARY KEY (audience=? AND ordinal=?)"),
        (reader::SCAN, "notice_readers USING PRIMARY KEY (audience=? AND ordinal>? AND ordinal<?)"),
    ] {
        let plan = plan(&handle, sql).await.join("\n");
        assert!(plan.contains(expected) && !plan.contains("TEMP B-TREE"), "{expected}\n{plan}");
    }
}

/// Sets the flags in a log's rows, without the store.
fn silence(handle: &SqliteHandle, group: i64) -> impl Future<Output = ()> {
    let log = log_of(group).to_string();
    let silenced = handle.sqlite.writer.write(move |connection| {
        Ok(connection.execute("UPDATE messages SET flags = 1 WHERE conversation = ?1", [log])?)
    });
    async { assert!(silenced.await.unwrap() > 0) }
}

async fn silent_ones(handle: &SqliteHandle, group: i64) -> Vec<Seq> {
    let head = handle.stores().messages.heads(&[(log_of(group), 0)]).await.unwrap().remove(0);
    head.headers.iter().filter(|header| header.silent).map(|header| header.seq).collect()
}

#[tokio::test]
async fn headers_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    append_to(&handle, 9, &batch("a", 3)).await;
    append_to(&handle, 8, &batch("a", 3)).await;
    assert!(silent_ones(&handle, 9).await.is_empty());
    silence(&handle, 9).await;
    silence(&handle, 8).await;
    append_to(&handle, 9, &batch("b", 1)).await;
    assert!(silent_ones(&handle, 9).await.is_empty(), "the rows are not read again");
    assert_eq!(silent_ones(&handle, 8).await, [1, 2, 3], "those of another log are");
    handle.stores().messages.change(log_of(9), &recall(4, message("recall"))).await.unwrap();
    assert_eq!(silent_ones(&handle, 9).await, [1, 2, 3, 5], "after a change they are, with its event");
}

#[tokio::test]
async fn append_is_seen_by_next_head() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let messages = handle.stores().messages;
    let seen = async |above| {
        let head = messages.heads(&[(log_of(9), above)]).await.unwrap().remove(0);
        (head.last.unwrap().seq, head.headers.iter().map(|header| header.seq).collect::<Vec<_>>())
    };
    append_to(&handle, 9, &batch("a", 2)).await;
    assert_eq!(seen(Seq::MAX).await, (2, vec![]));
    assert_eq!(seen(0).await, (2, vec![1, 2]));
    for end in 3..=5 {
        append_to(&handle, 9, &batch(&end.to_string(), 1)).await;
        assert_eq!([seen(end).await, seen(end - 1).await], [(end, vec![]), (end, vec![end])]);
        assert_eq!(seen(0).await, (end, (1..=end).collect()));
    }
}

/// Interleaving: a list that misses its table reads rows, a message is recalled, and the list then keeps what
/// it read.
#[tokio::test]
async fn headers_read_before_a_change_are_not_used() {
    let tables = Arc::new(HeaderTables::default());
    let last = message("a").numbered(1);
    let headers = [StoredHeader::of(&last)];
    let put = |counts| tables.put(log_of(9), counts, &headers, &last);
    let is_known = || {
        let table = tables.get(log_of(9), tables.counts(log_of(9)));
        (table.is_some(), tables.head(log_of(9), 0).is_some())
    };
    let begun = tables.counts(log_of(9));
    drop(tables.changing(log_of(9)));
    put(begun);
    assert_eq!(is_known(), (false, false));
    put(tables.counts(log_of(9)));
    assert_eq!(is_known(), (true, true));
    let begun = tables.counts(log_of(9));
    drop(tables.appending(log_of(9)));
    put(begun);
    assert_eq!(is_known(), (true, false), "its headers are, and the end is not");
}

#[tokio::test]
async fn change_of_a_lost_caller_drops_headers() {
    let folder = tempfile::tempdir().unwrap();
    let handle = open_migrated(&folder).await;
    let messages = handle.stores().messages;
    append_to(&handle, 9, &batch("a", 2)).await;
    let is_recalled = async || {
        let head = messages.heads(&[(log_of(9), 0)]).await.unwrap().remove(0);
        head.headers[0].recalled
    };
    assert!(!is_recalled().await);
    let change = recall(1, message("recall"));
    tokio::select! {
        biased;
        _ = messages.change(log_of(9), &change) => panic!("its first poll only sends it"),
        () = std::future::ready(()) => {}
    }
    let seen = async {
        while !is_recalled().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap();
}
