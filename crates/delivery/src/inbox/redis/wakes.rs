//! Wakes of a node out of Redis: subscribes again after each loss.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use kith_cache::remote::redis::{ChannelSubscription, ScriptRunner};
use tokio::time::sleep;

use crate::inbox::{WakeEvent, WakeSubscription, wake_form};

/// Pause after a failed try to subscribe; it doubles with each try, up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The wakes of a node, over a connection of their own.
pub(super) struct RedisSubscription {
    runner: Arc<ScriptRunner>,
    channels: Vec<String>,
    state: SubscriptionState,
}

enum SubscriptionState {
    /// Continues after [`WakeSubscription::next`] was cancelled.
    Subscribing(BoxFuture<'static, ChannelSubscription>),
    Subscribed(ChannelSubscription),
}

impl RedisSubscription {
    pub(super) fn new(runner: Arc<ScriptRunner>, channels: Vec<String>) -> Self {
        let state = SubscriptionState::Subscribing(
            subscribe_with_retries(Arc::clone(&runner), channels.clone()).boxed(),
        );
        Self { runner, channels, state }
    }
}

#[async_trait]
impl WakeSubscription for RedisSubscription {
    async fn next(&mut self) -> WakeEvent {
        loop {
            match &mut self.state {
                SubscriptionState::Subscribing(subscribed) => {
                    self.state = SubscriptionState::Subscribed(subscribed.await);
                    return WakeEvent::Interrupted;
                }
                SubscriptionState::Subscribed(published) => match published.next().await {
                    Some(bytes) => {
                        // A wake of a newer program is dropped: receivers also read from time to time.
                        if let Some(wake) = wake_form::decode(bytes) {
                            return WakeEvent::Wake(wake);
                        }
                    }
                    None => {
                        let again = subscribe_with_retries(Arc::clone(&self.runner), self.channels.clone());
                        self.state = SubscriptionState::Subscribing(again.boxed());
                    }
                },
            }
        }
    }
}

impl fmt::Debug for RedisSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSubscription").field("channels", &self.channels).finish_non_exhaustive()
    }
}

/// Subscribes, with retries.
async fn subscribe_with_retries(runner: Arc<ScriptRunner>, channels: Vec<String>) -> ChannelSubscription {
    let mut pause = PAUSE;
    loop {
        if let Ok(published) = runner.subscribe(channels.clone()).await {
            return published;
        }
        // Random, so that not all nodes subscribe at the same time.
        sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
