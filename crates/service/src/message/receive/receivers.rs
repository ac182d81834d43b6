//! The receivers' background tasks: receive wakes, renew inboxes, compare notice totals, and make all
//! receivers read from time to time.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use kith_delivery::{SentMessages, WakeEvent};
use kith_store::{Stores, UserId};
use tokio::time::{MissedTickBehavior, interval};

use super::{
    super::{AtLeast, Inboxes},
    ReceiversInner, Receiving,
    hub::ReceiverHub,
};
use crate::write::{rounds::every, tasks::BackgroundJob};

/// Each receiver reads its inbox once in this time without a wake: this delays a message whose wake was lost.
const SWEEP_PERIOD: Duration = Duration::from_secs(5);
/// Parts into which the receivers are divided for that.
const SWEEP_PARTS: u32 = 20;
/// The delay for a large group's message whose wake was lost.
const LOGS_CHECKED_EVERY: Duration = Duration::from_secs(2);
/// How often an inbox is renewed within its lifetime.
const RENEWALS: u32 = 3;
/// Inboxes that are renewed in one round trip.
const RENEWED_AT_ONCE: usize = 250;

/// The receivers' background tasks. Open streams read no more when it has stopped.
///
/// `node_id`: this node's id, if there are others.
#[must_use]
pub fn receivers_job(receiving: &Receiving, stores: &Stores, node_id: Option<&str>) -> BackgroundJob {
    let parts = || Arc::clone(&receiving.0);
    let hub = || Arc::clone(&receiving.0.hub);
    let mut work = parts().delivery.clone().other_nodes_work(parts(), stores, node_id);
    work.extend([
        receive_wakes(hub(), parts().inboxes().clone()).boxed(),
        renew(parts()).boxed(),
        sweep(hub()).boxed(),
        check_logs(parts()).boxed(),
        parts().totals.clone().run().boxed(),
    ]);
    BackgroundJob::new(work)
}

async fn receive_wakes(hub: Arc<ReceiverHub>, inboxes: Inboxes) {
    let mut wakes = inboxes.keeper.subscribe(&inboxes.node);
    loop {
        match wakes.next().await {
            WakeEvent::Wake(wake) => hub.wake(wake),
            WakeEvent::Interrupted => hub.read_again(),
        }
    }
}

async fn renew(parts: Arc<ReceiversInner>) {
    every(parts.limits().receiver_kept / RENEWALS, async move || {
        for users in parts.hub.users().chunks(RENEWED_AT_ONCE) {
            renew_some(&parts, users).await;
        }
        // Messages in inboxes that could not be renewed are found by the next sweep.
        let inboxes = parts.inboxes();
        parts.keeper().register(&inboxes.node, &parts.hub.logs()).await.ok();
    })
    .await;
}

async fn renew_some(parts: &ReceiversInner, users: &[UserId]) {
    let opened = parts.keeper().open(&parts.inboxes().node, users).await;
    let mut confirmed = Vec::new();
    for (user, opened) in users.iter().zip(opened) {
        if let Ok(opened) = opened {
            confirmed.extend(parts.hub.confirmed(*user, opened.generation));
            parts.hub.inbox_renewed(*user, opened.generation);
        }
    }
    parts.note_confirmed(&confirmed).await;
}

/// Reads the log ends for conversations that are not written to inboxes, in case a wake was lost.
async fn check_logs(parts: Arc<ReceiversInner>) {
    every(LOGS_CHECKED_EVERY, async move || {
        let conversations = parts.hub.logs();
        let Ok(ends) = parts.messages.logs.ends(&conversations, &AtLeast::default()).await else { return };
        for (conversation, end) in conversations.into_iter().zip(ends) {
            let (last, sent) = (end.seq, end.sent.unwrap_or_default());
            parts.hub.add_log(SentMessages { conversation, last, sent, entries: Vec::new() });
        }
    })
    .await;
}

/// Makes the receivers read, a few at a time.
async fn sweep(hub: Arc<ReceiverHub>) {
    let mut ticks = interval(SWEEP_PERIOD / SWEEP_PARTS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let users = hub.users();
        let size = users.len().div_ceil(SWEEP_PARTS as usize).max(1);
        let mut some = users.chunks(size);
        for _ in 0..SWEEP_PARTS {
            ticks.tick().await;
            some.next().unwrap_or_default().iter().for_each(|user| hub.request_read(*user));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::{super::super::faulty_inboxes::FaultyInboxes, *};
    use crate::sample::user;

    fn hub() -> (Arc<ReceiverHub>, Inboxes) {
        let inboxes = Inboxes::new(Arc::new(FaultyInboxes::new()), "node".parse().unwrap());
        (Arc::new(ReceiverHub::new(inboxes.clone(), 9, 9)), inboxes)
    }

    #[tokio::test(start_paused = true)]
    async fn streams_read_after_a_new_subscription() {
        let (hub, inboxes) = hub();
        let receivers = [1, 2].map(|id| hub.register(user(id), Arc::default()).unwrap());
        let task = tokio::spawn(receive_wakes(Arc::clone(&hub), inboxes));
        for receiver in &receivers {
            assert!(receiver.waker.next_work().await.read);
        }
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn every_stream_reads_within_5_s_without_a_wake() {
        let (hub, _) = hub();
        let receivers: Vec<_> = (1..=7).map(|id| hub.register(user(id), Arc::default()).unwrap()).collect();
        let task = tokio::spawn(sweep(hub));
        for _ in 0..2 {
            for receiver in &receivers {
                let work =
                    timeout(SWEEP_PERIOD + SWEEP_PERIOD / SWEEP_PARTS, receiver.waker.next_work()).await;
                assert!(work.expect("the stream is swept").read);
            }
        }
        task.abort();
    }
}
