//! Kills a node while messages are sent; all its streams resume on another node.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use kith_proto::user::v1::{GetUserRequest, user_service_client::UserServiceClient};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, interval, sleep},
};
use tonic::transport::Channel;

use super::{receivers::Receivers, stage::ReceiveStage};
use crate::{
    claims::Plan,
    ratio::{Pair, nanos},
    rows::latency::Latency,
};

/// The pause between two messages, and between two other calls.
const SENT_EVERY: Duration = Duration::from_millis(10);
const CALLED_EVERY: Duration = Duration::from_millis(5);
/// How long other calls are measured before.
const CALM: Duration = Duration::from_secs(5);

/// The times after one death.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResumeTimes {
    /// The time from the death until all streams were live again; the baseline is how long it took to open
    /// them in sequence.
    pub(super) seconds: Pair<f64>,
    /// The milliseconds that 99 of 100 other calls to the node that took over do not exceed: in calm, and
    /// during it.
    pub(super) others_ms: Pair<f64>,
}

/// Kills each node once.
pub(super) async fn measure(
    plan: &Plan,
    stage: &mut ReceiveStage,
    receivers: &Arc<Receivers>,
) -> Result<Vec<ResumeTimes>> {
    let mut resumed = Vec::new();
    for killed in [0, 1] {
        resumed.push(once(plan, stage, receivers, killed).await?);
        receivers.ensure_complete().await?;
        stage.nodes[killed] = stage.keyspace.served(plan, Some(&stage.redis())).await?;
    }
    Ok(resumed)
}

async fn once(
    plan: &Plan,
    stage: &mut ReceiveStage,
    receivers: &Arc<Receivers>,
    killed: usize,
) -> Result<ResumeTimes> {
    let other = 1 - killed;
    let (calm_ended, calm) = watch::channel(false);
    let (ended, until) = watch::channel(false);
    let sends = sends(stage, receivers, other, until.clone());
    let calm = calls(stage.nodes[other].channel.clone(), calm);
    sleep(plan.size(CALM, Duration::from_millis(200))).await;
    calm_ended.send_replace(true);
    let calm = calm.await??;
    let during = calls(stage.nodes[other].channel.clone(), until);
    let began = Instant::now();
    receivers.use_node(stage, other).await?;
    stage.nodes[killed].served.kill()?;
    receivers.until_live().await?;
    let seconds = began.elapsed().as_secs_f64();
    ended.send_replace(true);
    sends.await??;
    Ok(ResumeTimes {
        seconds: Pair { baseline: receivers.opened_in.as_secs_f64(), kith: seconds },
        others_ms: Pair { baseline: Latency::of(calm).p99, kith: Latency::of(during.await??).p99 },
    })
}

/// Sends to one pair after the other until `ended` is true.
fn sends(
    stage: &ReceiveStage,
    receivers: &Arc<Receivers>,
    node: usize,
    ended: watch::Receiver<bool>,
) -> JoinHandle<Result<()>> {
    let (receivers, mut client) = (Arc::clone(receivers), stage.client(node));
    tokio::spawn(async move {
        let (mut clock, mut pair) = (interval(SENT_EVERY), 0);
        while !*ended.borrow() {
            clock.tick().await;
            pair = pair % receivers.pairs() + 1;
            receivers.send(&mut client, pair).await?;
        }
        Ok(())
    })
}

/// Milliseconds to read a user, until `ended` is true.
fn calls(channel: Channel, ended: watch::Receiver<bool>) -> JoinHandle<Result<Vec<f64>>> {
    tokio::spawn(async move {
        let (mut client, mut clock) = (UserServiceClient::new(channel), interval(CALLED_EVERY));
        let mut times = Vec::new();
        while !*ended.borrow() {
            clock.tick().await;
            let begun = Instant::now();
            client.get_user(GetUserRequest { user_id: 1, consistency: None }).await?;
            times.push(nanos(begun.elapsed()) / 1e6);
        }
        Ok(times)
    })
}
