//! Renews all sessions once, as gateways do once a minute.

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_lab_servers::usage;

use super::stage::PresenceStage;
use crate::{claims::Plan, ratio::Pair};

/// A round takes place once in this many seconds.
const EVERY: f64 = 60.0;
/// Sessions in one call.
const BATCH: usize = 1_000;
/// How many calls run at the same time: so many gateways send their heartbeats at once.
const CALLS: usize = 2;
/// Sessions that are opened at the same time.
const OPENED: usize = 16;

struct Gateway {
    id: String,
    token: String,
    users: Vec<i64>,
}

/// Renews all sessions in each round. Returns the processors that Redis takes, over the time between two
/// rounds.
pub(super) async fn measure(plan: &Plan, stage: &PresenceStage) -> Result<Vec<Pair<f64>>> {
    let (sessions, gateways) = plan.size((100_000, 20), (400, 2));
    stage.with_users(sessions).await?;
    let gateways = opened(stage, sessions, gateways).await?;
    round(stage, &gateways).await?;
    let mut rounds = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        let before = usage::cpu_seconds(stage.redis.id()?)?;
        // Repeats the round often enough that even few sessions take measurable time.
        for _ in 0..plan.size(1, 30) {
            round(stage, &gateways).await?;
        }
        rounds.push(Pair { baseline: 1.0, kith: (usage::cpu_seconds(stage.redis.id()?)? - before) / EVERY });
    }
    Ok(rounds)
}

async fn round(stage: &PresenceStage, gateways: &[Gateway]) -> Result<()> {
    let parts =
        gateways.iter().flat_map(|gateway| gateway.users.chunks(BATCH).map(move |users| (gateway, users)));
    let calls = stream::iter(parts)
        .map(async |(gateway, users)| stage.renew(&gateway.id, &gateway.token, users).await.map(drop));
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
