//! Appends a message to a log in MongoDB over a bare push of the same element, with the same concern; and
//! appends at a document's end over appends at its start.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;
use kith_store::{Appended, ConversationId, MessageStore, NewMessage};

use super::{
    message,
    raw::{DOCUMENT, RawLogs},
};
use crate::{
    claims::{APPEND_END_1K, APPEND_END_64K, APPEND_MONGODB, Plan},
    ratio::{Pair, Side, compare_micros, count},
    results::Results,
    rows::mongodb::FilledDatabase,
};

/// How many appends at each end of a document are compared.
const OF_AN_END: i64 = 10;

/// Runs the requested rows. Without MongoDB, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    let is_asked = plan.wants_any(&[&APPEND_MONGODB, &APPEND_END_1K, &APPEND_END_64K]);
    let Some(uri) = plan.mongodb.as_ref().filter(|_| is_asked) else { return Ok(()) };
    let database = FilledDatabase::with(uri, 0).await?;
    let raw = RawLogs::over(database.raw.database.clone());
    let measured = measure_all(plan, results, &database.stores.messages, &raw).await;
    database.remove().await?;
    measured
}

async fn measure_all(
    plan: &Plan,
    results: &mut Results<'_>,
    store: &Arc<dyn MessageStore>,
    raw: &RawLogs,
) -> Result<()> {
    results.row(&APPEND_MONGODB, measure(plan, store, raw)).await?;
    for (claim, log, body, documents) in [
        (&APPEND_END_1K, "g2", 1 << 10, plan.size(20, 1)),
        (&APPEND_END_64K, "g3", 64 << 10, plan.size(5, 1)),
    ] {
        let stage = AppendStage { store, log: log.parse()?, body };
        results.row(claim, stage.ends(plan.rounds, documents)).await?;
    }
    Ok(())
}

/// Appends to one log.
struct AppendStage<'a> {
    store: &'a Arc<dyn MessageStore>,
    log: ConversationId,
    /// Bytes in a body.
    body: usize,
}

impl AppendStage<'_> {
    /// The microseconds that 99 of 100 appends do not exceed, at the start of these documents and at the end.
    async fn ends(&self, rounds: usize, documents: i64) -> Result<Vec<Pair<f64>>> {
        let (mut pairs, mut seq) = (Vec::with_capacity(rounds), 0);
        for _ in 0..rounds {
            let (mut start, mut end) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
            for _ in 0..documents * DOCUMENT {
                seq += 1;
                let taken = self.append(seq).await?;
                match (seq - 1) % DOCUMENT {
                    at if at < OF_AN_END => start.record(taken)?,
                    at if at >= DOCUMENT - OF_AN_END => end.record(taken)?,
                    _ => {}
                }
            }
            let p99 =
                |taken: &Histogram<u64>| anyhow::Ok(count(usize::try_from(taken.value_at_quantile(0.99))?));
            pairs.push(Pair { baseline: p99(&start)?, kith: p99(&end)? });
        }
        Ok(pairs)
    }

    /// Microseconds for an append, which gets this number.
    async fn append(&self, seq: i64) -> Result<u64> {
        let body = vec![b'x'; self.body];
        let new = NewMessage { body: body.into(), ..message(u64::try_from(seq)?)? };
        let begun = Instant::now();
        append(self.store, self.log, new, seq).await?;
        Ok(u64::try_from(begun.elapsed().as_micros())?)
    }
}

/// Microseconds for an append; the appends are sequential.
async fn measure(plan: &Plan, store: &Arc<dyn MessageStore>, raw: &RawLogs) -> Result<Vec<Pair<f64>>> {
    let (log, mut number) = ("g1".parse::<ConversationId>()?, 0);
    let (pieces, appends) = plan.size((20, 50), (2, 5));
    let mut expected = 0;
    compare_micros(plan.rounds, pieces, appends, async |side| {
        number += 1;
        let new = message(number)?;
        if side == Side::Baseline {
            return raw.push(&new).await;
        }
        expected += 1;
        append(store, log, new, expected).await
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
