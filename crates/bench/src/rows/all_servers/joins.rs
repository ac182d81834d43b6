//! Measures a join to a group: how often it is published, and its time over that for a follow.

use anyhow::Result;
use kith_proto::{
    group::v1::{CreateGroupRequest, Group, JoinPolicy, group_service_client::GroupServiceClient},
    member::v1::{JoinRequest, member_service_client::MemberServiceClient},
    relation::v1::{FollowRequest, relation_service_client::RelationServiceClient},
};
use tonic::transport::Channel;

use super::stage::ClusterStage;
use crate::{
    claims::{JOIN_CHANGES, JOIN_TIME, Plan},
    ratio::{Pair, Side, count},
    results::Results,
    rows::{latency::compare_medians, until_done::until_done},
};

const GROUP: i64 = 1003;
/// The user who owns the group, and is followed.
const OWNER: i64 = 1;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, stage: &ClusterStage, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&JOIN_CHANGES, &JOIN_TIME]) {
        return Ok(());
    }
    let channel = stage.channel();
    make_open_group(&channel).await?;
    let (mut joins, calls) = (OWNER, plan.size(100, 5));
    if plan.wants(&JOIN_CHANGES) {
        let mut rounds = Vec::new();
        for _ in 0..plan.rounds {
            let before = stage.changes().await?;
            for _ in 0..calls {
                joins += 1;
                join(&channel, joins).await?;
            }
            rounds.push(Pair { baseline: 1.0, kith: (stage.changes().await? - before) / count(calls) });
        }
        results.add(&JOIN_CHANGES, &rounds)?;
    }
    let mut follows = OWNER;
    let pairs = compare_medians(plan.rounds, calls, async |side| match side {
        Side::Baseline => {
            follows += 1;
            follow(&channel, follows).await
        }
        Side::Kith => {
            joins += 1;
            join(&channel, joins).await
        }
    });
    results.row(&JOIN_TIME, pairs).await
}

async fn make_open_group(channel: &Channel) -> Result<()> {
    let group = Group {
        group_id: GROUP,
        name: "open".to_owned(),
        creator_id: OWNER,
        join_policy: JoinPolicy::Open.into(),
        ..Group::default()
    };
    let request = CreateGroupRequest { group: Some(group), ..CreateGroupRequest::default() };
    until_done(async || GroupServiceClient::new(channel.clone()).create_group(request.clone()).await).await?;
    Ok(())
}

async fn join(channel: &Channel, user_id: i64) -> Result<()> {
    let request = JoinRequest { group_id: GROUP, user_id, ..JoinRequest::default() };
    MemberServiceClient::new(channel.clone()).join(request).await?;
    Ok(())
}

async fn follow(channel: &Channel, user_id: i64) -> Result<()> {
    let request = FollowRequest { user_id, target_id: OWNER, ..FollowRequest::default() };
    RelationServiceClient::new(channel.clone()).follow(request).await?;
    Ok(())
}
