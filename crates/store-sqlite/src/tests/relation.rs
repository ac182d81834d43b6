//! Follows and blocks: plans, and damage that only a hand can do.

use kith_store::{
    EdgeDifference, EdgeDifferenceKind, EdgesVerified, Follow, FollowCounts, FollowList, ImportedFollow,
    Stores, conformance::relation_sample::edge,
};

use super::*;
use crate::relation::{block, blocked, counts, edges, follow, log};

const FOLLOWING_COLUMNS: &str = "(from_id, placed_ms, to_id, version, since_ms)";
const FANS_COLUMNS: &str = "(to_id, placed_ms, from_id, version, since_ms)";

async fn follow_of(stores: &Stores, from: i64, to: i64) -> Follow {
    stores.follows.follow(edge(from, to), Duration::ZERO, write()).await.unwrap().record
}

/// A store where 1 follows 2 and 3, and 4 has followed 2.
async fn some_follows() -> SqliteHandle {
    let handle = open_in_memory().await.unwrap();
    let stores = handle.stores();
    for (from, to) in [(1, 2), (1, 3), (4, 2)] {
        follow_of(&stores, from, to).await;
    }
    stores.follows.unfollow(edge(4, 2), write()).await.unwrap();
    handle
}

/// Creates an index on follows again with the rows that meet `condition`, under a definition that names the
/// active rows.
async fn damage_index(handle: &SqliteHandle, index: &'static str, columns: &str, condition: &str) {
    let text = |condition| format!("CREATE INDEX {index} ON follows {columns} WHERE {condition}");
    let sql = format!(
        "DROP INDEX {index}; {}; PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET sql = '{}' WHERE name = '{index}'; PRAGMA writable_schema = RESET",
        text(condition),
        text("live = 1")
    );
    let damage = move |connection: &Connection| Ok(connection.execute_batch(&sql)?);
    handle.sqlite.writer.exclusively(damage).await.unwrap();
}

async fn execute(handle: &SqliteHandle, sql: &'static str) {
    handle.sqlite.writer.write(move |connection| Ok(connection.execute(sql, [])?)).await.unwrap();
}

/// Walks through all in steps of two.
async fn verify(handle: &SqliteHandle, repair: bool) -> Vec<EdgeDifference> {
    let upkeep = handle.stores().edges;
    let (mut found, mut mark, mut before) = (Vec::new(), None, 0.0);
    loop {
        let step: EdgesVerified = upkeep.verify_edges(mark.as_deref(), 2, repair).await.unwrap();
        assert!(step.checked <= 2 && step.done >= before && step.done <= 1.0, "{before} {step:?}");
        found.extend(step.differences);
        before = step.done;
        let Some(next) = step.next else { break };
        mark = Some(next);
    }
    assert!((before - 1.0).abs() < f64::EPSILON, "{before}");
    found
}

#[tokio::test]
async fn wrong_list_is_rebuilt() {
    // A list that lacks a follow, and a list with an ended follow.
    let (lacks, has_ended) = ((edge(1, 3), "live = 1 AND to_id <> 3", 3), (edge(4, 2), "live < 2", 5));
    for (index, columns, kind, (edge, rows, count)) in [
        ("follows_following", FOLLOWING_COLUMNS, EdgeDifferenceKind::NotInFollowing, lacks),
        ("follows_fans", FANS_COLUMNS, EdgeDifferenceKind::NotAmongFans, lacks),
        ("follows_following", FOLLOWING_COLUMNS, EdgeDifferenceKind::StrayInFollowing, has_ended),
        ("follows_fans", FANS_COLUMNS, EdgeDifferenceKind::StrayAmongFans, has_ended),
    ] {
        let handle = some_follows().await;
        damage_index(&handle, index, columns, rows).await;
        assert_eq!(shown(&handle).await.len(), count, "{index}");
        let difference = EdgeDifference { edge, kind, repaired: false };
        assert_eq!(verify(&handle, false).await, [difference]);
        assert_eq!(verify(&handle, true).await, [EdgeDifference { repaired: true, ..difference }]);
        assert_eq!(verify(&handle, true).await, []);
        assert_eq!(shown(&handle).await.len(), 4, "{index}");
        assert_eq!(handle.integrity_check().await.unwrap(), Vec::<String>::new());
    }
}

