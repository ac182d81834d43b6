//! Renews all sessions once, as gateways do once a minute.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_lab_servers::usage;

use super::stage::PresenceStage;
use crate::{
    claims::Plan,
    ratio::{Pair, Side, interleave},
};

/// A round takes place once in this many seconds.
const EVERY: f64 = 60.0;
/// Sessions in one call.
const BATCH: usize = 1_000;
/// How many calls run at the same time: so many gateways send their heartbeats at once.
const CALLS: usize = 2;
/// Sessions that are opened at the same time.
const OPENED: usize = 16;

/// The cost of a round, over the time between two rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenewalCost {
    /// Processors that Redis takes.
    pub(super) redis: f64,
    /// Processors that the node takes; without a node, the client.
    pub(super) client: f64,
    /// Redis commands, including those that scripts call.
    pub(super) commands: f64,
}

struct Gateway {
    id: String,
    token: String,
    users: Vec<i64>,
}

/// Renews all sessions in each round.
pub(super) async fn measure(plan: &Plan, stage: &PresenceStage) -> Result<Vec<Pair<RenewalCost>>> {
    let (sessions, gateways) = plan.size((100_000, 20), (400, 2));
    stage.with_users(sessions).await?;
    let gateways = opened(stage, sessions, gateways).await?;
    for side in [Side::Baseline, Side::Kith] {
        round(stage, &gateways, side, 0).await?;
    }
    // Repeats the round often enough that even few sessions take measurable time.
    let (times, mut number) = (plan.size(1, 30), 0);
    interleave(plan.rounds, async |side| {
        number += 1;
        let client = match side {
            Side::Baseline => std::process::id(),
            Side::Kith => stage.node.served.id(),
        };
        let (cpu, (redis, commands)) = (usage::cpu_seconds(client)?, stage.redis_taken().await?);
        for _ in 0..times {
            round(stage, &gateways, side, number).await?;
        }
        let after = stage.redis_taken().await?;
        Ok(RenewalCost {
            redis: (after.0 - redis) / EVERY,
            client: (usage::cpu_seconds(client)? - cpu) / EVERY,
            commands: (after.1 - commands) / EVERY,
        })
    })
    .await
}

async fn round(stage: &PresenceStage, gateways: &[Gateway], side: Side, number: u64) -> Result<()> {
    let parts =
        gateways.iter().flat_map(|gateway| gateway.users.chunks(BATCH).map(move |users| (gateway, users)));
    let calls = stream::iter(parts).map(async |(gateway, users)| match side {
        Side::Baseline => stage.raw.renew(&gateway.id, users, number).await,
        Side::Kith => stage.renew(&gateway.id, &gateway.token, users).await.map(drop),
    });
    calls.buffer_unordered(CALLS).try_collect().await
}

/// Opens one session for each user, by turns at the gateways, so that all gateways send heartbeats all the
/// time.
async fn opened(stage: &PresenceStage, sessions: i64, count: i64) -> Result<Vec<Gateway>> {
    let mut gateways = Vec::new();
    for number in 0..count {
        let id = format!("gateway-{number}");
        let token = stage.renew(&id, "", &[]).await?;
        let users = (1..=sessions).filter(|user| user % count == number).collect();
        gateways.push(Gateway { id, token, users });
    }
    let turns = (1..=sessions).map(|user| (user, &gateways[usize::try_from(user % count).unwrap_or(0)]));
    let opens = stream::iter(turns)
        .map(async |(user, gateway)| stage.open_session(user, &gateway.id, &gateway.token).await.map(drop));
    opens.buffer_unordered(OPENED).try_collect::<()>().await?;
    Ok(gateways)
}
