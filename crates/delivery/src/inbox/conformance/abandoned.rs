//! Cases about nodes that are gone: what their receivers had confirmed is found, once.

use std::time::Duration;

use super::sample::{Subject, node, user};
use crate::{AbandonedReceivers, Generation, ReadFrom};

const NOW: Duration = Duration::ZERO;

fn from(id: i64, after: u64) -> ReadFrom {
    ReadFrom { user: user(id), generation: Generation { epoch: 5, number: 77 }, after }
}

/// Returns what the silent nodes have confirmed, by node and user.
async fn found(subject: &Subject, most: usize) -> Vec<(String, Vec<ReadFrom>)> {
    let found = subject.keeper.abandoned(NOW, most).await.unwrap().into_iter();
    let mut found: Vec<_> = found
        .map(|AbandonedReceivers { node, mut confirmed, .. }| {
            confirmed.sort_unstable_by_key(|from| from.user);
            (node.to_string(), confirmed)
        })
        .collect();
    found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    found
}

pub async fn last_confirmed_position_is_found(subject: Subject) {
    subject.keeper.confirm(&node("a"), &[from(8, 1), from(9, 4)]).await.unwrap();
    subject.keeper.confirm(&node("b"), &[from(8, 2)]).await.unwrap();
    subject.keeper.confirm(&node("a"), &[from(8, 3)]).await.unwrap();
    let expected = [("a".to_owned(), vec![from(8, 3), from(9, 4)]), ("b".to_owned(), vec![from(8, 2)])];
    assert_eq!(found(&subject, 9).await, expected);
}

pub async fn node_that_runs_is_not_abandoned(subject: Subject) {
    subject.keeper.confirm(&node("a"), &[from(8, 1)]).await.unwrap();
    let hour = Duration::from_secs(3_000);
    assert_eq!(subject.keeper.abandoned(hour, 9).await, Ok(Vec::new()));
    subject.keeper.forget(&node("a"), &[user(8)], hour).await.unwrap();
    assert_eq!(found(&subject, 9).await, [("a".to_owned(), Vec::new())], "it may confirm more");
}

pub async fn abandoned_users_are_found_in_turns(subject: Subject) {
    let all: Vec<ReadFrom> = (1..=7).map(|id| from(id, 1)).collect();
    subject.keeper.confirm(&node("a"), &all).await.unwrap();
    let mut users = Vec::new();
    for count in [3, 3, 1, 0] {
        let [(_, some)] = &found(&subject, 3).await[..] else { panic!("the node is there") };
        assert_eq!(some.len(), count);
        users.extend(some.iter().map(|from| from.user));
        let last = &users[users.len() - count..];
        if count > 0 {
            let never = Duration::from_secs(3_000);
            subject.keeper.forget(&node("a"), last, never).await.unwrap();
        }
    }
    users.sort_unstable();
    assert_eq!(users, (1..=7).map(user).collect::<Vec<_>>());
    subject.keeper.forget(&node("a"), &[], NOW).await.unwrap();
    assert_eq!(found(&subject, 3).await, [], "the node is forgotten with its last user");
    subject.keeper.forget(&node("a"), &[user(1)], NOW).await.unwrap();
}
