//! Cases for the online members of groups.

use super::sample::{gateway, group, state, together, user};
use crate::{ActiveMember, Distribution, Presences, UserState};

async fn apply(presences: &Presences, id: i64, state: &UserState) -> bool {
    presences.active.apply(user(id), state, &[group(9)]).await.pop().unwrap().unwrap()
}

async fn leave(presences: &Presences, id: i64) -> bool {
    presences.active.leave(group(9), &[user(id)]).await.pop().unwrap().unwrap()
}

/// How many are online, and at each gateway.
async fn counted(presences: &Presences) -> (u32, Vec<(String, u32)>) {
    let found = presences.active.distributions(&[group(9)]).await.pop().unwrap().unwrap();
    let gateways = found.gateways.into_iter().map(|(id, count)| (id.to_string(), count));
    (found.total, gateways.collect())
}

async fn online(presences: &Presences) -> Vec<i64> {
    let all = presences.active.active(group(9), None, 100).await.unwrap();
    all.iter().map(|member| member.user.get()).collect()
}

fn at(counts: &[(&str, u32)]) -> Vec<(String, u32)> {
    counts.iter().map(|(id, count)| ((*id).to_owned(), *count)).collect()
}

pub async fn online_user_counts_once_and_per_gateway(presences: Presences) {
    assert_eq!(counted(&presences).await, (0, vec![]));
    assert!(apply(&presences, 1, &state(10, &["a", "b"])).await);
    assert!(apply(&presences, 2, &state(10, &["b"])).await);
    assert_eq!(counted(&presences).await, (2, at(&[("a", 1), ("b", 2)])));
    assert!(apply(&presences, 1, &state(11, &["c"])).await);
    assert_eq!(counted(&presences).await, (2, at(&[("b", 1), ("c", 1)])));
    assert!(apply(&presences, 1, &state(12, &[])).await);
    assert!(apply(&presences, 2, &state(12, &[])).await);
    assert_eq!(counted(&presences).await, (0, vec![]));
    assert_eq!(online(&presences).await, [] as [i64; 0]);
}

pub async fn late_update_changes_nothing(presences: Presences) {
    assert!(apply(&presences, 1, &state(10, &["a"])).await);
    assert!(apply(&presences, 1, &state(12, &[])).await);
    assert!(!apply(&presences, 1, &state(11, &["b"])).await, "it went since");
    assert_eq!(counted(&presences).await, (0, vec![]));
    assert!(!apply(&presences, 2, &state(20, &[])).await);
    assert!(!apply(&presences, 2, &state(19, &["a"])).await, "it went before the group knew of it");
    assert_eq!(counted(&presences).await, (0, vec![]));
}

pub async fn repeated_update_changes_nothing(presences: Presences) {
    assert!(apply(&presences, 1, &state(10, &["a"])).await);
    let before = presences.active.distributions(&[group(9), group(8)]).await;
    assert!(!apply(&presences, 1, &state(10, &["a"])).await);
    assert!(!apply(&presences, 1, &state(11, &["a"])).await);
    let after = presences.active.distributions(&[group(9), group(8)]).await;
    assert_eq!(before, after);
    assert_eq!(after[1], Ok(Distribution::default()), "another group is as it was");
    assert!(apply(&presences, 1, &state(12, &["b"])).await);
    let found = presences.active.distributions(&[group(9)]).await.pop().unwrap().unwrap();
    assert!(found.version > before[0].as_ref().unwrap().version);
}

pub async fn leaving_user_is_gone_until_next_update(presences: Presences) {
    assert!(!leave(&presences, 1).await, "it was not there");
    assert!(apply(&presences, 1, &state(10, &["a"])).await);
    assert!(leave(&presences, 1).await);
    assert!(!leave(&presences, 1).await);
    assert_eq!(counted(&presences).await, (0, vec![]));
    assert!(!apply(&presences, 1, &state(9, &["b"])).await);
    assert!(apply(&presences, 1, &state(10, &["a"])).await, "it joined again");
    assert_eq!(counted(&presences).await, (1, at(&[("a", 1)])));
}

pub async fn online_users_are_paged_by_id(presences: Presences) {
    for id in [100, 9, i64::MAX, 20, 3] {
        apply(&presences, id, &state(10, &["a", "b"])).await;
    }
    apply(&presences, 20, &state(11, &[])).await;
    let page = |after| presences.active.active(group(9), after, 2);
    let ids = |page: Vec<ActiveMember>| page.iter().map(|one| one.user.get()).collect::<Vec<_>>();
    let first = page(None).await.unwrap();
    assert_eq!(first[0].gateways, [gateway("a"), gateway("b")]);
    assert_eq!(ids(first), [3, 9]);
    assert_eq!(ids(page(Some(user(9))).await.unwrap()), [100, i64::MAX]);
    assert_eq!(ids(page(Some(user(i64::MAX))).await.unwrap()), [] as [i64; 0]);
}

pub async fn concurrent_updates_are_counted_exactly(presences: Presences) {
    together(200, |number| {
        let presences = presences.clone();
        async move {
            // Each user has ten versions in some order. The last version is at "b".
            let (id, version) = (1 + number / 10, 10 + number * 7 % 10);
            let gateway = if version == 19 { "b" } else { "a" };
            apply(&presences, id, &state(version, &[gateway])).await;
        }
    })
    .await;
    assert_eq!(counted(&presences).await, (20, at(&[("b", 20)])));
}
