//! An append of one message to a log of MongoDB over a bare push of the same element, with the same concern.

use std::{
    process,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};
use kith_store::{Appended, ConversationId, MessageStore, NewMessage};
use kith_store_cluster::{MongoOptions, connect};

use super::{message, raw::RawLogs};
use crate::{
    bench::{APPEND_MONGODB, Plan},
    ratio::{Pair, Pieces, Side, interleave},
    results::Results,
};

/// Runs what is asked for; nothing where there is no MongoDB.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let Some(uri) = plan.mongodb.as_ref().filter(|_| plan.wants(&APPEND_MONGODB)) else { return Ok(()) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let options = MongoOptions::new(uri, format!("kith_bench_{}_{now}", process::id()));
    let raw = RawLogs::connect(&options).await?;
    let handle = connect(options).await?;
    let stores = handle.stores();
    stores.migrations.migrate().await.context("MongoDB cannot be filled")?;
    let measured = measure(plan, &stores.messages, &raw).await;
    handle.close().await;
    raw.database().drop().await?;
    results.add(&APPEND_MONGODB, &measured?)
}

/// Microseconds of an append, one after the other.
async fn measure(plan: &Plan, store: &Arc<dyn MessageStore>, raw: &RawLogs) -> Result<Vec<Pair<f64>>> {
    let (log, mut number) = ("g1".parse::<ConversationId>()?, 0);
    let (pieces, appends) = plan.size((20, 50), (2, 5));
    let mut expected = 0;
    interleave(plan.rounds, async |side| {
        let mut taken = Pieces::begin();
        for _ in 0..pieces {
            for _ in 0..appends {
                number += 1;
                let new = message(number)?;
                if side == Side::Baseline {
                    raw.push(&new).await?;
                } else {
                    expected += 1;
                    append(store, log, new, expected).await?;
                }
            }
            taken.end_piece(appends);
        }
        Ok(taken.nanos_an_operation() / 1e3)
    })
    .await
}

async fn append(
    store: &Arc<dyn MessageStore>,
    log: ConversationId,
    new: NewMessage,
    expected: i64,
) -> Result<()> {
    let appended = store.append(log, &[new]).await?;
    ensure!(appended == [Appended::New(expected)], "number {expected} is {appended:?}");
    Ok(())
}
