//! Inboxes in a single node's memory.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use kith_cache::{SystemClock, fake::ManualClock};
use kith_delivery::{
    InboxKeeper as _, InboxLimits, MemoryInboxes, NodeWake, ReadFrom, ReadOutcome, Wake, WakeEvent,
    conformance::{Faults, Part, Subject},
};
use kith_store::UserId;

use crate::inbox_stage::{fan, node, user};

/// A memory has no parts.
#[derive(Debug)]
struct Loss(Arc<MemoryInboxes>);

#[async_trait]
impl Faults for Loss {
    async fn lose(&self, user: UserId, _: Part) {
        self.0.lose(user);
    }
}

async fn open() -> Subject {
    let keeper = Arc::new(MemoryInboxes::new(Arc::new(SystemClock::new()), InboxLimits::default()));
    Subject { faults: Arc::new(Loss(Arc::clone(&keeper))), keeper }
}

kith_delivery::conformance!(open);

fn with(limits: InboxLimits) -> (MemoryInboxes, ManualClock) {
    let clock = ManualClock::new();
    (MemoryInboxes::new(Arc::new(clock.clone()), limits), clock)
}

#[tokio::test]
async fn node_that_does_not_renew_is_not_woken() {
    let (keeper, clock) = with(InboxLimits::default());
    let second = Duration::from_secs(1);
    for name in ["a", "b"] {
        keeper.open(&node(name), &[user(8)]).await.remove(0).unwrap();
        keeper.register(&node(name), &["g10".parse().unwrap()]).await.unwrap();
        clock.advance(second * 45);
    }
    let fanned = fan(&keeper, 1, &[8]).await;
    assert_eq!(fanned.wakes.iter().map(|wake| wake.node.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(keeper.registered("g10".parse().unwrap()).await.unwrap(), [node("b")]);
    clock.advance(second * 45);
    assert_eq!(fan(&keeper, 2, &[8]).await.without_receiver, [user(8)]);
    assert!(keeper.registered("g10".parse().unwrap()).await.unwrap().is_empty());
}

#[tokio::test]
async fn inbox_ends_after_its_time() {
    let (keeper, clock) = with(InboxLimits::default());
    let opened = keeper.open(&node("a"), &[user(8)]).await.remove(0).unwrap();
    let from = ReadFrom { user: user(8), generation: opened.generation, after: 0 };
    clock.advance(Duration::from_secs(899));
    fan(&keeper, 1, &[8]).await;
    assert!(
        matches!(keeper.read(&[from], 1).await[0], Ok(ReadOutcome::Entries(ref entries)) if entries.len() == 1)
    );
    clock.advance(Duration::from_secs(1));
    assert_eq!(keeper.read(&[from], 1).await, [Ok(ReadOutcome::Reset)]);
    let again = keeper.open(&node("a"), &[user(8)]).await.remove(0).unwrap();
    assert_ne!(again.generation, opened.generation);
}

#[tokio::test]
async fn oldest_inboxes_end_when_memory_is_full() {
    let (keeper, _) = with(InboxLimits { memory_bytes: 100_000, ..InboxLimits::default() });
    let mut opened = Vec::new();
    for id in 1..=1_000 {
        opened.push(keeper.open(&node("a"), &[user(id)]).await.remove(0).unwrap());
    }
    let mut kept = Vec::new();
    for (id, opened) in (1..).zip(&opened) {
        let from = ReadFrom { user: user(id), generation: opened.generation, after: 0 };
        if keeper.read(&[from], 1).await == [Ok(ReadOutcome::Entries(Vec::new()))] {
            kept.push(id);
        }
    }
    assert!((50..1_000).contains(&kept.len()), "{} are kept", kept.len());
    assert!(kept.is_sorted() && kept[0] == 1_001 - i64::try_from(kept.len()).unwrap(), "the last ones");
}

#[tokio::test]
async fn slow_subscriber_is_interrupted() {
    let (keeper, _) = with(InboxLimits { wakes_waiting: 2, ..InboxLimits::default() });
    let mut wakes = keeper.subscribe(&node("a"));
    assert_eq!(wakes.next().await, WakeEvent::Interrupted);
    let wake = |id| Wake::Signal { user: user(id), signal: Bytes::new() };
    for id in 1..=3 {
        keeper.publish(&[NodeWake { node: node("a"), wake: wake(id) }]).await.unwrap();
    }
    assert_eq!(wakes.next().await, WakeEvent::Interrupted, "the third one is lost");
    for id in 1..=2 {
        assert_eq!(wakes.next().await, WakeEvent::Wake(wake(id)));
    }
    keeper.publish(&[NodeWake { node: node("a"), wake: wake(4) }]).await.unwrap();
    assert_eq!(wakes.next().await, WakeEvent::Wake(wake(4)));
}

#[tokio::test]
async fn positions_of_an_earlier_process_are_reset() {
    let (earlier, _) = with(InboxLimits::default());
    let opened = earlier.open(&node("a"), &[user(8)]).await.remove(0).unwrap();
    let (keeper, _) = with(InboxLimits::default());
    let again = keeper.open(&node("a"), &[user(8)]).await.remove(0).unwrap();
    assert_eq!(again.generation.number, opened.generation.number);
    let from = ReadFrom { user: user(8), generation: opened.generation, after: 0 };
    assert_eq!(keeper.read(&[from], 1).await, [Ok(ReadOutcome::Reset)]);
}

#[tokio::test]
async fn confirmed_position_is_renewed_or_forgotten() {
    let (keeper, clock) = with(InboxLimits::default());
    let generation = keeper.open(&node("a"), &[user(8)]).await.remove(0).unwrap().generation;
    let from = |id, after| ReadFrom { user: user(id), generation, after };
    keeper.confirm(&node("a"), &[from(8, 1), from(9, 1)]).await.unwrap();
    for after in 2..=4 {
        clock.advance(Duration::from_secs(45));
        keeper.confirm(&node("a"), &[from(9, after)]).await.unwrap();
    }
    clock.advance(Duration::from_secs(14));
    let silent_for = Duration::from_secs(15);
    assert_eq!(keeper.abandoned(silent_for, 9).await, Ok(Vec::new()));
    clock.advance(Duration::from_secs(1));
    let [abandoned] = &keeper.abandoned(silent_for, 9).await.unwrap()[..] else { panic!("a is silent") };
    assert_eq!((abandoned.silent_for, &abandoned.confirmed[..]), (silent_for, &[from(9, 4)][..]));
}
