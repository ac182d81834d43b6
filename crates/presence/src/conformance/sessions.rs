//! Tests user sessions.

use super::sample::{
    LIMITS, LONG, SHORT, at, change, claimed, close, events_until_now, gateway, next_event, open, renew,
    together, try_change, until, user,
};
use crate::{Change, PresenceError, Presences, SessionOp, UserSessions};

async fn user_sessions(presences: &Presences, id: i64) -> UserSessions {
    presences.sessions.sessions(&[user(id)]).await.unwrap().users.pop().unwrap().unwrap()
}

pub async fn session_sets_user_online_and_its_end_offline(presences: Presences) {
    assert_eq!(user_sessions(&presences, 1).await, UserSessions::default());
    let opened = change(&presences, 1, &at("a"), open("phone", LONG)).await;
    assert!(opened.published && !opened.known && opened.state.version > 0);
    assert_eq!(opened.state.gateways, [gateway("a")]);
    assert!(opened.left.is_some_and(|left| left > LONG / 2 && left <= LONG));
    let found = user_sessions(&presences, 1).await;
    assert_eq!((found.version, found.sessions.len()), (opened.state.version, 1));
    assert_eq!((found.sessions[0].device.as_str(), &found.sessions[0].instance), ("phone", &at("a")));
    let closed = change(&presences, 1, &at("a"), close("phone")).await;
    assert!(closed.published && closed.known && closed.left.is_none());
    assert!(closed.state.gateways.is_empty() && closed.state.version > opened.state.version);
    assert!(user_sessions(&presences, 1).await.sessions.is_empty());
    let again = change(&presences, 1, &at("a"), close("phone")).await;
    assert!(!again.published && !again.known);
    assert_eq!(again.state, closed.state);
    presences.sessions.record_fan_out(user(1), closed.state.version).await.unwrap();
    assert_eq!(user_sessions(&presences, 1).await.version, closed.state.version, "it is kept for a while");
}

pub async fn two_devices_of_a_gateway_publish_one_event(presences: Presences) {
    let mut subscription = presences.feed.subscribe().await.unwrap();
    for (device, published) in [("phone", true), ("tablet", false), ("phone", false)] {
        assert_eq!(
            change(&presences, 1, &at("a"), open(device, LONG)).await.published,
            published,
            "{device}"
        );
    }
    assert_eq!(user_sessions(&presences, 1).await.sessions.len(), 2);
    assert!(!change(&presences, 1, &at("a"), close("phone")).await.published);
    assert!(change(&presences, 1, &at("a"), close("tablet")).await.published);
    let events = events_until_now(&presences, &mut *subscription).await;
    let online: Vec<usize> = events.iter().map(|event| event.gateways.len()).collect();
    assert_eq!(online, [1, 0]);
}

pub async fn versions_increase_and_events_arrive_in_order(presences: Presences) {
    let mut subscription = presences.feed.subscribe().await.unwrap();
    let mut versions = Vec::new();
    for round in 0..20 {
        let instance = at(if round % 2 == 0 { "a" } else { "b" });
        for op in [open("d", LONG), close("d")] {
            versions.push(change(&presences, 1, &instance, op).await.state.version);
        }
    }
    assert!(versions.is_sorted_by(|one, next| one < next), "{versions:?}");
    for version in versions {
        assert_eq!(next_event(&mut *subscription).await.version, version);
    }
}

pub async fn a_session_that_is_not_renewed_ends(presences: Presences) {
    let mut subscription = presences.feed.subscribe().await.unwrap();
    // The short one last: if it had ended before, the other one would cause the event.
    change(&presences, 1, &at("b"), open("long", LONG)).await;
    change(&presences, 1, &at("a"), open("short", SHORT)).await;
    until(async || user_sessions(&presences, 1).await.sessions.len() == 1).await;
    let looked = change(&presences, 1, &at("a"), SessionOp::Expire).await;
    assert!(looked.published && looked.left.is_none());
    assert_eq!(looked.state.gateways, [gateway("b")]);
    let events = events_until_now(&presences, &mut *subscription).await;
    assert_eq!(events.last().unwrap().gateways, [gateway("b")]);
}

pub async fn renewal_of_absent_session_is_reported(presences: Presences) {
    assert!(!change(&presences, 1, &at("a"), renew("d")).await.known);
    assert!(user_sessions(&presences, 1).await.sessions.is_empty(), "nothing is made by it");
    change(&presences, 1, &at("a"), open("d", LONG / 2)).await;
    let renewed = change(&presences, 1, &at("a"), renew("d")).await;
    assert!(renewed.known && !renewed.published && renewed.left.is_some_and(|left| left > LONG / 2));
    assert!(!change(&presences, 1, &at("b"), renew("d")).await.known, "it is at another gateway");
    change(&presences, 2, &at("a"), open("d", SHORT)).await;
    until(async || user_sessions(&presences, 2).await.sessions.is_empty()).await;
    assert!(!change(&presences, 2, &at("a"), renew("d")).await.known, "its time has passed");
}

