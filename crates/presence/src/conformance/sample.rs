//! Changes and claims that the cases start from.

use std::time::Duration;

use kith_store::{GroupId, UserId};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    Change, ChangeOutcome, Claim, ClaimOutcome, Event, GatewayId, Incarnation, Instance, PresenceError,
    PresenceLimits, PresenceSubscription, Presences, SessionOp, UserState,
};

/// The limits that presence must have when it is opened for the suite.
pub const LIMITS: PresenceLimits = PresenceLimits {
    sessions_max: 4,
    gateways_max: 8,
    kept: Duration::from_secs(60),
    recheck_after: Duration::from_millis(20),
};

/// Lasts longer than any case takes.
pub(super) const LONG: Duration = Duration::from_secs(600);
/// Is over before a case gives up.
pub(super) const SHORT: Duration = Duration::from_millis(60);
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn user(id: i64) -> UserId {
    UserId::new(id).unwrap()
}

pub(super) fn group(id: i64) -> GroupId {
    GroupId::new(id).unwrap()
}

pub(super) fn gateway(id: &str) -> GatewayId {
    id.parse().unwrap()
}

pub(super) fn at(id: &str) -> Instance {
    Instance { gateway: gateway(id), incarnation: Incarnation::new(1).unwrap() }
}

pub(super) fn open(device: &str, lasts: Duration) -> SessionOp {
    SessionOp::Open(device.parse().unwrap(), lasts)
}

pub(super) fn renew(device: &str) -> SessionOp {
    SessionOp::Renew(device.parse().unwrap(), LONG)
}

pub(super) fn close(device: &str) -> SessionOp {
    SessionOp::Close(device.parse().unwrap())
}

pub(super) async fn try_change(
    presences: &Presences,
    id: i64,
    instance: &Instance,
    op: SessionOp,
) -> Result<ChangeOutcome, PresenceError> {
    let change = Change { user: user(id), instance: instance.clone(), op };
    presences.sessions.change(&[change]).await.pop().unwrap()
}

pub(super) async fn change(
    presences: &Presences,
    id: i64,
    instance: &Instance,
    op: SessionOp,
) -> ChangeOutcome {
    try_change(presences, id, instance, op).await.unwrap()
}

pub(super) async fn claim(
    presences: &Presences,
    id: &str,
    offered: Option<Incarnation>,
    lasts: Duration,
) -> Result<ClaimOutcome, PresenceError> {
    presences.sessions.claim(&Claim { gateway: gateway(id), offered, lasts }).await
}

/// Claims an id that is free.
pub(super) async fn claimed(presences: &Presences, id: &str, lasts: Duration) -> Instance {
    match claim(presences, id, None, lasts).await.unwrap() {
        ClaimOutcome::Held(incarnation) => Instance { gateway: gateway(id), incarnation },
        ClaimOutcome::Denied => panic!("{id} is not free"),
    }
}

pub(super) fn state(version: i64, at: &[&str]) -> UserState {
    UserState { version, fanned_version: 0, gateways: at.iter().map(|id| gateway(id)).collect() }
}

pub(super) async fn next_event(subscription: &mut dyn PresenceSubscription) -> Event {
    timeout(PATIENCE, subscription.next()).await.expect("an event comes").expect("none is lost")
}

/// The events that were published before this call. The call publishes another event, which arrives after
/// them.
pub(super) async fn events_until_now(
    presences: &Presences,
    subscription: &mut dyn PresenceSubscription,
) -> Vec<Event> {
    let last = change(presences, 4711, &at("last"), open("d", LONG)).await.state.version;
    let mut all = Vec::new();
    loop {
        let event = next_event(subscription).await;
        if event.user == user(4711) && event.version == last {
            return all;
        }
        all.push(event);
    }
}

/// Waits until the condition holds.
pub(super) async fn until(mut is: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is().await {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Runs this many calls at once.
pub(super) async fn together<F: Future<Output = ()> + Send + 'static>(count: i64, run: impl Fn(i64) -> F) {
    let mut all = JoinSet::new();
    for number in 0..count {
        all.spawn(run(number));
    }
    all.join_all().await;
}