/// Returns everything that all users' lists show.
async fn shown(handle: &SqliteHandle) -> Vec<Follow> {
    let follows = handle.stores().follows;
    let mut shown = Vec::new();
    for user in 1..=4 {
        for list in [FollowList::Following, FollowList::Fans] {
            shown.extend(follows.follow_list(id(user), list, None, 10).await.unwrap());
        }
    }
    shown
}

#[tokio::test]
async fn only_wrong_counts_are_corrected() {
    let handle = some_follows().await;
    let stores = handle.stores();
    let users = [1, 2, 3, 4, 9].map(id);
    let right = stores.follows.follow_counts(&users).await.unwrap();
    execute(&handle, "UPDATE follow_counts SET following = following + 5, fans = -1 WHERE id = 1").await;
    execute(&handle, "DELETE FROM follow_counts WHERE id = 3").await;
    execute(&handle, "INSERT INTO follow_counts VALUES (9, 0, 7)").await;
    assert_ne!(stores.follows.follow_counts(&users).await.unwrap(), right);
    assert_eq!(rebuild(&stores).await, (10, 4));
    assert_eq!(stores.follows.follow_counts(&users).await.unwrap(), right);
    assert_eq!(rebuild(&stores).await, (10, 0));
}

/// Counts all in steps that end as early as they may; how many lists were counted and corrected.
async fn rebuild(stores: &Stores) -> (u64, u64) {
    let (mut counted, mut corrected, mut mark, mut before) = (0, 0, None, 0.0);
    loop {
        let step = stores.edges.rebuild_counts(mark.as_deref(), 1).await.unwrap();
        assert!(step.counted <= 2 && step.done >= before && step.done <= 1.0, "{before} {step:?}");
        (counted, corrected, before) = (counted + step.counted, corrected + step.corrected, step.done);
        let Some(next) = step.next else { return (counted, corrected) };
        mark = Some(next);
    }
}

#[tokio::test]
async fn a_count_below_none_reads_as_none() {
    let handle = some_follows().await;
    execute(&handle, "UPDATE follow_counts SET following = -3, fans = -1 WHERE id = 1").await;
    let counts = handle.stores().follows.follow_counts(&[id(1)]).await.unwrap();
    assert_eq!(counts, [FollowCounts::default()]);
}

#[tokio::test]
async fn marks_of_one_pass_are_refused_by_the_other() {
    let handle = some_follows().await;
    let upkeep = handle.stores().edges;
    let compared = upkeep.verify_edges(None, 1, false).await.unwrap().next.unwrap();
    let counted = upkeep.rebuild_counts(None, 1).await.unwrap().next.unwrap();
    let beyond = [&[3], &compared[1..]].concat();
    for mark in [&counted[..], &compared[1..], &beyond, b"", b"\0"] {
        let refused = upkeep.verify_edges(Some(mark), 1, false).await.unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{mark:?}: {refused:?}");
    }
    for mark in [&compared[..], &counted[1..], b"", b"counted"] {
        let refused = upkeep.rebuild_counts(Some(mark), 1).await.unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{mark:?}: {refused:?}");
    }
}

#[tokio::test]
async fn import_notes_users_in_several_statements() {
    let handle = open_in_memory().await.unwrap();
    let follows = handle.stores().follows;
    let all = |from: i64| move |to| ImportedFollow { edge: edge(from, to), since: Timestamp(1) };
    let batch: Vec<_> = (1..=120).map(all(500)).chain((1..=70).map(all(501))).collect();
    for _ in 0..2 {
        follows.import_follows(&batch, Timestamp(9)).await.unwrap();
        let counts = follows.follow_counts(&[500, 501, 1, 70, 71, 120].map(id)).await.unwrap();
        let counts: Vec<_> = counts.iter().map(|counts| (counts.following, counts.fans)).collect();
        assert_eq!(counts, [(120, 0), (70, 0), (0, 2), (0, 2), (0, 1), (0, 1)]);
    }
}

#[tokio::test]
async fn active_follow_is_not_written_again() {
    let handle = some_follows().await;
    let changes = |connection: &Connection| Ok(connection.total_changes());
    let before = handle.sqlite.writer.write(changes).await.unwrap();
    follow_of(&handle.stores(), 1, 2).await;
    assert_eq!(handle.sqlite.writer.write(changes).await.unwrap(), before);
}

