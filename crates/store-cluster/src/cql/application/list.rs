//! The application lists. They are written after the applications: before a change is acknowledged, and by
//! the node that resumes it if the first node has died. If several writes meet, the highest version wins, in
//! any order of arrival.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kith_store::{
    Application, ApplicationId, ApplicationKey, ApplicationList, ApplicationMark, ListedApplication,
    StoreError, Timestamp,
};

use super::row::{BY_ID_SERIAL, body};
use crate::cql::{
    client::{
        month::month,
        row::NamedRow,
        session::{AT_A_TIME, Bound, Statement, values},
    },
    stores::Cql,
};

const PUT: Statement = Statement::plain(
    "INSERT INTO %k.application_lists (list, owner, month, id, version, body) VALUES (?, ?, ?, ?, ?, ?) USING TTL ?",
);
/// A row without a version is a mark on a deleted application.
const LIST: Statement = Statement::read(
    "SELECT body, received, read_at FROM %k.application_lists \
     WHERE list = ? AND owner = ? AND month = ? AND id > ? AND version > 0 LIMIT ? ALLOW FILTERING",
);
const LISTED: Statement = Statement::read(
    "SELECT body, received, read_at FROM %k.application_lists \
     WHERE list = ? AND owner = ? AND month = ? AND id IN ?",
);
const RECEIVED: Statement = Statement::plain(
    "UPDATE %k.application_lists USING TTL ? SET received = ? WHERE list = ? AND owner = ? AND month = ? AND id = ?",
);
const READ: Statement = Statement::plain(
    "UPDATE %k.application_lists USING TTL ? SET received = ?, read_at = ? \
     WHERE list = ? AND owner = ? AND month = ? AND id = ?",
);
/// A number above all milliseconds in the next hundred thousand years: the earlier a mark, the higher its
/// timestamp.
const EARLIEST_WINS: i64 = 1 << 52;

impl Cql {
    /// Writes an application into its lists, in its present state.
    pub(super) async fn write_lists(&self, application: &Application) -> Result<(), StoreError> {
        let (id, version) = (application.id, application.version.get());
        let (body, ttl) = (body(application)?, self.client.ttl(application.forgotten()));
        let put = |list: ApplicationList| {
            let (list, owner) = list.numbers();
            let row = values![list, owner, month(id.moment()), id.get(), version, body.clone(), ttl];
            self.client.write(Bound(&PUT, row), Some(version))
        };
        let puts: Vec<_> = application.lists().map(put).collect();
        stream::iter(puts).buffer_unordered(AT_A_TIME).try_collect().await
    }

    /// Writes an application into its lists once more, after the writes in progress have ended.
    pub(super) async fn rewrite_lists(&self, key: ApplicationKey) -> Result<(), StoreError> {
        match self.read_application(&BY_ID_SERIAL, key).await? {
            Some(seen) => self.write_lists(&seen.application).await,
            None => Ok(()),
        }
    }

    /// Reads the part of a list above an id.
    pub(super) async fn listed_above(
        &self,
        list: ApplicationList,
        after: ApplicationId,
        limit: usize,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        let (list, owner) = list.numbers();
        let rows =
            self.client.by_month(&LIST, values![list, owner], after.moment(), after.get(), limit).await?;
        rows.iter().map(listed).collect()
    }

    /// Marks a list's entries.
    pub(super) async fn mark_listed(
        &self,
        list: ApplicationList,
        ids: &[ApplicationId],
        mark: ApplicationMark,
        now: Timestamp,
    ) -> Result<Vec<ListedApplication>, StoreError> {
        let mut found = Vec::with_capacity(ids.len());
        let (kind, owner) = list.numbers();
        for of_month in ids.chunk_by(|a, b| month(a.moment()) == month(b.moment())) {
            let named: Vec<i64> = of_month.iter().map(|id| id.get()).collect();
            let month = month(of_month[0].moment());
            for row in self.client.records(&LISTED, values![kind, owner, month, named]).await? {
                // Only the mark is left from a deleted application.
                if row.text("body")?.is_some() {
                    found.push(listed(&row)?);
                }
            }
        }
        let after: Vec<_> = found.iter().map(|listed| marked(listed.clone(), mark, now)).collect();
        let changed = after.iter().zip(&found).filter(|(after, before)| after != before);
        let parts = changed.map(|(after, _)| self.mark_part(list, &after.application, mark, now));
        let writes: Vec<_> =
            parts.map(|part| self.client.write(part, Some(EARLIEST_WINS.saturating_sub(now.0)))).collect();
        stream::iter(writes).buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
        Ok(after)
    }

    fn mark_part(
        &self,
        list: ApplicationList,
        application: &Application,
        mark: ApplicationMark,
        now: Timestamp,
    ) -> Bound {
        let (list, owner) = list.numbers();
        let (id, ttl) = (application.id, self.client.ttl(application.forgotten()));
        let (statement, mut row) = match mark {
            ApplicationMark::Received => (&RECEIVED, values![ttl, now.0]),
            ApplicationMark::Read => (&READ, values![ttl, now.0, now.0]),
        };
        row.extend(values![list, owner, month(id.moment()), id.get()]);
        Bound(statement, row)
    }
}

/// The entry after the mark: the earliest mark wins.
fn marked(mut listed: ListedApplication, mark: ApplicationMark, now: Timestamp) -> ListedApplication {
    let earliest = |noted: Option<Timestamp>| Some(noted.map_or(now, |noted| noted.min(now)));
    listed.received = earliest(listed.received);
    if mark == ApplicationMark::Read {
        listed.read = earliest(listed.read);
    }
    listed
}

fn listed(row: &NamedRow) -> Result<ListedApplication, StoreError> {
    Ok(ListedApplication {
        application: row.json("body")?,
        received: row.time("received")?,
        read: row.time("read_at")?,
    })
}
