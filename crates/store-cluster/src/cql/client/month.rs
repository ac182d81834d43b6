//! Tables whose partitions are an owner and a month, with ids that rise with time.

use kith_store::{StoreError, Timestamp};

use super::{
    row::NamedRow,
    session::{Client, Statement, Values, values},
};

/// Milliseconds in a month: 30 days, not a calendar month.
const MONTH: i64 = 30 * 24 * 60 * 60 * 1000;
/// Cassandra's maximum time to live, in seconds.
const TTL_MAX: i64 = 20 * 365 * 24 * 60 * 60;

impl Client {
    /// Reads up to `limit` of an owner's rows after the id `after`, which was made at `moment`. Reads one
    /// month after the other, because months may be empty. `statement` takes the owner, the month, the id,
    /// and the limit.
    pub(in crate::cql) async fn by_month(
        &self,
        statement: &'static Statement,
        owner: Values,
        moment: Timestamp,
        after: i64,
        limit: usize,
    ) -> Result<Vec<NamedRow>, StoreError> {
        // Rows from another node, whose clock is ahead, may be in the next month.
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

    /// The time to live in seconds for a row that expires at this time.
    pub(in crate::cql) fn ttl(&self, expires: Timestamp) -> i32 {
        let seconds = expires.0.saturating_sub(self.clock.millis()) / 1000;
        i32::try_from(seconds.clamp(1, TTL_MAX)).unwrap_or(i32::MAX)
    }
}

/// The month's number at this time.
pub(in crate::cql) const fn month(moment: Timestamp) -> i64 {
    moment.0.div_euclid(MONTH)
}
