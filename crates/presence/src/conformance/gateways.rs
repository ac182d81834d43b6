//! Tests gateways: claims, lives and deaths.

use super::sample::{LIMITS, LONG, SHORT, at, claim, claimed, until};
use crate::{ClaimOutcome, Incarnation, PresenceError, Presences};

async fn is_dead(presences: &Presences, id: &str) -> bool {
    let all = presences.sessions.gateways().await.unwrap().all;
    let mut found = all.iter().filter(|state| state.instance.gateway.as_str() == id);
    found.all(|state| state.left.is_zero())
}

pub async fn first_claim_of_gateway_denies_others(presences: Presences) {
    let instance = claimed(&presences, "a", LONG).await;
    let other = Incarnation::new(7);
    assert_eq!(claim(&presences, "a", None, LONG).await, Ok(ClaimOutcome::Denied));
    assert_eq!(claim(&presences, "a", other, LONG).await, Ok(ClaimOutcome::Denied));
    let again = claim(&presences, "a", Some(instance.incarnation), LONG).await;
    assert_eq!(again, Ok(ClaimOutcome::Held(instance.incarnation)));
    let all = presences.sessions.gateways().await.unwrap().all;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].instance, instance);
    assert!(all[0].left > LONG / 2 && all[0].left <= LONG, "{:?}", all[0].left);
}

pub async fn id_of_dead_gateway_may_be_claimed(presences: Presences) {
    let first = claimed(&presences, "a", SHORT).await;
    until(async || is_dead(&presences, "a").await).await;
    let second = claimed(&presences, "a", LONG).await;
    assert_ne!(first.incarnation, second.incarnation);
    let late = claim(&presences, "a", Some(first.incarnation), LONG).await;
    assert_eq!(late, Ok(ClaimOutcome::Denied), "the newer claimant is the gateway");
    let all = presences.sessions.gateways().await.unwrap().all;
    assert_eq!(all.len(), 2, "the dead one is listed until it is forgotten");
}

pub async fn known_incarnation_is_held_after_data_loss(presences: Presences) {
    let given = Incarnation::new(42);
    assert_eq!(claim(&presences, "a", given, LONG).await, Ok(ClaimOutcome::Held(given.unwrap())));
    assert_eq!(claim(&presences, "a", None, LONG).await, Ok(ClaimOutcome::Denied));
}

pub async fn only_dead_gateway_is_forgotten(presences: Presences) {
    let (dying, living) = (claimed(&presences, "a", SHORT).await, claimed(&presences, "b", LONG).await);
    until(async || is_dead(&presences, "a").await).await;
    for instance in [&dying, &living, &at("unknown")] {
        presences.sessions.forget(instance).await.unwrap();
    }
    let all = presences.sessions.gateways().await.unwrap().all;
    assert_eq!(all.into_iter().map(|state| state.instance).collect::<Vec<_>>(), [living]);
    let again = claim(&presences, "a", Some(dying.incarnation), LONG).await;
    assert_eq!(again, Ok(ClaimOutcome::Held(dying.incarnation)), "no other gateway claimed it meanwhile");
}

pub async fn gateways_are_limited(presences: Presences) {
    let first = claimed(&presences, "g0", LONG).await;
    for number in 1..LIMITS.gateways_max {
        claimed(&presences, &format!("g{number}"), LONG).await;
    }
    let refused = claim(&presences, "more", None, LONG).await;
    assert_eq!(refused, Err(PresenceError::TooManyGateways));
    let goes_on = claim(&presences, "g0", Some(first.incarnation), LONG).await;
    assert_eq!(goes_on, Ok(ClaimOutcome::Held(first.incarnation)));
}

pub async fn the_epoch_stays_and_ages(presences: Presences) {
    let first = presences.sessions.gateways().await.unwrap();
    until(async || presences.sessions.gateways().await.unwrap().age > first.age).await;
    let second = presences.sessions.gateways().await.unwrap();
    assert_eq!(first.epoch, second.epoch);
    let lookup = presences.sessions.sessions(&[]).await.unwrap();
    assert!(lookup.age >= second.age);
}
