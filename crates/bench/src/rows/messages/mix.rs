//! Counts how many message reads do not reach MongoDB, by its profiler.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::message::v1::PullMessagesRequest;
use mongodb::bson::doc;
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

use super::{
    operations::{profile, profiled},
    stage::{MessageStage, USER},
};
use crate::{
    claims::{Plan, RECENT_MIX},
    ratio::{Pair, count},
    results::Results,
};

/// Messages in each conversation.
const MESSAGES: i64 = 430;
/// Messages on a page.
const PAGE: i64 = 20;
/// How many in a hundred reads are among the last hundred messages.
const RECENT: u32 = 90;
const CALLERS: usize = 16;

/// Runs the requested rows. Without servers, no row runs.
pub(super) async fn rows(plan: &Plan, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants(&RECENT_MIX) {
        return Ok(());
    }
    let conversations = plan.size(200, 10);
    let Some(stage) = MessageStage::start(plan, "mix", 1, conversations + USER).await? else { return Ok(()) };
    let logs: Vec<String> = (0..conversations).map(|other| format!("d{USER}-{}", other + 2)).collect();
    stage.fill(&logs, usize::try_from(MESSAGES)?).await?;
    let seeds = AtomicU64::new(1);
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds {
        rounds.push(Pair { baseline: 1.0, kith: share(plan, &stage, &logs, &seeds).await? });
    }
    results.add(&RECENT_MIX, &rounds)?;
    stage.remove(plan).await
}

/// Share of reads for which MongoDB got no command.
async fn share(plan: &Plan, stage: &MessageStage, logs: &[String], seeds: &AtomicU64) -> Result<f64> {
    let reads = plan.size(20_000, 200);
    let database = stage.raw.database();
    profile(database, true).await?;
    let reading = stream::iter(0..reads).map(async |_| {
        let request = page(logs, seeds.fetch_add(1, Ordering::Relaxed));
        let messages = stage.client(0).pull_messages(request).await?.into_inner().messages;
        ensure!(!messages.is_empty(), "a page is empty");
        anyhow::Ok(())
    });
    reading.buffer_unordered(CALLERS).try_collect::<()>().await?;
    profile(database, false).await?;
    let commands = profiled(database, doc! {}).await?;
    Ok(1.0 - count(usize::try_from(commands)?) / count(reads))
}

/// A page in a conversation: the conversations are read by Zipf's law, with exponent 1.
fn page(logs: &[String], seed: u64) -> PullMessagesRequest {
    let mut random = SmallRng::seed_from_u64(seed);
    let weights = (1..=logs.len()).map(|rank| 1.0 / count(rank));
    let mut left = random.random_range(0.0..1.0) * weights.clone().sum::<f64>();
    let at = weights.into_iter().position(|weight| {
        left -= weight;
        left <= 0.0
    });
    let first = if random.random_range(0..100) < RECENT {
        MESSAGES - random.random_range(PAGE..=100)
    } else {
        random.random_range(1..MESSAGES - 100)
    };
    PullMessagesRequest {
        user_id: USER,
        conversation_id: logs[at.unwrap_or(0)].clone(),
        from_seq: first + 1,
        limit: 20,
        ..Default::default()
    }
}
