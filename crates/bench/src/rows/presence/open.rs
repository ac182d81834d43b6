//! The opening of the only session of a user who is in many groups, until all of them know.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, group_service_client::GroupServiceClient},
    member::v1::{AddMembersRequest, member_service_client::MemberServiceClient},
    presence::v1::{CloseSessionRequest, CountActiveMembersRequest, OpenSessionRequest},
};

use tonic::Code;

use super::stage::PresenceStage;
use crate::{
    claims::Plan,
    ratio::{Pair, Side, interleave, median},
    rows::until_done::until_done,
};

const USER: i64 = 1;
/// Who owns the groups, and is never online.
const OWNER: i64 = 2;
const GATEWAY: &str = "gateway";
const DEVICE: &str = "phone";
/// Groups that are made at the same time.
const MADE: usize = 16;

/// Milliseconds of the opening in the middle, in each round.
pub(super) async fn measure(plan: &Plan, stage: &PresenceStage) -> Result<Vec<Pair<f64>>> {
    stage.with_users(OWNER).await?;
    let groups: Vec<i64> = (1..=plan.size(500, 10)).collect();
    stream::iter(&groups)
        .map(async |group| found(stage, *group).await)
        .buffer_unordered(MADE)
        .try_collect::<()>()
        .await?;
    let (mut token, mut number) = (String::new(), 0);
    let (times, warm_up) = plan.size((50, 20), (3, 1));
    for _ in 0..warm_up {
        opened(stage, &mut token, &groups).await?;
    }
    interleave(plan.rounds, async |side| {
        let mut taken = Vec::with_capacity(times);
        for _ in 0..times {
            number += 1;
            let begun = Instant::now();
            taken.push(match side {
                Side::Baseline => {
                    stage.raw.open(USER, GATEWAY, &groups, number).await?;
                    begun.elapsed().as_secs_f64() * 1e3
                }
                Side::Kith => opened(stage, &mut token, &groups).await?,
            });
        }
        Ok(median(taken))
    })
    .await
}

/// Opens a session and closes it again; how many milliseconds the opening took. All groups know of it by then.
async fn opened(stage: &PresenceStage, token: &mut String, groups: &[i64]) -> Result<f64> {
    let open = OpenSessionRequest {
        user_id: USER,
        device_id: DEVICE.to_owned(),
        gateway_id: GATEWAY.to_owned(),
        gateway_token: token.clone(),
    };
    let begun = Instant::now();
    *token = until_done(async || stage.presence().open_session(open.clone()).await)
        .await?
        .into_inner()
        .gateway_token;
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

async fn found(stage: &PresenceStage, group_id: i64) -> Result<()> {
    let group = Group { group_id, name: "many".to_owned(), creator_id: OWNER, ..Group::default() };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    let made = async || match GroupServiceClient::new(stage.channel()).create_group(request.clone()).await {
        // By a call before that seemed to fail.
        Err(status) if status.code() == Code::AlreadyExists => Ok(()),
        made => made.map(drop),
    };
    until_done(made).await?;
    let request = AddMembersRequest { group_id, user_ids: vec![USER], ..AddMembersRequest::default() };
    let added = async || MemberServiceClient::new(stage.channel()).add_members(request.clone()).await;
    until_done(added).await.map(drop)
}
