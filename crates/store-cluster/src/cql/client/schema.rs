//! Creates the keyspace and the tables if they do not exist. Every statement is idempotent.

use std::time::Duration;

use kith_store::{Outcome, StoreError};
use scylla::{client::session::Session, statement::Statement as Text};

use super::{
    error::{out_of_time, unavailable, write_failed},
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
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

impl Client {
    /// Applies a migration's CQL part, if there is any.
    pub(crate) async fn apply(&self, number: u32) -> Result<(), StoreError> {
        let Some((_, text)) = TABLES.iter().find(|(known, _)| *known == number) else { return Ok(()) };
        let session = self.connected(CONNECTED_WITHIN).await?;
        self.define(session, self.keyspace(session).await?).await?;
        for statement in statements(text) {
            self.define(session, self.text(&statement)).await?;
        }
        match tokio::time::timeout(LIMIT, session.await_schema_agreement()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(unavailable("the servers do not agree on the schema", Outcome::Unknown)),
            Err(_) => Err(out_of_time(Outcome::Unknown)),
        }
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
            assert!(statements.iter().all(|one| one.starts_with("CREATE TABLE IF NOT EXISTS %k.")), "{text}");
        }
    }
}
