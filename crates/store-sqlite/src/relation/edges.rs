//! Maintenance for follows, their lists, and the list lengths.
//!
//! Lists are indexes on the follows table and change with it: they differ only where the file is damaged.

use async_trait::async_trait;
use kith_store::{
    CountsRebuilt, EdgeDifference, EdgeDifferenceKind, EdgeUpkeep, EdgesVerified, RemovedEdges, StoreError,
    Timestamp, UserId,
};
use rusqlite::{Connection, Row, params};

use super::removal;
use crate::{
    Sqlite,
    error::{Failure, corrupt},
    row::{edge_of, size},
    statement::run,
};

/// The most entries that one step checks or ends.
const STEP_MAX: usize = 1000;

/// Primary key; each follow in both lists.
pub(crate) const FOLLOWS: &str = "SELECT from_id, to_id, from_id, placed_ms, to_id,
        live = 1 AND NOT EXISTS (SELECT 1 FROM follows AS place INDEXED BY follows_following
            WHERE place.live = 1 AND place.from_id = follows.from_id AND place.placed_ms = follows.placed_ms
            AND place.to_id = follows.to_id AND place.version = follows.version
            AND place.since_ms = follows.since_ms),
        live = 1 AND NOT EXISTS (SELECT 1 FROM follows AS place INDEXED BY follows_fans
            WHERE place.live = 1 AND place.to_id = follows.to_id AND place.placed_ms = follows.placed_ms
            AND place.from_id = follows.from_id AND place.version = follows.version
            AND place.since_ms = follows.since_ms)
    FROM follows INDEXED BY sqlite_autoindex_follows_1
    WHERE (from_id, to_id) > (?1, ?3) ORDER BY from_id, to_id LIMIT ?4";
/// Index `follows_following`; each place in the primary key.
pub(crate) const PLACES_IN_FOLLOWING: &str =
    "SELECT from_id, to_id, from_id, placed_ms, to_id, NOT EXISTS
        (SELECT 1 FROM follows INDEXED BY sqlite_autoindex_follows_1
            WHERE live = 1 AND from_id = place.from_id AND to_id = place.to_id
            AND placed_ms = place.placed_ms AND version = place.version AND since_ms = place.since_ms), 0
    FROM follows AS place INDEXED BY follows_following
    WHERE live = 1 AND (from_id, placed_ms, to_id) > (?1, ?2, ?3) ORDER BY from_id, placed_ms, to_id LIMIT ?4";
/// Index `follows_fans`; each place in the primary key.
pub(crate) const PLACES_AMONG_FANS: &str =
    "SELECT from_id, to_id, to_id, placed_ms, from_id, NOT EXISTS
        (SELECT 1 FROM follows INDEXED BY sqlite_autoindex_follows_1
            WHERE live = 1 AND from_id = place.from_id AND to_id = place.to_id
            AND placed_ms = place.placed_ms AND version = place.version AND since_ms = place.since_ms), 0
    FROM follows AS place INDEXED BY follows_fans
    WHERE live = 1 AND (to_id, placed_ms, from_id) > (?1, ?2, ?3) ORDER BY to_id, placed_ms, from_id LIMIT ?4";
/// Primary key, its ends.
pub(crate) const ENDS: &str =
    "SELECT (SELECT MIN(id) FROM follow_counts), (SELECT MAX(id) FROM follow_counts)";
/// Uses indexes `follows_following` and `follows_fans`, then the primary key of `follow_counts`.
pub(crate) const NEXT_USER: &str = "SELECT MIN(id) FROM (
    SELECT MIN(from_id) AS id FROM follows WHERE live = 1 AND from_id > ?1 UNION ALL
    SELECT MIN(to_id) FROM follows WHERE live = 1 AND to_id > ?1 UNION ALL
    SELECT MIN(id) FROM follow_counts WHERE id > ?1)";
/// Uses the same indexes as the query above.
pub(crate) const COUNTED: &str = "SELECT
    (SELECT COUNT(*) FROM follows INDEXED BY follows_following WHERE live = 1 AND from_id = ?1),
    (SELECT COUNT(*) FROM follows INDEXED BY follows_fans WHERE live = 1 AND to_id = ?1),
    IFNULL((SELECT following FROM follow_counts WHERE id = ?1), 0),
    IFNULL((SELECT fans FROM follow_counts WHERE id = ?1), 0)";
const CORRECT: &str = "INSERT OR REPLACE INTO follow_counts (id, following, fans) VALUES (?1, ?2, ?3)";

