//! PUBLISH and SUBSCRIBE by hand.

use std::time::Duration;

use anyhow::{Result, ensure};
use fred::{
    clients::Client,
    interfaces::{ClientLike as _, EventInterface as _, PubsubInterface as _},
    types::{Builder, Message, config::Config},
};
use tokio::{
    sync::broadcast::Receiver,
    task::JoinSet,
    time::{Instant, interval, timeout},
};

use crate::ratio::nanos;

const CHANNEL: &str = "raw:wake";
/// Bytes in a message, as a wake with one message with 200 bytes has them.
const BYTES: usize = 300;
const PATIENCE: Duration = Duration::from_secs(5);

/// A publisher and a subscriber, each with a connection.
pub(super) struct PubSub {
    publisher: Client,
    subscriber: Client,
}

impl PubSub {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let build = || anyhow::Ok(Builder::from_config(Config::from_url(url)?).build()?);
        let (publisher, subscriber) = (build()?, build()?);
        publisher.init().await?;
        subscriber.init().await?;
        subscriber.subscribe(CHANNEL).await?;
        Ok(Self { publisher, subscriber })
    }

    /// Publishes some messages at each tick. Returns the microseconds from each call to its arrival.
    pub(super) async fn times(&self, ticks: usize, at_a_tick: usize, tick: Duration) -> Result<Vec<f64>> {
        let arrivals = tokio::spawn(arrivals(self.subscriber.message_rx(), ticks * at_a_tick));
        let (mut clock, mut calls) = (interval(tick), JoinSet::new());
        for at in 0..ticks * at_a_tick {
            if at % at_a_tick == 0 {
                clock.tick().await;
            }
            let publisher = self.publisher.clone();
            calls.spawn(async move {
                let called = Instant::now();
                let _receivers: i64 = publisher.publish(CHANNEL, format!("{at:0BYTES$}")).await?;
                anyhow::Ok((at, called))
            });
        }
        let called = calls.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        let arrivals = arrivals.await??;
        Ok(called.iter().map(|(at, called)| nanos(arrivals[*at].duration_since(*called)) / 1e3).collect())
    }
}

/// When each of `count` messages arrived.
async fn arrivals(mut messages: Receiver<Message>, count: usize) -> Result<Vec<Instant>> {
    let (mut arrivals, mut left) = (vec![Instant::now(); count], count);
    while left > 0 {
        let message = timeout(PATIENCE, messages.recv()).await??;
        let at: usize = message.value.convert::<String>()?.parse()?;
        ensure!(at < count, "a message of another run came");
        arrivals[at] = Instant::now();
        left -= 1;
    }
    Ok(arrivals)
}
