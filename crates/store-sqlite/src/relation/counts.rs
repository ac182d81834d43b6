//! The lengths of follow lists: updated in the transaction that changes the list.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use kith_store::{Edge, FollowCounts, UserId};
use rusqlite::{Connection, Row, params_from_iter};

use crate::{batch::BatchQuery, error::Failure};

/// Uses the primary key.
pub(crate) static BY_IDS: LazyLock<BatchQuery> =
    LazyLock::new(|| BatchQuery::new("SELECT id, following, fans FROM follow_counts"));
/// Users in one statement: for one edge, and for many.
const SIZES: [usize; 2] = [2, 50];
static ADD: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| {
    SIZES.map(|size| {
        format!(
            "INSERT INTO follow_counts (id, following, fans) VALUES {}(?,?,?) ON CONFLICT (id) DO UPDATE
                SET following = following + excluded.following, fans = fans + excluded.fans",
            "(?,?,?),".repeat(size - 1)
        )
    })
});

/// Returns these users' counts, in their order.
pub(crate) fn counts(connection: &Connection, users: &[UserId]) -> Result<Vec<FollowCounts>, Failure> {
    let mut found = HashMap::with_capacity(users.len());
    BY_IDS.run(connection, users, |row| {
        let counts = FollowCounts { following: count(row, 1)?, fans: count(row, 2)? };
        found.insert(row.get::<_, i64>(0)?, counts);
        Ok(())
    })?;
    Ok(users.iter().map(|user| found.get(&user.get()).copied().unwrap_or_default()).collect())
}

/// How much users' lists grow: for each user the following, then the fans.
#[derive(Default)]
pub(crate) struct Tally(BTreeMap<UserId, [i64; 2]>);

impl Tally {
    /// Counts one follow that begins or ends: 1 or -1.
    pub(crate) fn of(edge: Edge, by: i64) -> Self {
        let mut tally = Self::default();
        tally.add(edge, by);
        tally
    }

    /// Adds a follow that begins or ends.
    pub(crate) fn add(&mut self, edge: Edge, by: i64) {
        self.0.entry(edge.from).or_default()[0] += by;
        self.0.entry(edge.to).or_default()[1] += by;
    }

    /// Adds everything to the stored counts.
    pub(crate) fn note(self, connection: &Connection) -> Result<(), Failure> {
        let rows: Vec<[i64; 3]> = self.0.into_iter().map(|(user, [a, b])| [user.get(), a, b]).collect();
        let [few, many] = &*ADD;
        for rows in rows.chunks(SIZES[1]) {
            let mut add = connection.prepare_cached(if rows.len() > SIZES[0] { many } else { few })?;
            // Unused places add nothing to an existing user.
            let none = rows.last().map_or([0; 3], |last| [last[0], 0, 0]);
            let padded = rows.iter().chain(std::iter::repeat(&none)).flatten().take(add.parameter_count());
            add.execute(params_from_iter(padded))?;
        }
        Ok(())
    }
}

/// A count that damage left below 0 counts as 0, until it is counted again.
fn count(row: &Row<'_>, at: usize) -> Result<u64, Failure> {
    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
}
