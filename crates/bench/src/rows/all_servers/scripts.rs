//! Counts Redis scripts for a message to a group with ten members.

use anyhow::{Context as _, Result};
use kith_proto::message::v1::ReceiveRequest;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::{
    load::{Load, measure},
    sends::{Sends, many},
    stage::ClusterStage,
};
use crate::{
    claims::{Plan, SCRIPTS_OFFLINE, SCRIPTS_ONLINE},
    ratio::{Claim, Pair},
    results::Results,
    rows::messages::MessageClient,
};

/// Messages under way.
const IN_FLIGHT: usize = 50;
/// Groups whose members are all online.
const ONLINE: usize = 100;
/// Streams on one connection.
const STREAMS: i64 = 150;

/// Runs the requested rows.
pub(super) async fn rows(plan: &Plan, stage: &ClusterStage, results: &mut Results<'_>) -> Result<()> {
    if !plan.wants_any(&[&SCRIPTS_OFFLINE, &SCRIPTS_ONLINE]) {
        return Ok(());
    }
    let kind = many(plan, "s");
    let sends = kind.prepare(stage).await?;
    count(plan, stage, &sends, &SCRIPTS_OFFLINE, results).await?;
    if plan.wants(&SCRIPTS_ONLINE) {
        let online = &kind.conversations()[..ONLINE.min(kind.conversations().len())];
        let _streams = open(stage, online).await?;
        let sends = Sends::new(stage, "l", online).await?;
        count(plan, stage, &sends, &SCRIPTS_ONLINE, results).await?;
    }
    Ok(())
}

/// Counts what is done for as many messages as are sent in a round's time.
async fn count(
    plan: &Plan,
    stage: &ClusterStage,
    sends: &Sends,
    claim: &Claim,
    results: &mut Results<'_>,
) -> Result<()> {
    if !plan.wants(claim) {
        return Ok(());
    }
    let (all, mut rounds) = (stage.all()?, Vec::new());
    for _ in 0..plan.rounds {
        let sends = sends.clone();
        let (before, sent) = (stage.scripts().await?, sends.sent());
        let counted = sends.clone();
        measure(stage.times, Load::Callers(IN_FLIGHT), &all, move |_| counted.clone().send()).await?;
        let scripts = stage.scripts().await? - before;
        rounds.push(Pair { baseline: 1.0, kith: scripts / (sends.sent() - sent) });
    }
    results.add(claim, &rounds)
}

/// Opens streams for all members in these groups, and waits until all are live. They end with the value.
async fn open(stage: &ClusterStage, groups: &[(String, Vec<i64>)]) -> Result<JoinSet<()>> {
    let mut streams = JoinSet::new();
    let mut channel = stage.channel();
    for (at, user) in (0_i64..).zip(groups.iter().flat_map(|(_, users)| users)) {
        if at % STREAMS == 0 {
            channel = stage.nodes[0].served.connect().await?;
        }
        let mut receiving = receive(channel.clone(), *user).await?;
        streams.spawn(async move { while let Ok(Some(_)) = receiving.message().await {} });
    }
    Ok(streams)
}

async fn receive(
    channel: Channel,
    user_id: i64,
) -> Result<tonic::Streaming<kith_proto::message::v1::ReceiveResponse>> {
    let request = ReceiveRequest { user_id, now: true, ..ReceiveRequest::default() };
    let mut stream = MessageClient::new(channel).receive(request).await?.into_inner();
    stream.message().await?.context("a stream ends at once")?;
    Ok(stream)
}
