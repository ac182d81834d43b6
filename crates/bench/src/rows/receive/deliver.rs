//! How soon messages are delivered among very many streams that are open, over PUBLISH and SUBSCRIBE.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use tokio::{task::JoinSet, time::interval};

use super::{pubsub::PubSub, receivers::Receivers, stage::ReceiveStage};
use crate::{
    claims::Plan,
    ratio::{Pair, Side, interleave, nanos},
    rows::latency::Latency,
};

/// Messages at one tick, and how many ticks there are a second: 300 messages a second.
const AT_A_TICK: usize = 3;
const TICK: Duration = Duration::from_millis(10);

/// The microseconds that 99 of 100 deliveries do not exceed: from the answer to the sender to the delivery to
/// the other user, and from calling PUBLISH to the subscriber.
pub(super) async fn measure(
    plan: &Plan,
    stage: &ReceiveStage,
    receivers: &Arc<Receivers>,
) -> Result<Vec<Pair<f64>>> {
    let raw = PubSub::connect(&stage.redis()).await?;
    let ticks = plan.size(1_000, 20);
    interleave(plan.rounds, async |side| {
        let times = match side {
            Side::Baseline => raw.times(ticks, AT_A_TICK, TICK).await?,
            Side::Kith => delivered(stage, receivers, ticks).await?,
        };
        Ok(Latency::of(times).p99)
    })
    .await
}

async fn delivered(stage: &ReceiveStage, receivers: &Arc<Receivers>, ticks: usize) -> Result<Vec<f64>> {
    receivers.record_arrivals();
    let (client, mut clock, mut sends) = (stage.client(0), interval(TICK), JoinSet::new());
    for at in 0..ticks * AT_A_TICK {
        if at % AT_A_TICK == 0 {
            clock.tick().await;
        }
        let pair = 1 + i64::try_from(at)? * 7 % receivers.pairs();
        let (receivers, mut client) = (Arc::clone(receivers), client.clone());
        sends.spawn(async move { receivers.send(&mut client, pair).await });
    }
    let answered = sends.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    receivers.ensure_complete().await?;
    let arrivals = receivers.arrivals();
    answered
        .iter()
        .map(|sent| {
            let arrived = arrivals.get(&(sent.to, sent.seq)).context("a message did not come")?;
            // The message may arrive before the answer.
            Ok(nanos(arrived.saturating_duration_since(sent.answered)) / 1e3)
        })
        .collect()
}