pub async fn sessions_of_a_user_are_limited(presences: Presences) {
    for number in 0..LIMITS.sessions_max {
        change(&presences, 1, &at("a"), open(&format!("d{number}"), LONG)).await;
    }
    let refused = try_change(&presences, 1, &at("a"), open("more", LONG)).await;
    assert_eq!(refused, Err(PresenceError::TooManySessions));
    assert_eq!(user_sessions(&presences, 1).await.sessions.len(), 4);
    change(&presences, 1, &at("a"), open("d0", LONG)).await;
    change(&presences, 1, &at("a"), close("d0")).await;
    change(&presences, 1, &at("a"), open("more", LONG)).await;
}

pub async fn dead_gateway_publishes_one_event_per_user(presences: Presences) {
    let dying = claimed(&presences, "a", LONG).await;
    for id in 1..=3 {
        for device in ["phone", "tablet"] {
            change(&presences, id, &dying, open(device, LONG)).await;
        }
    }
    change(&presences, 3, &at("b"), open("desk", LONG)).await;
    let mut subscription = presences.feed.subscribe().await.unwrap();
    // Whichever callers end them, and however many: there is one event for each.
    together(6, |number| {
        let (presences, dying) = (presences.clone(), dying.clone());
        async move {
            change(&presences, 1 + number % 3, &dying, SessionOp::End).await;
        }
    })
    .await;
    let mut events = events_until_now(&presences, &mut *subscription).await;
    events.sort_by_key(|event| event.user);
    let published: Vec<_> = events.iter().map(|event| (event.user.get(), event.gateways.len())).collect();
    assert_eq!(published, [(1, 0), (2, 0), (3, 1)]);
}

pub async fn groups_need_fan_out_until_it_is_recorded(presences: Presences) {
    let opened = change(&presences, 1, &at("a"), open("d", LONG)).await.state;
    assert!(opened.needs_fan_out());
    let closed = change(&presences, 1, &at("a"), close("d")).await.state;
    assert_eq!(presences.sessions.record_fan_out(user(1), opened.version).await, Ok(closed.version));
    let looked = change(&presences, 1, &at("a"), SessionOp::Expire).await.state;
    assert!(looked.needs_fan_out() && looked.fanned_version == opened.version);
    presences.sessions.record_fan_out(user(1), closed.version).await.unwrap();
    assert!(!change(&presences, 1, &at("a"), SessionOp::Expire).await.state.needs_fan_out());
    let again = change(&presences, 1, &at("a"), open("d", LONG)).await.state;
    assert!(again.needs_fan_out() && again.version > closed.version);
    assert_eq!(presences.sessions.record_fan_out(user(2), 5).await, Ok(0));
}

pub async fn users_to_check_are_due(presences: Presences) {
    let instance = at("a");
    let due = async |all| {
        let mut due = presences.sessions.users_to_check(&instance, 10, all).await.unwrap();
        due.sort_unstable();
        due
    };
    change(&presences, 1, &instance, open("d", LONG)).await;
    change(&presences, 2, &instance, open("d", SHORT)).await;
    assert_eq!(due(true).await, [user(1), user(2)]);
    until(async || due(false).await == [user(2)]).await;
    change(&presences, 1, &instance, close("d")).await;
    until(async || due(false).await == [user(1), user(2)]).await;
    assert_eq!(presences.sessions.users_to_check(&instance, 1, false).await.unwrap().len(), 1);
    let looked = [(user(1), Some(LONG)), (user(2), None)];
    presences.sessions.mark_checked(&instance, &looked, false).await.unwrap();
    assert_eq!((due(false).await, due(true).await), (vec![], vec![user(1)]));
    presences.sessions.mark_checked(&instance, &[(user(1), None)], false).await.unwrap();
    assert_eq!(due(true).await, [user(1)], "it came again");
    presences.sessions.mark_checked(&instance, &[(user(1), None)], true).await.unwrap();
    assert_eq!(due(true).await, []);
}

pub async fn concurrent_changes_are_one_step_each(presences: Presences) {
    let mut subscription = presences.feed.subscribe().await.unwrap();
    together(40, |number| {
        let presences = presences.clone();
        async move {
            let of = |op| Change { user: user(1 + number % 2), instance: at("a"), op };
            let changes = [of(open("d", LONG)), of(close("d"))];
            presences.sessions.change(&changes).await.into_iter().for_each(|changed| drop(changed.unwrap()));
        }
    })
    .await;
    let events = events_until_now(&presences, &mut *subscription).await;
    for id in [1, 2] {
        let of_user: Vec<_> = events.iter().filter(|event| event.user == user(id)).collect();
        assert!(of_user.is_sorted_by(|one, next| one.version < next.version));
        let online: Vec<usize> = of_user.iter().map(|event| event.gateways.len()).collect();
        let alternates = online.iter().enumerate().all(|(at, online)| *online == usize::from(at % 2 == 0));
        assert!(alternates && !online.is_empty(), "{online:?}");
        assert!(user_sessions(&presences, id).await.sessions.is_empty());
    }
}
