//! Opens the only session of a user who is in many groups, and waits until all groups know.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::presence::v1::{CloseSessionRequest, CountActiveMembersRequest};

use super::stage::{DEVICE, PresenceStage};
use crate::{
    claims::Plan,
    ratio::{Pair, median},
    rows::{groups::make_group, until_done::until_done},
};

const USER: i64 = 1;
/// The user who owns the groups, and is never online.
const OWNER: i64 = 2;
const GATEWAY: &str = "gateway";
/// Groups that are made at the same time.
const MADE: usize = 16;

/// Median milliseconds to open it, in each round.
pub(super) async fn measure(plan: &Plan, stage: &PresenceStage) -> Result<Vec<Pair<f64>>> {
    stage.with_users(OWNER).await?;
    let groups: Vec<i64> = (1..=plan.size(500, 10)).collect();
    stream::iter(&groups)
        .map(async |group| make_group(&stage.channel(), *group, &[OWNER, USER]).await)
        .buffer_unordered(MADE)
        .try_collect::<()>()
        .await?;
    let mut token = String::new();
    let (times, warm_up) = plan.size((50, 20), (3, 1));
    for _ in 0..warm_up {
        opened(stage, &mut token, &groups).await?;
    }
    let mut rounds = Vec::with_capacity(plan.rounds);
    for _ in 0..plan.rounds {
        let mut taken = Vec::with_capacity(times);
        for _ in 0..times {
            taken.push(opened(stage, &mut token, &groups).await?);
        }
        rounds.push(Pair { baseline: 1.0, kith: median(taken) });
    }
    Ok(rounds)
}

/// Opens a session and closes it again. Returns how many milliseconds it took to open it. All groups know
/// about it by then.
async fn opened(stage: &PresenceStage, token: &mut String, groups: &[i64]) -> Result<f64> {
    let begun = Instant::now();
    *token = stage.open_session(USER, GATEWAY, token).await?;
    let taken = begun.elapsed().as_secs_f64() * 1e3;
    for group in groups {
        let request = CountActiveMembersRequest { group_id: *group, consistency: None };
        let count = async || stage.presence().count_active_members(request.clone()).await;
        let count = until_done(count).await?.into_inner().count;
        ensure!(count == 1, "group {group} does not know who is online: {count}");
    }
    let close = CloseSessionRequest {
        user_id: USER,
        device_id: DEVICE.to_owned(),
        gateway_id: GATEWAY.to_owned(),
        gateway_token: token.clone(),
    };
    until_done(async || stage.presence().close_session(close.clone()).await).await?;
    Ok(taken)
}
