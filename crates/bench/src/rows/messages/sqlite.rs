//! Appends by many callers to an embedded store over one thread that commits the same rows in groups.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Result, ensure};
use kith_store::{Appended, ConversationId, MessageStore, NewMessage};
use kith_store_sqlite::SqliteOptions;
use rusqlite::{Connection, params};

use super::message;
use crate::{
    claims::{APPEND_SQLITE, Plan},
    load::at_once,
    ratio::{Pair, Side, interleave, per_second},
    results::Results,
    rows::{
        raw_writer::{RawWriter, open_durable},
        relations::DataFile,
    },
};

/// Callers that send at one time, and the logs they send to.
const CALLERS: usize = 64;
const LOGS: usize = 20;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    results.row(&APPEND_SQLITE, appends(plan)).await
}

/// Each side writes to its own file, made alike.
async fn appends(plan: &Plan) -> Result<Vec<Pair<f64>>> {
    let (ours, theirs) = (DataFile::open().await?, DataFile::open().await?);
    let (options, _folder) = theirs.close().await;
    let raw = Arc::new(Log::Raw(raw_appends(&options)?));
    let kith = Arc::new(Log::Kith(Arc::clone(&ours.stores.messages)));
    let (numbers, appends) = (Arc::new(AtomicU64::new(0)), plan.size(400, 4));
    let pairs = interleave(plan.rounds, async |side| {
        let side = if side == Side::Baseline { &raw } else { &kith };
        appends_a_second(side, &numbers, appends).await
    });
    let pairs = pairs.await?;
    drop(kith);
    ours.close().await;
    Ok(pairs)
}

/// The log that gets the appends.
#[derive(Debug)]
enum Log {
    Raw(RawWriter<Append, ()>),
    Kith(Arc<dyn MessageStore>),
}

impl Log {
    async fn append(&self, log: usize, new: NewMessage) -> Result<()> {
        match self {
            Self::Raw(raw) => raw.write(Append { log, new }).await,
            Self::Kith(store) => {
                let log: ConversationId = format!("g{}", log + 1).parse()?;
                let appended = store.append(log, &[new]).await?;
                ensure!(matches!(appended[..], [Appended::New(_)]), "a message is {appended:?}");
                Ok(())
            }
        }
    }
}

/// Lets every caller append so many messages in sequence.
async fn appends_a_second(side: &Arc<Log>, numbers: &Arc<AtomicU64>, appends: usize) -> Result<f64> {
    let callers = at_once(CALLERS, |caller| {
        let (side, numbers) = (Arc::clone(side), Arc::clone(numbers));
        async move {
            for _ in 0..appends {
                let new = message(numbers.fetch_add(1, Ordering::Relaxed))?;
                side.append(caller % LOGS, new).await?;
            }
            Ok(())
        }
    });
    per_second(CALLERS * appends, callers).await
}

#[derive(Debug)]
struct Append {
    log: usize,
    new: NewMessage,
}

/// Appends as one would write them by hand.
fn raw_appends(options: &SqliteOptions) -> Result<RawWriter<Append, ()>> {
    let mut ends = HashMap::new();
    let append = move |connection: &Connection, batch: &[Append]| append_all(connection, batch, &mut ends);
    Ok(RawWriter::start(open_durable(options)?, options.queue, options.group_commit_max, append))
}

fn append_all(connection: &Connection, batch: &[Append], ends: &mut HashMap<usize, i64>) -> Result<Vec<()>> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages (conversation, seq, sender, sent_ms, flags, version, key, hash, body)
         VALUES (?1, ?2, 1, ?3, 0, 1, ?4, ?5, ?6)",
    )?;
    for Append { log, new } in batch {
        let end = ends.entry(*log).or_default();
        *end += 1;
        let (key, hash) = (new.key.0, new.hash.0);
        insert.execute(params![format!("g{}", log + 1), *end, new.sent.0, key, hash, new.body.as_ref()])?;
    }
    Ok(vec![(); batch.len()])
}