#[tokio::test]
async fn no_query_of_relations_scans_or_sorts() {
    let handle = open_in_memory().await.unwrap();
    let batches = [8, 500]
        .map(|count| [follow::BY_EDGES.sql(count), block::BY_EDGES.sql(count), counts::BY_IDS.sql(count)]);
    let single = [
        follow::STATE,
        follow::FOLLOWING,
        follow::FANS,
        follow::END,
        follow::ANY_FROM,
        follow::ANY_TO,
        block::BY_EDGE,
        block::BLOCKED,
        block::DO_NOT_DISTURB,
        block::SET,
        blocked::IS_BLOCKED,
        block::REMOVE,
        block::ANY_FROM,
        block::ANY_TO,
        edges::FOLLOWS,
        edges::PLACES_IN_FOLLOWING,
        edges::PLACES_AMONG_FANS,
        edges::ENDS,
        edges::NEXT_USER,
        edges::COUNTED,
        log::LIST,
        log::LAST,
        log::FORGET,
    ];
    for sql in batches.into_iter().flatten().chain(single) {
        for step in plan(&handle, sql).await {
            // Values are what was asked for, and a constant row comes from no table.
            let bounded = step.ends_with("VALUES CLAUSE") || step == "SCAN CONSTANT ROW";
            assert!(bounded || !step.starts_with("SCAN"), "{step}\n{sql}");
            assert!(!step.contains("TEMP B-TREE"), "{step}\n{sql}");
        }
    }
}

#[tokio::test]
async fn list_queries_seek_in_their_index() {
    let handle = open_in_memory().await.unwrap();
    for (sql, expected) in [
        (follow::FOLLOWING, "COVERING INDEX follows_following (from_id=? AND (placed_ms,to_id)<(?,?))"),
        (follow::FANS, "COVERING INDEX follows_fans (to_id=? AND (placed_ms,from_id)<(?,?))"),
        (block::BLOCKED, "INDEX blocks_blocked (from_id=? AND blocked_ms>? AND (blocked_ms,to_id)<(?,?))"),
        (block::DO_NOT_DISTURB, "INDEX blocks_dnd (from_id=? AND dnd_ms>? AND (dnd_ms,to_id)<(?,?))"),
        (block::SET, "INDEX blocks_from (from_id=? AND to_id<?)"),
        (blocked::IS_BLOCKED, "PRIMARY KEY (from_id=? AND to_id=?)"),
        (follow::ANY_FROM, "COVERING INDEX follows_following (from_id=?)"),
        (follow::ANY_TO, "COVERING INDEX follows_fans (to_id=?)"),
        (block::ANY_FROM, "COVERING INDEX blocks_from (from_id=?)"),
        (block::ANY_TO, "COVERING INDEX blocks_to (to_id=?)"),
        (log::LIST, "relation_log USING PRIMARY KEY (owner=? AND id>?)"),
        (log::FORGET, "INDEX relation_log_id (id<?)"),
    ] {
        let plan = plan(&handle, sql).await.join("\n");
        assert!(plan.contains(expected), "{expected}\n{plan}");
    }
}

#[tokio::test]
async fn comparison_walks_one_side_and_looks_up() {
    let handle = open_in_memory().await.unwrap();
    let row = "follows USING PRIMARY KEY (from_id=? AND to_id=?)";
    for (sql, expected) in [
        (
            edges::FOLLOWS,
            [
                "follows USING PRIMARY KEY ((from_id,to_id)>(?,?))",
                "place USING COVERING INDEX follows_following (from_id=? AND placed_ms=? AND to_id=?",
                "place USING COVERING INDEX follows_fans (to_id=? AND placed_ms=? AND from_id=?",
            ],
        ),
        (
            edges::PLACES_IN_FOLLOWING,
            ["place USING COVERING INDEX follows_following ((from_id,placed_ms,to_id)>(?,?,?))", row, row],
        ),
        (
            edges::PLACES_AMONG_FANS,
            ["place USING COVERING INDEX follows_fans ((to_id,placed_ms,from_id)>(?,?,?))", row, row],
        ),
    ] {
        let plan = plan(&handle, sql).await.join("\n");
        assert!(expected.iter().all(|part| plan.contains(part)), "{expected:?}\n{plan}");
    }
}
