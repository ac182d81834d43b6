//! Appends of many callers to an embedded store over one thread that commits the same rows in groups.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Result, ensure};
use crossbeam_channel::{Receiver, Sender, bounded};
use kith_store::{Appended, ConversationId, MessageStore, NewMessage};
use kith_store_sqlite::SqliteOptions;
use rusqlite::{Connection, params};
use tokio::{sync::oneshot, task::JoinSet, time::Instant};

use super::message;
use crate::{
    claims::{APPEND_SQLITE, Plan},
    ratio::{Side, count, interleave},
    results::Results,
    rows::relations::DataFile,
};

/// Callers that send at one time, and the logs they send to.
const CALLERS: usize = 64;
const LOGS: usize = 20;

/// Runs what is asked for. Each side writes a file of its own, made alike.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&APPEND_SQLITE) {
        return Ok(());
    }
    let (ours, theirs) = (DataFile::open().await?, DataFile::open().await?);
    let (options, _folder) = theirs.close().await;
    let raw = Log::Raw(RawAppends::start(&options)?);
    let (raw, kith) = (Arc::new(raw), Arc::new(Log::Kith(Arc::clone(&ours.stores.messages))));
    let (numbers, appends) = (Arc::new(AtomicU64::new(0)), plan.size(400, 4));
    let pairs = interleave(plan.rounds, async |side| {
        let side = if side == Side::Baseline { &raw } else { &kith };
        appends_a_second(side, &numbers, appends).await
    });
    results.add(&APPEND_SQLITE, &pairs.await?)?;
    drop(kith);
    ours.close().await;
    Ok(())
}

/// What is appended to.
#[derive(Debug)]
enum Log {
    Raw(RawAppends),
    Kith(Arc<dyn MessageStore>),
}

impl Log {
    async fn append(&self, log: usize, new: NewMessage) -> Result<()> {
        match self {
            Self::Raw(raw) => raw.append(log, new).await,
            Self::Kith(store) => {
                let log: ConversationId = format!("g{}", log + 1).parse()?;
                let appended = store.append(log, &[new]).await?;
                ensure!(matches!(appended[..], [Appended::New(_)]), "a message is {appended:?}");
                Ok(())
            }
        }
    }
}

/// Lets every caller append so many messages, one after the other.
async fn appends_a_second(side: &Arc<Log>, numbers: &Arc<AtomicU64>, appends: usize) -> Result<f64> {
    let (begun, mut callers) = (Instant::now(), JoinSet::new());
    for caller in 0..CALLERS {
        let (side, numbers) = (Arc::clone(side), Arc::clone(numbers));
        callers.spawn(async move {
            for _ in 0..appends {
                let new = message(numbers.fetch_add(1, Ordering::Relaxed))?;
                side.append(caller % LOGS, new).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(count(CALLERS * appends) / begun.elapsed().as_secs_f64())
}

/// One thread that writes: it takes all that waits, and answers after the commit.
#[derive(Debug)]
struct RawAppends(Sender<Append>);

#[derive(Debug)]
struct Append {
    log: usize,
    new: NewMessage,
    reply: oneshot::Sender<()>,
}

impl RawAppends {
    fn start(options: &SqliteOptions) -> Result<Self> {
        let connection = Connection::open(&options.path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "journal_size_limit", i64::try_from(options.journal_bytes)?)?;
        let (sender, receiver) = bounded(options.queue);
        let batch_max = options.group_commit_max;
        thread::spawn(move || serve(&connection, &receiver, batch_max));
        Ok(Self(sender))
    }

    async fn append(&self, log: usize, new: NewMessage) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(Append { log, new, reply })?;
        // The thread ends with the first failure.
        Ok(answer.await?)
    }
}

fn serve(connection: &Connection, queue: &Receiver<Append>, batch_max: usize) {
    let mut ends: HashMap<usize, i64> = HashMap::new();
    while let Ok(first) = queue.recv() {
        let batch: Vec<Append> = [first].into_iter().chain(queue.try_iter()).take(batch_max).collect();
        if let Err(error) = commit(connection, &batch, &mut ends) {
            return eprintln!("the bare side of append_sqlite failed: {error:#}");
        }
        for Append { reply, .. } in batch {
            // The bench may have ended.
            reply.send(()).ok();
        }
    }
}

fn commit(connection: &Connection, batch: &[Append], ends: &mut HashMap<usize, i64>) -> Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages (conversation, seq, sender, sent_ms, flags, version, key, hash, body)
         VALUES (?1, ?2, 1, ?3, 0, 1, ?4, ?5, ?6)",
    )?;
    for Append { log, new, .. } in batch {
        let end = ends.entry(*log).or_default();
        *end += 1;
        let (key, hash) = (new.key.0, new.hash.0);
        insert.execute(params![format!("g{}", log + 1), *end, new.sent.0, key, hash, new.body.as_ref()])?;
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}
