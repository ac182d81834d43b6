//! Cases for the node store and migrations.

use std::{collections::BTreeSet, time::Duration};

use super::sample::{bare_user, create_user, each_at_once, live_user};
use crate::{Epoch, IdBlock, IdKind, Stores};

pub async fn the_backend_has_a_name(stores: Stores) {
    let name = stores.node.backend();
    assert!(!name.is_empty() && name.bytes().all(|c| c.is_ascii_lowercase()), "{name}");
}

pub async fn a_store_in_use_answers_a_ping(stores: Stores) {
    stores.node.ping(Duration::from_secs(10)).await.unwrap();
    create_user(&stores, bare_user(1, "ann")).await;
    stores.node.ping(Duration::from_secs(10)).await.unwrap();
}

async fn allocate(stores: &Stores, kind: IdKind, count: u32) -> IdBlock {
    let block = stores.node.allocate_ids(kind, count).await.unwrap();
    assert_eq!(block.count, count);
    block
}

fn end(block: IdBlock) -> i64 {
    block.first + i64::from(block.count)
}

pub async fn allocated_ids_follow_each_other(stores: Stores) {
    for kind in [IdKind::User, IdKind::Group] {
        let mut free = IdKind::FIRST_ALLOCATED;
        for count in [1, 1000, 7, 1] {
            let block = allocate(&stores, kind, count).await;
            assert!(block.first >= free, "{block:?} after {free}");
            free = end(block);
        }
    }
}

pub async fn allocated_ids_are_above_ids_of_callers(stores: Stores) {
    create_user(&stores, bare_user(12, "ann")).await;
    assert!(allocate(&stores, IdKind::User, 3).await.first >= IdKind::FIRST_ALLOCATED);
    assert!(allocate(&stores, IdKind::Group, 3).await.first >= IdKind::FIRST_ALLOCATED);
}

pub async fn users_and_groups_count_apart(stores: Stores) {
    let first = allocate(&stores, IdKind::User, 1_000_000).await;
    let group = allocate(&stores, IdKind::Group, 1).await;
    assert!(group.first < end(first), "{group:?}");
}

pub async fn blocks_given_out_at_once_do_not_overlap(stores: Stores) {
    let mut blocks = each_at_once(&stores, 1..=32, |stores, count| async move {
        stores.node.allocate_ids(IdKind::User, count).await.unwrap()
    })
    .await;
    blocks.sort_by_key(|block| block.first);
    let counts: BTreeSet<u32> = blocks.iter().map(|block| block.count).collect();
    assert_eq!(counts, (1..=32).collect());
    assert!(blocks[0].first >= IdKind::FIRST_ALLOCATED);
    for pair in blocks.windows(2) {
        assert!(end(pair[0]) <= pair[1].first, "{pair:?}");
    }
    assert!(allocate(&stores, IdKind::User, 1).await.first >= end(blocks[31]));
}

fn epoch(number: u64, server: &str) -> Epoch {
    Epoch { number, server: server.to_owned() }
}

pub async fn the_epoch_begins_at_zero(stores: Stores) {
    assert_eq!(stores.node.epoch().await.unwrap(), epoch(0, ""));
}

pub async fn an_epoch_seen_is_raised_by_one(stores: Stores) {
    for seen in 0..3 {
        assert_eq!(stores.node.raise_epoch(seen, "").await.unwrap(), epoch(seen + 1, ""));
        assert_eq!(stores.node.epoch().await.unwrap(), epoch(seen + 1, ""));
    }
}

pub async fn a_stale_epoch_raises_nothing(stores: Stores) {
    stores.node.raise_epoch(0, "a").await.unwrap();
    stores.node.raise_epoch(1, "a").await.unwrap();
    for seen in [0, 1, 3, 1_000_000] {
        assert_eq!(stores.node.raise_epoch(seen, "b").await.unwrap(), epoch(2, "a"), "seen {seen}");
    }
    assert_eq!(stores.node.epoch().await.unwrap(), epoch(2, "a"));
}

pub async fn an_epoch_raised_at_once_moves_one_step(stores: Stores) {
    for seen in 0..5 {
        let calls = each_at_once(&stores, 0..16, |stores, _| async move {
            stores.node.raise_epoch(seen, "").await.unwrap()
        });
        assert_eq!(calls.await, vec![epoch(seen + 1, ""); 16]);
        assert_eq!(stores.node.epoch().await.unwrap(), epoch(seen + 1, ""));
    }
}

