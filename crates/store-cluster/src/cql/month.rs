//! What is kept by months: an owner, the month, and ids that rise with the moment.

use kith_store::{StoreError, Timestamp};

use super::{
    record::Record,
    session::{Cql, Statement, Values, values},
};

/// Milliseconds of what a list calls a month.
const MONTH: i64 = 30 * 24 * 60 * 60 * 1000;
/// Cassandra takes no longer time to live.
const TTL_MAX: i64 = 20 * 365 * 24 * 60 * 60;

impl Cql {
    /// The first rows after an id, which is of this moment, of what is kept by months. A month may be empty. `statement` asks for
    /// the owner, the month, after which id, and how many.
    pub(super) async fn by_month(
        &self,
        statement: &'static Statement,
        owner: Values,
        (moment, after): (Timestamp, i64),
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        // The clock of another node may be ahead.
        let until = Timestamp(self.clock.millis()).after(self.options.clocks_apart);
        let mut found = Vec::new();
        for month in month(moment)..=month(until) {
            let left = i32::try_from(limit - found.len()).unwrap_or(i32::MAX);
            if left == 0 {
                break;
            }
            let mut row = owner.clone();
            row.extend(values![month, after, left]);
            found.extend(self.records(statement, row).await?);
        }
        Ok(found)
    }

    /// So many seconds something is kept that is forgotten then.
    pub(super) fn ttl(&self, forgotten: Timestamp) -> i32 {
        let seconds = forgotten.0.saturating_sub(self.clock.millis()) / 1000;
        i32::try_from(seconds.clamp(1, TTL_MAX)).unwrap_or(i32::MAX)
    }
}

/// In which month this is.
pub(super) const fn month(moment: Timestamp) -> i64 {
    moment.0.div_euclid(MONTH)
}
