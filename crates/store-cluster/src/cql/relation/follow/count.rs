//! Counts the parts of lists.

use kith_store::StoreError;

use super::bucket::ListPart;
use crate::cql::{
    client::{
        error::malformed,
        session::{Bound, Statement, values},
    },
    stores::Cql,
};

const COUNT: Statement = Statement::read(
    "SELECT count(*) AS total, sum(live) AS living, min(placed) AS oldest, max(placed) AS newest \
     FROM %k.follow_lists WHERE owner = ? AND list = ? AND bucket = ?",
);
const COUNTED: Statement = Statement::read(
    "SELECT living, WRITETIME(counted) AS written FROM %k.follow_buckets \
     WHERE owner = ? AND list = ? AND bucket = ?",
);
const KEEP: Statement = Statement::plain(
    "INSERT INTO %k.follow_buckets (owner, list, bucket, total, living, oldest, newest, counted) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
);

/// How many entries a part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cql) struct PartCount {
    pub(in crate::cql) entries: i64,
    living: i64,
    /// Whether the stored count was different.
    pub(in crate::cql) corrected: bool,
}

impl Cql {
    /// Counts a part again and stores the result, also if a stored count has a later timestamp. Returns
    /// whether the stored count was different.
    pub(in crate::cql) async fn recount(&self, part: ListPart) -> Result<PartCount, StoreError> {
        let ListPart { owner, list, bucket } = part;
        let before = self.client.records(&COUNTED, values![owner, list, bucket]).await?;
        let (mut written, mut noted) = (0, 0);
        if let Some(row) = before.first() {
            written = row.number("written")?.unwrap_or_default();
            noted = row.number("living")?.unwrap_or_default();
        }
        let found = self.count(part, written + 1).await?;
        Ok(PartCount { corrected: noted != found.living, ..found })
    }

    /// Counts a part and stores the result. The timestamp is the time at which the count began, and at least
    /// `least`: if there are two counts, the count that began later wins.
    pub(in crate::cql) async fn count(&self, part: ListPart, least: i64) -> Result<PartCount, StoreError> {
        let ListPart { owner, list, bucket } = part;
        let begun = self.client.clock.micros();
        let found = self.client.records(&COUNT, values![owner, list, bucket]).await?;
        let row = found.first().ok_or_else(|| malformed("total"))?;
        let entries = row.some_number("total")?;
        let living = row.number("living")?.unwrap_or_default();
        let mut values = values![owner, list, bucket, entries, living];
        values.extend(values![row.number("oldest")?, row.number("newest")?, begun / 1000]);
        self.client.write(Bound(&KEEP, values), Some(begun.max(least))).await?;
        Ok(PartCount { entries, living, corrected: false })
    }

    /// Counts a part again. If it is full and the newest part, opens the next for new entries.
    pub(in crate::cql) async fn count_and_open(&self, part: ListPart) -> Result<PartCount, StoreError> {
        let counted = self.count(part, 0).await?;
        if counted.entries >= i64::from(self.client.options.bucket_entries) {
            let (owner, list) = (part.owner()?, part.list());
            let (head, _) = self.head(owner, list).await?;
            if head == part.bucket {
                self.open_bucket(owner, list, head + 1).await?;
            }
        }
        Ok(counted)
    }
}
