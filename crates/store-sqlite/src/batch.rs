//! Batch reads by id or by edge as one statement of a fixed form, so that it is prepared once.

use kith_store::Edge;
use rusqlite::{Connection, Rows, params_from_iter};

use crate::error::Failure;

/// Places for keys in the prepared forms; the last holds [`kith_store::BATCH_MAX`]. Callers like round numbers.
const SIZES: [usize; 5] = [8, 32, 100, 250, 500];

/// One SQL text for each size.
#[derive(Debug)]
pub(crate) struct BatchQuery([String; SIZES.len()]);

impl BatchQuery {
    /// By `id`. `select` ends before its `WHERE`.
    pub(crate) fn new(select: &str) -> Self {
        Self(SIZES.map(|size| format!("{select} WHERE id IN ({}?)", "?,".repeat(size - 1))))
    }

    /// By `from_id` and `to_id`. `select` ends before its `WHERE`.
    pub(crate) fn by_edge(select: &str) -> Self {
        let edges = |size| "(?,?),".repeat(size - 1);
        Self(SIZES.map(|size| format!("{select} WHERE (from_id, to_id) IN (VALUES {}(?,?))", edges(size))))
    }

    /// The smallest text with room for `count` keys.
    pub(crate) fn sql(&self, count: usize) -> &str {
        let fitting = SIZES.iter().position(|size| *size >= count);
        &self.0[fitting.unwrap_or(SIZES.len() - 1)]
    }

    /// Hands the rows of these ids to `each`, every row once. `ids` are 1 to [`kith_store::BATCH_MAX`].
    pub(crate) fn run(
        &self,
        connection: &Connection,
        ids: &[i64],
        each: impl FnOnce(Rows<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(last) = ids.last() else { return Ok(()) };
        let mut statement = connection.prepare_cached(self.sql(ids.len()))?;
        let places = statement.parameter_count();
        // What is not needed repeats an id: a set has each once.
        let padded = ids.iter().chain(std::iter::repeat(last)).take(places);
        each(statement.query(params_from_iter(padded))?)
    }

    /// The same for edges, of a query that was made [`by_edge`](Self::by_edge).
    pub(crate) fn run_edges(
        &self,
        connection: &Connection,
        edges: &[Edge],
        each: impl FnOnce(Rows<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(last) = edges.last() else { return Ok(()) };
        let mut statement = connection.prepare_cached(self.sql(edges.len()))?;
        let places = statement.parameter_count();
        let padded = edges.iter().chain(std::iter::repeat(last));
        let keys = padded.flat_map(|edge| [edge.from.get(), edge.to.get()]).take(places);
        each(statement.query(params_from_iter(keys))?)
    }
}
