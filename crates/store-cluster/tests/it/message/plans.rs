//! Every log command walks an index to what it needs, and no further. The commands are those that the server
//! saw.

use futures::TryStreamExt as _;
use kith_store::{ConversationId, LogHead, Seq, Stores, Timestamp};
use mongodb::{
    Database,
    bson::{Bson, Document, doc},
};

use super::{batch, fill, log, log_of, message};
use crate::server;

const BY_ID: &str = "IDHACK";
const ID: &str = "IXSCAN { _id: 1 }";
const SENT: &str = "IXSCAN { _id.c: 1, m.k: 1 }";
const BY_TIME: &str = "IXSCAN { _id.c: 1, hi: 1, _id.d: 1 }";

/// The profiler's note about one command.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProfiledCommand {
    command: String,
    plan: String,
    keys: i64,
    documents: i64,
}

fn noted(command: &str, plan: &str, keys: i64, documents: i64) -> ProfiledCommand {
    ProfiledCommand { command: command.to_owned(), plan: plan.to_owned(), keys, documents }
}

fn number(note: &Document, field: &str) -> i64 {
    match note.get(field) {
        Some(Bson::Int32(number)) => (*number).into(),
        Some(Bson::Int64(number)) => *number,
        other => panic!("{field} is {other:?}"),
    }
}

fn profiled_command(note: &Document) -> ProfiledCommand {
    let command = note.get_document("command").unwrap().keys().next().unwrap();
    let plan = note.get_str("planSummary").unwrap();
    noted(command, plan, number(note, "keysExamined"), number(note, "docsExamined"))
}

async fn notes(database: &Database) -> Vec<ProfiledCommand> {
    let filter = doc! { "ns": format!("{}.messages", database.name()), "planSummary": { "$exists": true } };
    let profile = database.collection::<Document>("system.profile");
    let notes = profile.find(filter).sort(doc! { "ts": 1 }).await.unwrap();
    let notes: Vec<Document> = notes.try_collect().await.unwrap();
    assert!(notes.iter().all(|note| !note.contains_key("hasSortStage")), "{notes:?}");
    notes.iter().map(profiled_command).collect()
}

