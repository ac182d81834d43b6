//! The columns of a table.

use kith_store::StoreError;
use scylla::client::session::Session;

use crate::cql::client::{
    error::{malformed, read_failed},
    session::Client,
};

/// The columns, as the server knows them.
#[derive(Debug)]
pub(super) struct Columns {
    /// `keyspace.table`
    pub(super) table: String,
    /// The partition key's, in their order.
    pub(super) partition: Vec<String>,
    /// The rest of the key's, in their order.
    pub(super) clustering: Vec<String>,
    pub(super) fixed: Vec<String>,
    pub(super) regular: Vec<String>,
}

impl Columns {
    /// `None`: there is no such table.
    pub(super) async fn of(
        client: &Client,
        session: &Session,
        table: &str,
    ) -> Result<Option<Self>, StoreError> {
        let text = "SELECT column_name, kind, position FROM system_schema.columns WHERE keyspace_name = ? AND table_name = ?";
        let found = session.query_unpaged(text, (client.keyspace_name(), table)).await;
        let rows = found.map_err(|error| read_failed(&error))?.into_rows_result();
        let rows = rows.map_err(|_| malformed("column_name"))?;
        let mut all: Vec<(String, String, i32)> = Vec::new();
        for row in rows.rows().map_err(|_| malformed("column_name"))? {
            all.push(row.map_err(|_| malformed("column_name"))?);
        }
        all.sort_by(|(a, _, at), (b, _, other)| (at, a).cmp(&(other, b)));
        let of = |wanted: &str| -> Vec<String> {
            let chosen = all.iter().filter(|(_, kind, _)| kind == wanted);
            chosen.map(|(name, ..)| name.clone()).collect()
        };
        let columns = Self {
            table: format!("{}.{table}", client.keyspace_name()),
            partition: of("partition_key"),
            clustering: of("clustering"),
            fixed: of("static"),
            regular: of("regular"),
        };
        Ok((!columns.partition.is_empty()).then_some(columns))
    }

    /// The columns of the key.
    pub(super) fn key(&self) -> impl Iterator<Item = &String> {
        self.partition.iter().chain(&self.clustering)
    }

    /// The columns that are not in the key, the static ones first.
    pub(super) fn cells(&self) -> impl Iterator<Item = &String> {
        self.fixed.iter().chain(&self.regular)
    }

    /// Reads the key, and of each other column the value, the time of its write, and what is left of its time
    /// to live.
    pub(super) fn select(&self) -> String {
        let key = self.key().cloned();
        let cells = self.cells().map(|name| format!("{name}, WRITETIME({name}), TTL({name})"));
        let all: Vec<String> = key.chain(cells).collect();
        format!("SELECT {} FROM {}", all.join(", "), self.table)
    }
}
