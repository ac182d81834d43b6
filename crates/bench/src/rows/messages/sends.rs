//! Sends through a node over bare pushes: the time for one send, and how many a second many callers send to
//! one group.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::{
    message,
    stage::{GROUP, MessageStage, named},
};
use crate::{
    claims::{Plan, SEND_DIRECT, SEND_ONE_GROUP},
    ratio::{Pair, Side, interleave, per_second},
    results::Results,
    rows::latency::compare_medians,
};

/// Callers that send to one group at the same time.
const CALLERS: usize = 32;
const DIRECT: &str = "d1-2";

/// Runs the requested rows. Without servers, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&SEND_DIRECT, &SEND_ONE_GROUP]) {
        return Ok(());
    }
    let Some(stage) = MessageStage::start(plan, "sends", 1, 2).await? else { return Ok(()) };
    let numbers = AtomicU64::new(0);
    results.row(&SEND_DIRECT, one_by_one(plan, &stage, &numbers)).await?;
    results.row(&SEND_ONE_GROUP, at_once(plan, &stage, &numbers)).await?;
    stage.remove(plan).await
}

/// Microseconds that the median send takes.
async fn one_by_one(plan: &Plan, stage: &MessageStage, numbers: &AtomicU64) -> Result<Vec<Pair<f64>>> {
    let sends = plan.size(1_000, 10);
    let mut client = stage.client(0);
    compare_medians(plan.rounds, sends, async |side| {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        match side {
            Side::Baseline => stage.raw.push(&message(number)?).await?,
            Side::Kith => drop(client.send_message(named(DIRECT, number)).await?),
        }
        Ok(())
    })
    .await
}

/// Messages a second.
async fn at_once(plan: &Plan, stage: &MessageStage, numbers: &AtomicU64) -> Result<Vec<Pair<f64>>> {
    let sends = plan.size(10_000, 200);
    interleave(plan.rounds, async |side| {
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
        per_second(sends, calls.buffer_unordered(CALLERS).try_collect::<()>()).await
    })
    .await
}
