//! A round of all sessions, as gateways renew them once a minute.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_lab_servers::usage;
use kith_proto::presence::v1::{HeartbeatRequest, OpenSessionRequest, SessionName};

use super::stage::PresenceStage;
use crate::{
    claims::Plan,
    ratio::{Pair, Side, interleave},
    rows::until_done::until_done,
};

/// A round takes place once in so many seconds.
const EVERY: f64 = 60.0;
/// Sessions of one call.
const BATCH: usize = 1_000;
/// Calls at one time: so many gateways happen to say at once that they live.
const CALLS: usize = 2;
/// Sessions that are opened at the same time.
const OPENED: usize = 16;
const DEVICE: &str = "phone";

/// What a round takes, over the time between two of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenewalCost {
    /// Processors of Redis.
    pub(super) redis: f64,
    /// Processors of the node; of the client where there is none.
    pub(super) client: f64,
    /// Commands of Redis, those that scripts call among them.
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
    // So many that few sessions take time, too.
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
        Side::Kith => renew(stage, gateway, users).await,
    });
    calls.buffer_unordered(CALLS).try_collect().await
}

async fn renew(stage: &PresenceStage, gateway: &Gateway, users: &[i64]) -> Result<()> {
    let name = |user_id: &i64| SessionName { user_id: *user_id, device_id: DEVICE.to_owned() };
    let request = HeartbeatRequest {
        gateway_id: gateway.id.clone(),
        gateway_token: gateway.token.clone(),
        sessions: users.iter().map(name).collect(),
    };
    let beat = async || stage.presence().heartbeat(request.clone()).await;
    let answer = until_done(beat).await?.into_inner();
    ensure!(answer.unknown_sessions.is_empty(), "{} sessions are gone", answer.unknown_sessions.len());
    Ok(())
}

/// One session of each user, by turns at the gateways, so that all of them are heard of all the while.
async fn opened(stage: &PresenceStage, sessions: i64, count: i64) -> Result<Vec<Gateway>> {
    let mut gateways = Vec::new();
    for number in 0..count {
        let gateway_id = format!("gateway-{number}");
        let request = HeartbeatRequest { gateway_id, ..HeartbeatRequest::default() };
        let id = request.gateway_id.clone();
        let beat = async || stage.presence().heartbeat(request.clone()).await;
        let token = until_done(beat).await?.into_inner().gateway_token;
        let users = (1..=sessions).filter(|user| user % count == number).collect();
        gateways.push(Gateway { id, token, users });
    }
    let turns = (1..=sessions).map(|user| (user, &gateways[usize::try_from(user % count).unwrap_or(0)]));
    let opens = stream::iter(turns).map(async |(user_id, gateway)| {
        let request = OpenSessionRequest {
            user_id,
            device_id: DEVICE.to_owned(),
            gateway_id: gateway.id.clone(),
            gateway_token: gateway.token.clone(),
        };
        let open = async || stage.presence().open_session(request.clone()).await.map(drop);
        until_done(open).await
    });
    opens.buffer_unordered(OPENED).try_collect::<()>().await?;
    Ok(gateways)
}
