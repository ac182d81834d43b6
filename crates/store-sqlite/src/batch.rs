//! Batch reads by id or by a pair of columns. Each is one statement with a fixed form, so that it is prepared
//! once.

use kith_store::{Edge, GroupId, MemberKey, UserId};
use rusqlite::{Connection, Row, params_from_iter};

use crate::error::Failure;

/// Places for keys in the prepared forms; the last holds [`kith_store::BATCH_MAX`]. Callers like round
/// numbers.
const SIZES: [usize; 5] = [8, 32, 100, 250, 500];

/// One SQL text for each size.
#[derive(Debug)]
pub(crate) struct BatchQuery([String; SIZES.len()]);

impl BatchQuery {
    /// Reads by `id`. `select` ends before its `WHERE`.
    pub(crate) fn new(select: &str) -> Self {
        Self(SIZES.map(|size| format!("{select} WHERE id IN ({}?)", "?,".repeat(size - 1))))
    }

    /// Reads by `from_id` and `to_id`. `select` ends before its `WHERE`.
    pub(crate) fn by_edge(select: &str) -> Self {
        Self::by_pair(select, "from_id, to_id")
    }

    /// Reads by two columns. `select` ends before its `WHERE`.
    pub(crate) fn by_pair(select: &str, columns: &str) -> Self {
        let pairs = |size| "(?,?),".repeat(size - 1);
        Self(SIZES.map(|size| format!("{select} WHERE ({columns}) IN (VALUES {}(?,?))", pairs(size))))
    }

    /// The smallest text with room for `count` keys.
    pub(crate) fn sql(&self, count: usize) -> &str {
        let fitting = SIZES.iter().position(|size| *size >= count);
        &self.0[fitting.unwrap_or(SIZES.len() - 1)]
    }

    /// Passes each row with these keys to `each`, once. There may be up to [`kith_store::BATCH_MAX`] keys.
    pub(crate) fn run<K: Key>(
        &self,
        connection: &Connection,
        keys: &[K],
        mut each: impl FnMut(&Row<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(last) = keys.last() else { return Ok(()) };
        let mut statement = connection.prepare_cached(self.sql(keys.len()))?;
        let places = statement.parameter_count();
        // Unused places repeat a key: a set has each once.
        let padded = keys.iter().chain(std::iter::repeat(last));
        let numbers = padded.flat_map(|key| key.numbers()).take(places);
        let mut rows = statement.query(params_from_iter(numbers))?;
        while let Some(row) = rows.next()? {
            each(row)?;
        }
        Ok(())
    }
}

/// The key that selects a row.
pub(crate) trait Key: Copy + Send + 'static {
    /// The key's columns.
    fn numbers(self) -> impl IntoIterator<Item = i64>;
}

impl Key for UserId {
    fn numbers(self) -> impl IntoIterator<Item = i64> {
        [self.get()]
    }
}

impl Key for GroupId {
    fn numbers(self) -> impl IntoIterator<Item = i64> {
        [self.get()]
    }
}

impl Key for MemberKey {
    fn numbers(self) -> impl IntoIterator<Item = i64> {
        [self.group.get(), self.user.get()]
    }
}

impl Key for Edge {
    fn numbers(self) -> impl IntoIterator<Item = i64> {
        [self.from.get(), self.to.get()]
    }
}