pub async fn an_epoch_keeps_its_server(stores: Stores) {
    for (seen, server) in (0..).zip(["run 1 of 'é'", "$x.y", "", "\u{1F600}"]) {
        assert_eq!(stores.node.raise_epoch(seen, server).await.unwrap(), epoch(seen + 1, server));
        assert_eq!(stores.node.epoch().await.unwrap(), epoch(seen + 1, server));
    }
}

pub async fn loser_of_epoch_race_gets_epoch_of_winner(stores: Stores) {
    for seen in 0..5 {
        let answers = each_at_once(&stores, 0..16, |stores, at| async move {
            stores.node.raise_epoch(seen, &format!("server {at}")).await.unwrap()
        })
        .await;
        let current = stores.node.epoch().await.unwrap();
        assert_eq!(current.number, seen + 1);
        assert!(current.server.starts_with("server "), "{current:?}");
        assert_eq!(answers, vec![current; 16]);
    }
}

pub async fn the_first_candidate_becomes_the_key(stores: Stores) {
    assert_eq!(stores.node.key("page", [1; 32]).await.unwrap(), [1; 32]);
    assert_eq!(stores.node.key("page", [2; 32]).await.unwrap(), [1; 32]);
    assert_eq!(stores.node.key("page", [0; 32]).await.unwrap(), [1; 32]);
}

pub async fn keys_of_different_names_are_apart(stores: Stores) {
    let candidate = |name: &str| [u8::try_from(name.len()).unwrap() ^ 0xFF; 32];
    for name in ["a", "ab", "abc-d"] {
        stores.node.key(name, candidate(name)).await.unwrap();
    }
    for name in ["a", "ab", "abc-d"] {
        assert_eq!(stores.node.key(name, [0; 32]).await.unwrap(), candidate(name));
    }
}

pub async fn candidates_at_once_agree_on_one_key(stores: Stores) {
    let keys =
        each_at_once(
            &stores,
            0..32,
            |stores, at| async move { stores.node.key("page", [at; 32]).await.unwrap() },
        )
        .await;
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert!(keys[0][0] < 32 && keys[0] == [keys[0][0]; 32]);
    assert_eq!(stores.node.key("page", [99; 32]).await.unwrap(), keys[0]);
}

/// The servers that the tests use run on this machine.
pub async fn clock_of_store_runs_near_ours(stores: Stores) {
    let clock = async || stores.node.clock(Duration::from_secs(10)).await.unwrap();
    let Some(first) = clock().await else { return };
    let ours = crate::Timestamp::of_machine();
    assert!((ours.0 - first.0).abs() < 60_000, "{first:?} and {ours:?}");
    assert!(clock().await.is_some_and(|second| second >= first));
}

pub async fn all_migrations_are_applied_and_count_from_one(stores: Stores) {
    let migrations = stores.migrations.status().await.unwrap();
    assert!(!migrations.is_empty());
    for (number, migration) in (1..).zip(&migrations) {
        assert_eq!(migration.number, number);
        assert!(migration.applied.is_some(), "{migration:?} is pending");
        assert!(!migration.name.is_empty());
    }
}

pub async fn repeated_migration_changes_nothing(stores: Stores) {
    let user = create_user(&stores, bare_user(1, "ann")).await;
    let before = stores.migrations.status().await.unwrap();
    assert_eq!(stores.migrations.migrate().await.unwrap(), []);
    assert_eq!(stores.migrations.status().await.unwrap(), before);
    assert_eq!(live_user(&stores, 1).await, user);
}

pub async fn migrating_at_once_applies_nothing_twice(stores: Stores) {
    let calls =
        each_at_once(&stores, 0..8, |stores, _| async move { stores.migrations.migrate().await.unwrap() });
    assert!(calls.await.into_iter().all(|applied| applied.is_empty()));
}

pub async fn forgetting_without_requests_forgets_nothing(stores: Stores) {
    create_user(&stores, bare_user(1, "ann")).await;
    let far = crate::Timestamp::now().after(10 * crate::REQUEST_KEPT);
    assert_eq!(stores.node.forget_requests(far).await.unwrap(), 0);
}