#[async_trait]
impl EdgeUpkeep for Sqlite {
    async fn verify_edges(
        &self,
        after: Option<&[u8]>,
        limit: usize,
        repair: bool,
    ) -> Result<EdgesVerified, StoreError> {
        let from = after.map_or(Ok(Position::FIRST), Position::of_mark)?;
        let limit = limit.clamp(1, STEP_MAX);
        let mut step = self.readers.read(move |connection| verify(connection, from, limit)).await?;
        if repair && !step.differences.is_empty() {
            let found = step.differences;
            step.differences = self.writer.write(move |connection| repair_lists(connection, found)).await?;
        }
        Ok(step)
    }

    async fn rebuild_counts(&self, after: Option<&[u8]>, limit: usize) -> Result<CountsRebuilt, StoreError> {
        let after = after.map_or(Ok(0), user_of_mark)?;
        let limit = size(limit.clamp(1, STEP_MAX));
        let (mut step, wrong) =
            self.readers.read(move |connection| compare(connection, after, limit)).await?;
        if !wrong.is_empty() {
            (step.corrected, step.corrected_of) =
                self.writer.write(move |connection| correct(connection, &wrong)).await?;
        }
        Ok(step)
    }

    async fn remove_edges(&self, user: UserId, limit: usize) -> Result<RemovedEdges, StoreError> {
        let limit = limit.clamp(1, STEP_MAX);
        self.writer.write(move |connection| removal::remove(connection, user, limit)).await
    }

    async fn note_removal(&self, user: UserId, at: Timestamp) -> Result<(), StoreError> {
        self.writer.write(move |connection| removal::note(connection, user, at)).await
    }

    async fn removals(&self, limit: usize) -> Result<Vec<(UserId, Timestamp)>, StoreError> {
        self.readers.read(move |connection| removal::noted(connection, limit)).await
    }

    async fn end_removal(&self, user: UserId, noted: Timestamp) -> Result<(), StoreError> {
        self.writer.write(move |connection| removal::end(connection, user, noted)).await
    }
}

/// A comparison makes three passes like this.
struct VerifyPass {
    sql: &'static str,
    /// How to read a row's two last columns.
    kinds: [EdgeDifferenceKind; 2],
}

const PASSES: [VerifyPass; 3] = [
    VerifyPass {
        sql: FOLLOWS,
        kinds: [EdgeDifferenceKind::NotInFollowing, EdgeDifferenceKind::NotAmongFans],
    },
    VerifyPass { sql: PLACES_IN_FOLLOWING, kinds: [EdgeDifferenceKind::StrayInFollowing; 2] },
    VerifyPass { sql: PLACES_AMONG_FANS, kinds: [EdgeDifferenceKind::StrayAmongFans; 2] },
];

/// A comparison's progress: the pass, and its last row's key.
#[derive(Clone, Copy)]
struct Position {
    pass: u8,
    key: [i64; 3],
}

impl Position {
    const FIRST: Self = Self::begin_of(0);

    const fn begin_of(pass: u8) -> Self {
        Self { pass, key: [i64::MIN; 3] }
    }

    fn of_mark(mark: &[u8]) -> Result<Self, StoreError> {
        let none = || corrupt("a mark of a comparison");
        let (pass, key) = mark.split_first().ok_or_else(none)?;
        let (key, []) = key.as_chunks::<8>() else { return Err(none()) };
        let key: [[u8; 8]; 3] = key.try_into().map_err(|_| none())?;
        if usize::from(*pass) >= PASSES.len() {
            return Err(none());
        }
        Ok(Self { pass: *pass, key: key.map(i64::from_be_bytes) })
    }

    fn mark(self) -> Vec<u8> {
        let mut mark = vec![self.pass];
        self.key.iter().for_each(|part| mark.extend(part.to_be_bytes()));
        mark
    }
}

fn verify(connection: &Connection, from: Position, limit: usize) -> Result<EdgesVerified, Failure> {
    let pass = &PASSES[usize::from(from.pass)];
    let mut step = EdgesVerified::default();
    let mut last = from;
    let mut read = connection.prepare_cached(pass.sql)?;
    let mut rows = read.query(params![from.key[0], from.key[1], from.key[2], size(limit)])?;
    while let Some(row) = rows.next()? {
        step.checked += 1;
        step.differences.extend(differences(row, pass)?);
        last.key = [row.get(2)?, row.get(3)?, row.get(4)?];
    }
    let ended = step.checked < u64::try_from(limit).unwrap_or(u64::MAX);
    let next = if ended { Position::begin_of(from.pass + 1) } else { last };
    step.next = PASSES.get(usize::from(next.pass)).map(|_| next.mark());
    step.done = match step.next {
        Some(_) => (f64::from(next.pass) + share(connection, next.key[0])?) / 3.0,
        None => 1.0,
    };
    Ok(step)
}