/// Asserts what the commands in `work` looked at, over two logs; the first has 350 messages.
async fn assert_examined(expected: &[ProfiledCommand], work: impl AsyncFnOnce(&Stores)) {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    fill(&stores, &batch("m", 350)).await;
    stores.messages.append(log_of(90), &batch("other", 100)).await.unwrap();
    let database = server::database(&options).await;
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    work(&stores).await;
    assert_eq!(notes(&database).await, expected);
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn push_looks_at_one_document() {
    assert_examined(&[noted("findAndModify", ID, 1, 1)], async |stores| {
        stores.messages.append(log(), &[message("a")]).await.unwrap();
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn resent_message_is_looked_up_by_its_key() {
    let pushes = [noted("findAndModify", ID, 1, 1), noted("findAndModify", ID, 0, 0)];
    let lookup = noted("find", SENT, 1, 1);
    let [first, second] = pushes;
    assert_examined(&[first, second, lookup], async |stores| {
        stores.messages.append(log(), &[message("m-320")]).await.unwrap();
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn page_is_one_document_by_its_id() {
    assert_examined(&[noted("find", BY_ID, 1, 1)], async |stores| {
        assert_eq!(stores.messages.messages(log(), 150, 160).await.unwrap().len(), 11);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn tail_is_one_key_of_the_index_of_ids() {
    // The other log's last document is full, so that there is no hint to it.
    assert_examined(&[noted("find", ID, 1, 1)], async |stores| {
        assert_eq!(stores.messages.ends(&[log_of(90)]).await.unwrap()[0].seq, 100);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn ends_by_hints_look_at_two_keys_each() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    let logs: Vec<_> = (1..=20).map(log_of).collect();
    for log in &logs {
        stores.messages.append(*log, &[message("a")]).await.unwrap();
    }
    let database = server::database(&options).await;
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    assert_eq!(stores.messages.ends(&logs).await.unwrap().len(), 20);
    let notes = notes(&database).await;
    let [find] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((find.command.as_str(), find.plan.as_str(), find.documents), ("find", ID, 20));
    assert!(find.keys <= 41, "{find:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn strong_end_looks_at_two_ids() {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    fill(&stores, &batch("m", 350)).await;
    let database = server::database(&options).await;
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    assert_eq!(stores.messages.strong_end(log()).await.unwrap(), 350);
    let notes = notes(&database).await;
    let [pair] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!((pair.plan.as_str(), pair.documents), (ID, 1));
    assert!(pair.keys <= 3, "{pair:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn number_at_a_time_is_found_by_time_index() {
    let sent = message("m").sent;
    assert_examined(&[noted("find", ID, 1, 1), noted("find", BY_TIME, 1, 1)], async |stores| {
        let later = Timestamp(sent.0 + 1);
        assert_eq!(stores.messages.seq_at(log(), later).await.unwrap(), 351);
    })
    .await;
    // Nothing began before. The first document's id is in the index.
    let found = [noted("find", ID, 1, 1), noted("find", BY_TIME, 0, 0), noted("find", ID, 1, 0)];
    assert_examined(&found, async |stores| {
        assert_eq!(stores.messages.seq_at(log(), sent).await.unwrap(), 1);
    })
    .await;
}

/// The commands that read the heads of these logs, each filled by `fill_logs` first.
async fn commands_of_heads(
    asked: &[(ConversationId, Seq)],
    fill_logs: impl AsyncFnOnce(&Stores),
) -> (Vec<LogHead>, Vec<ProfiledCommand>) {
    let options = server::options();
    let (stores, _guard) = server::open_with(options.clone()).await;
    fill_logs(&stores).await;
    let database = server::database(&options).await;
    database.run_command(doc! { "profile": 2 }).await.unwrap();
    let heads = stores.messages.heads(asked).await.unwrap();
    (heads, notes(&database).await)
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn head_examines_only_needed_documents() {
    let fill_log = async |stores: &Stores| fill(stores, &batch("m", 350)).await;
    // The last document, found by its id or the next; then it again, and the document before where something
    // in it is asked for.
    for (above, headers, documents) in [(0, 100, 2), (299, 51, 2), (300, 50, 1), (349, 1, 1), (350, 0, 1)] {
        let (heads, notes) = commands_of_heads(&[(log(), above)], fill_log).await;
        assert_eq!(heads[0].last.as_ref().unwrap().seq, 350);
        assert_eq!(heads[0].headers.len(), headers, "above {above}");
        let [ends, parts] = &notes[..] else { panic!("{notes:?}") };
        assert_eq!((ends.plan.as_str(), ends.documents), (ID, 1), "{ends:?}");
        assert_eq!((parts.plan.as_str(), parts.documents), (ID, documents), "above {above}: {parts:?}");
        assert!(ends.keys <= 3 && parts.keys <= 5, "{notes:?}");
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn heads_of_100_logs_are_two_commands() {
    let logs: Vec<_> = (1..=100).map(|id| (log_of(id), 0)).collect();
    let (heads, notes) = commands_of_heads(&logs, async |stores| {
        for (log, _) in &logs {
            stores.messages.append(*log, &[message("a"), message("b")]).await.unwrap();
        }
    })
    .await;
    assert!(heads.iter().all(|head| head.headers.len() == 2));
    let [ends, parts] = &notes[..] else { panic!("{notes:?}") };
    for find in [ends, parts] {
        assert_eq!((find.command.as_str(), find.plan.as_str(), find.documents), ("find", ID, 100));
        assert!(find.keys <= 201, "{find:?}");
    }
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn old_documents_are_found_by_their_time() {
    assert_examined(&[noted("find", "IXSCAN { age: 1 }", 5, 5)], async |stores| {
        let found = stores.message_upkeep.aged(Timestamp(0)..Timestamp(i64::MAX), 10).await.unwrap();
        assert_eq!(found.len(), 5);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn head_of_full_document_reads_one_message_more() {
    let (heads, notes) = commands_of_heads(&[(log(), 150)], async |stores| {
        fill(stores, &batch("m", 200)).await;
    })
    .await;
    assert_eq!((heads[0].last.as_ref().unwrap().seq, heads[0].headers.len()), (200, 50));
    let examined: i64 = notes.iter().map(|note| note.documents).sum();
    assert!(notes.iter().all(|note| [ID, BY_ID].contains(&note.plan.as_str())), "{notes:?}");
    assert!(notes.len() <= 4 && examined <= 5, "{notes:?}");
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn upkeep_looks_at_the_documents_of_one_log() {
    let search = noted("find", ID, 3, 3);
    assert_examined(&[noted("find", ID, 4, 4), search], async |stores| {
        // This time is so early that nothing is removed.
        stores.message_upkeep.trim(log(), i64::MAX, Timestamp(0)).await.unwrap();
        let user = kith_store::UserId::new(7).unwrap();
        stores.message_upkeep.documents_sent_by(log(), user, 101).await.unwrap();
    })
    .await;
}
