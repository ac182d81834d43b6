//! Sends through a node over bare pushes: the time of one, and how many a second of many callers to one group.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Instant;

use super::{
    message,
    stage::{GROUP, MessageStage, named},
};
use crate::{
    claims::{Plan, SEND_DIRECT, SEND_ONE_GROUP},
    ratio::{Pair, Pieces, Side, count, interleave, median},
    results::Results,
};

/// Callers that send to one group at the same time.
const CALLERS: usize = 32;
const DIRECT: &str = "d1-2";

/// Runs what is asked for; nothing where there are no servers.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&SEND_DIRECT) && !plan.wants(&SEND_ONE_GROUP) {
        return Ok(());
    }
    let Some(stage) = MessageStage::start(plan, "sends", 1, 2).await? else { return Ok(()) };
    let numbers = AtomicU64::new(0);
    if plan.wants(&SEND_DIRECT) {
        results.add(&SEND_DIRECT, &one_by_one(plan, &stage, &numbers).await?)?;
    }
    if plan.wants(&SEND_ONE_GROUP) {
        results.add(&SEND_ONE_GROUP, &at_once(plan, &stage, &numbers).await?)?;
    }
    stage.remove(plan).await
}

/// Microseconds of the send in the middle.
async fn one_by_one(plan: &Plan, stage: &MessageStage, numbers: &AtomicU64) -> Result<Vec<Pair<f64>>> {
    let sends = plan.size(1_000, 10);
    interleave(plan.rounds, async |side| {
        let mut client = stage.client(0);
        let mut taken = Vec::with_capacity(sends);
        for _ in 0..sends {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            let mut one = Pieces::begin();
            match side {
                Side::Baseline => stage.raw.push(&message(number)?).await?,
                Side::Kith => drop(client.send_message(named(DIRECT, number)).await?),
            }
            one.end_piece(1);
            taken.push(one.nanos_an_operation() / 1e3);
        }
        Ok(median(taken))
    })
    .await
}

/// Messages a second.
async fn at_once(plan: &Plan, stage: &MessageStage, numbers: &AtomicU64) -> Result<Vec<Pair<f64>>> {
    let sends = plan.size(10_000, 200);
    interleave(plan.rounds, async |side| {
        let begun = Instant::now();
        let calls = stream::iter(0..sends).map(async |_| {
            let number = numbers.fetch_add(1, Ordering::Relaxed);
            match side {
                Side::Baseline => stage.raw.push(&message(number)?).await,
                Side::Kith => {
                    stage.client(0).send_message(named(GROUP, number)).await?;
                    Ok(())
                }
            }
        });
        calls.buffer_unordered(CALLERS).try_collect::<()>().await?;
        Ok(count(sends) / begun.elapsed().as_secs_f64())
    })
    .await
}