fn differences(row: &Row<'_>, pass: &VerifyPass) -> Result<Vec<EdgeDifference>, Failure> {
    let mut found = Vec::new();
    for (at, kind) in [(5, pass.kinds[0]), (6, pass.kinds[1])] {
        if row.get(at)? {
            found.push(EdgeDifference { edge: edge_of(row)?, kind, repaired: false });
        }
    }
    Ok(found)
}

/// Rebuilds the lists that differ. A damaged index cannot be repaired row by row: SQLite refuses to remove a
/// missing row.
fn repair_lists(connection: &Connection, found: Vec<EdgeDifference>) -> Result<Vec<EdgeDifference>, Failure> {
    let in_following = |one: &EdgeDifference| match one.kind {
        EdgeDifferenceKind::NotInFollowing | EdgeDifferenceKind::StrayInFollowing => true,
        EdgeDifferenceKind::NotAmongFans | EdgeDifferenceKind::StrayAmongFans => false,
    };
    if found.iter().any(in_following) {
        connection.execute("REINDEX follows_following", [])?;
    }
    if !found.iter().all(in_following) {
        connection.execute("REINDEX follows_fans", [])?;
    }
    Ok(found.into_iter().map(|one| EdgeDifference { repaired: true, ..one }).collect())
}

/// Counts both lists for each user after that user: a list is counted completely, however long it is, because
/// a partial count is useless after the list has changed. Returns the users whose stored counts differ.
fn compare(connection: &Connection, after: i64, limit: i64) -> Result<(CountsRebuilt, Vec<i64>), Failure> {
    let (mut step, mut wrong) = (CountsRebuilt::default(), Vec::new());
    let (mut user, mut entries) = (after, 0);
    while entries < limit {
        let Some(next) = next_user(connection, user)? else {
            return Ok((CountsRebuilt { done: 1.0, ..step }, wrong));
        };
        let lists = ListLengths::of(connection, next)?;
        if lists.stored != lists.counted {
            wrong.push(next);
        }
        step.counted += 2;
        entries += 1 + lists.counted[0] + lists.counted[1];
        user = next;
    }
    step.done = share(connection, user)?;
    step.next = Some(mark_of_user(user));
    Ok((step, wrong))
}

/// Counts these users' lists again, while nothing can change, and returns the number of corrected lists, and
/// their users.
fn correct(connection: &Connection, users: &[i64]) -> Result<(u64, Vec<UserId>), Failure> {
    let (mut corrected, mut of) = (0, Vec::new());
    for user in users {
        let ListLengths { counted: [following, fans], stored } = ListLengths::of(connection, *user)?;
        let wrong = u64::from(following != stored[0]) + u64::from(fans != stored[1]);
        if wrong == 0 {
            continue;
        }
        run(connection, CORRECT, [*user, following, fans])?;
        corrected += wrong;
        of.push(UserId::new(*user).map_err(|_| corrupt("follow_counts.id"))?);
    }
    Ok((corrected, of))
}

/// The lengths of a user's lists: the following, then the fans.
struct ListLengths {
    counted: [i64; 2],
    stored: [i64; 2],
}

impl ListLengths {
    fn of(connection: &Connection, user: i64) -> Result<Self, Failure> {
        let mut read = connection.prepare_cached(COUNTED)?;
        Ok(read.query_row([user], |row| {
            Ok(Self { counted: [row.get(0)?, row.get(1)?], stored: [row.get(2)?, row.get(3)?] })
        })?)
    }
}

fn next_user(connection: &Connection, after: i64) -> Result<Option<i64>, Failure> {
    Ok(connection.prepare_cached(NEXT_USER)?.query_row([after], |row| row.get(0))?)
}

/// The prefix for a counted user's mark; no comparison mark is as long.
const COUNTED_MARK: &[u8] = b"counted";

fn mark_of_user(user: i64) -> Vec<u8> {
    [COUNTED_MARK, &user.to_be_bytes()].concat()
}

fn user_of_mark(mark: &[u8]) -> Result<i64, StoreError> {
    let user = mark.strip_prefix(COUNTED_MARK).and_then(|user| user.try_into().ok());
    Ok(i64::from_be_bytes(user.ok_or_else(|| corrupt("a mark of a count"))?))
}

/// Estimates which share of all users comes up to this user.
fn share(connection: &Connection, user: i64) -> Result<f64, Failure> {
    let mut read = connection.prepare_cached(ENDS)?;
    let ends =
        read.query_row([], |row| Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?)))?;
    let (Some(first), Some(last)) = ends else { return Ok(1.0) };
    Ok((float(user.saturating_sub(first)) / float(last.saturating_sub(first)).max(1.0)).clamp(0.0, 1.0))
}

#[expect(clippy::cast_precision_loss, reason = "of shares, which are rough")]
fn float(count: i64) -> f64 {
    count as f64
}
