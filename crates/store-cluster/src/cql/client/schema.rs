//! Creates the keyspace and the tables if they do not exist. Every statement is idempotent.

use std::{collections::BTreeSet, time::Duration};

use kith_store::{Outcome, StoreError};
use scylla::{client::session::Session, statement::Statement as Text};

use super::{
    error::{malformed, out_of_time, read_failed, unavailable, write_failed},
    session::Client,
};

const TABLES: [(u32, &str); 5] = [
    (4, include_str!("../../../../../migrations/cql/0004_relations.cql")),
    (5, include_str!("../../../../../migrations/cql/0005_members.cql")),
    (6, include_str!("../../../../../migrations/cql/0006_applications.cql")),
    (7, include_str!("../../../../../migrations/cql/0007_relation_log.cql")),
    (8, include_str!("../../../../../migrations/cql/0008_bans.cql")),
];
/// The time limit for one statement: schema changes are slow.
const LIMIT: Duration = Duration::from_secs(60);
pub(in crate::cql) const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// Every migration's statements begin like this, and then name the table.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS %k.";

/// The tables, by the migrations that create them.
pub(crate) fn tables() -> BTreeSet<String> {
    let all = TABLES.iter().flat_map(|(_, text)| statements(text));
    let name = |statement: String| {
        let rest = statement.strip_prefix(CREATE)?;
        rest.split_whitespace().next().map(str::to_owned)
    };
    all.filter_map(name).collect()
}

impl Client {
    /// Drops all tables, and creates those that the migrations up to this one make.
    ///
    /// Restored cells keep the times at which they were written: versions and later writes of a resumed
    /// change are compared with them. So nothing that was written or deleted in the lost time, and is newer,
    /// may stay in their place: no row, no tombstone, no hint for a server that was away, no conditional
    /// write that was accepted and not committed. All of these belong to a table by its id, and a table that
    /// is created again has a new id. A truncated table keeps its id, and its conditional writes in progress.
    /// Later conditional writes win over restored cells, because their times are later.
    pub(in crate::cql) async fn recreate_tables(&self, newest: u32) -> Result<(), StoreError> {
        let session = self.connected(CONNECTED_WITHIN).await?;
        if self.has_keyspace(session).await? {
            for table in tables() {
                self.define(session, self.text(&format!("DROP TABLE IF EXISTS %k.{table}"))).await?;
            }
            self.agree(session).await?;
        }
        for (number, _) in TABLES.iter().filter(|(number, _)| *number <= newest) {
            self.apply(*number).await?;
        }
        // Writes are sent to the servers that have the row, which depends on the tables.
        session
            .refresh_metadata()
            .await
            .map_err(|_| unavailable("the schema cannot be read", Outcome::NotApplied))
    }

    async fn has_keyspace(&self, session: &Session) -> Result<bool, StoreError> {
        let text = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?";
        let found = session.query_unpaged(text, (self.keyspace_name(),)).await;
        let found = found.map_err(|error| read_failed(&error))?;
        let rows = found.into_rows_result().map_err(|_| malformed("keyspace_name"))?;
        Ok(rows.rows_num() > 0)
    }

    async fn agree(&self, session: &Session) -> Result<(), StoreError> {
        match tokio::time::timeout(LIMIT, session.await_schema_agreement()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(unavailable("the servers do not agree on the schema", Outcome::Unknown)),
            Err(_) => Err(out_of_time(Outcome::Unknown)),
        }
    }

    /// Applies a migration's CQL part, if there is any.
    pub(crate) async fn apply(&self, number: u32) -> Result<(), StoreError> {
        let Some((_, text)) = TABLES.iter().find(|(known, _)| *known == number) else { return Ok(()) };
        let session = self.connected(CONNECTED_WITHIN).await?;
        self.define(session, self.keyspace(session).await?).await?;
        for statement in statements(text) {
            self.define(session, self.text(&statement)).await?;
        }
        self.agree(session).await
    }

    /// Returns the keyspace's name.
    pub(crate) fn keyspace_name(&self) -> &str {
        &self.options.keyspace
    }

    async fn keyspace(&self, session: &Session) -> Result<String, StoreError> {
        let mut text =
            format!("CREATE KEYSPACE IF NOT EXISTS %k WITH replication = {}", self.options.replication);
        text.push_str(" AND durable_writes = true");
        if has_tablets(session).await {
            // ScyllaDB's conditional writes need a keyspace without tablets.
            tracing::info!("the keyspace is created for ScyllaDB, without tablets");
            text.push_str(" AND tablets = {'enabled': false}");
        }
        Ok(self.text(&text))
    }

    async fn define(&self, session: &Session, text: String) -> Result<(), StoreError> {
        let mut statement = Text::new(text);
        statement.set_request_timeout(Some(LIMIT));
        session.query_unpaged(statement, ()).await.map(drop).map_err(|error| write_failed(&error))
    }
}

/// Whether the server is a ScyllaDB with tablets: only that has the system table.
async fn has_tablets(session: &Session) -> bool {
    session.query_unpaged("SELECT table_name FROM system.tablets LIMIT 1", ()).await.is_ok()
}

/// The statements in a migration file, without its comments.
fn statements(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let whole = lines.join("\n");
    whole.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_statement_is_idempotent() {
        for (_, text) in TABLES {
            let statements = statements(text);
            assert!(!statements.is_empty());
            assert!(statements.iter().all(|one| one.starts_with(CREATE)), "{text}");
        }
    }
}
