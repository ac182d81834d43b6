//! Pushes into many logs share commands, on a real server.

use std::{
    iter,
    time::{Duration, Instant},
};

use futures::future::join_all;
use kith_store::{Appended, ConversationId, MessageStore as _, NewMessage};
use mongodb::bson::{Document, doc};

use super::{
    super::documents::id,
    log, message, messages, new, replayed,
    stage::{Stage, fill},
};
use crate::mongo::{
    concerns::{assert_majority_writes, assert_reads, commands},
    database::Mongo,
};

const LOGS: i64 = 40;

/// Logs of which the first is one that only the store can name.
fn logs() -> impl Iterator<Item = ConversationId> {
    let groups = (101..100 + LOGS).map(kith_store::conformance::message_sample::log_of);
    iter::once(ConversationId::OFFLINE[0]).chain(groups)
}

/// Appends a batch to each log at once.
async fn append_to_all(node: &Mongo, batch: &[NewMessage]) -> Vec<Vec<Appended>> {
    join_all(logs().map(async |log| node.append(log, batch).await.unwrap())).await
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn logs_at_once_share_commands() {
    let kinds = ["findAndModify", "update", "find"];
    let seen = commands(&kinds, async |stores| {
        for (at, ids) in [(1, ["a", "b"]), (3, ["c", "d"]), (5, ["e", "f"])] {
            let appended = logs().map(|log| {
                let batch = messages(ids);
                async move { stores.messages.append(log, &batch).await.unwrap() }
            });
            for one in join_all(appended).await {
                assert_eq!(one, new([at, at + 1]));
            }
        }
    });
    let seen = seen.await;
    let is = |name: &'static str| move |command: &&Document| command.contains_key(name);
    let shared: Vec<Document> = seen.iter().filter(is("update")).cloned().collect();
    let pushed = |command: &Document| command.get_array("updates").unwrap().len();
    let alone = seen.iter().filter(is("findAndModify")).count();
    assert_eq!(shared.iter().map(pushed).sum::<usize>() + alone, 2 * usize::try_from(LOGS).unwrap());
    assert!(shared.len() + alone <= 12, "{} shared commands, {alone} pushes alone", shared.len());
    assert_majority_writes(&shared, 1);
    for command in &shared {
        assert_eq!(command.get_i64("maxTimeMS").unwrap(), 1000);
    }
    let reads: Vec<Document> = seen.into_iter().filter(|command| command.contains_key("find")).collect();
    assert_reads(&reads, "majority", shared.len());
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn shared_pushes_are_told_apart() {
    Stage::<2>::run(async |stage| {
        let [one, other] = &stage.nodes;
        append_to_all(one, &messages(["a"])).await;
        let filled: Vec<ConversationId> = logs().take(3).collect();
        let removed: Vec<ConversationId> = logs().skip(3).take(3).collect();
        // The node's hints are wrong: it does not know of these changes.
        for log in &filled {
            for some in super::batch("other", 100).chunks(50) {
                other.append(*log, some).await.unwrap();
            }
        }
        for log in &removed {
            one.messages.delete_one(doc! { "_id": id(*log, 0) }).await.unwrap();
        }
        for log in logs().skip(6).take(3) {
            other.append(log, &messages(["b"])).await.unwrap();
        }
        let appended = append_to_all(one, &messages(["b", "c"])).await;
        for (at, appended) in appended.into_iter().enumerate() {
            let expected = match at {
                0..3 => new([102, 103]),
                3..6 => new([1, 2]),
                6..9 => vec![replayed(2), Appended::New(3)],
                _ => new([2, 3]),
            };
            assert_eq!(appended, expected, "{at}");
        }
        let made = one.messages.count_documents(doc! {}).await.unwrap();
        assert_eq!(made, u64::try_from(LOGS).unwrap() + 3, "no push has made a document");
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn message_sent_twice_at_once_is_kept_once() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        fill(node, &messages(["before"])).await;
        append_to_all(node, &messages(["before"])).await;
        let same = messages(["same"]);
        let repeats = join_all((0..9).map(async |_| node.append(log(), &same).await.unwrap()));
        let (repeats, _) = futures::join!(repeats, append_to_all(node, &same));
        let first = repeats.iter().filter(|one| **one == new([2])).count();
        let others = repeats.iter().filter(|one| **one == [replayed(2)]).count();
        assert_eq!((first, others), (1, 8), "{repeats:?}");
    })
    .await;
}

/// Runs `work` while someone else's transaction holds these logs. It ends after 3 s.
async fn while_held<T>(node: &Mongo, held: &[ConversationId], work: impl Future<Output = T>) -> T {
    let mut session = node.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    for log in held {
        let touch = node.messages.update_one(doc! { "_id": id(*log, 0) }, doc! { "$set": { "x": 1 } });
        touch.session(&mut session).await.unwrap();
    }
    let end = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        session.abort_transaction().await.unwrap();
    };
    futures::join!(work, end).0
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn blocked_log_delays_others_for_a_second() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        append_to_all(node, &messages(["a"])).await;
        let held: Vec<ConversationId> = logs().take(1).collect();
        let work = async {
            let begun = Instant::now();
            let append = async |log| (node.append(log, &[message("b")]).await.unwrap(), begun.elapsed());
            join_all(logs().map(append)).await
        };
        for (at, (appended, took)) in while_held(node, &held, work).await.into_iter().enumerate() {
            assert_eq!(appended, new([2]));
            assert!(at == 0 || took < Duration::from_millis(2_500), "{at}: {took:?}");
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs MongoDB: run cargo xtask test"]
async fn slow_commands_keep_no_others_waiting() {
    Stage::<1>::run(async |stage| {
        let [node] = &stage.nodes;
        append_to_all(node, &messages(["a"])).await;
        let held: Vec<ConversationId> = logs().take(4).collect();
        let append = async |log| node.append(log, &[message("b")]).await.unwrap();
        let blocked = join_all(held.iter().copied().enumerate().map(async |(at, log)| {
            // Each has its own command.
            tokio::time::sleep(Duration::from_millis(50) * u32::try_from(at).unwrap()).await;
            append(log).await
        }));
        let other = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let begun = Instant::now();
            append(logs().last().unwrap()).await;
            begun.elapsed()
        };
        let (blocked, took) = while_held(node, &held, async { futures::join!(blocked, other) }).await;
        assert!(blocked.iter().all(|one| *one == new([2])), "{blocked:?}");
        assert!(took < Duration::from_secs(1), "{took:?}");
    })
    .await;
}
