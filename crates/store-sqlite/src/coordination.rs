//! Leases and marks: a row for each name. The clock is the clock of this process, which is the store.

use std::{collections::HashSet, time::Duration};

use async_trait::async_trait;
use kith_store::{Coordination, StoreError, Timestamp};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    statement::{all, first, run},
};

const LEASE: &str = "INSERT INTO leases (name, holder, until_ms) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET holder = ?2, until_ms = ?3 WHERE holder = ?2 OR until_ms <= ?4";
const RELEASE: &str = "UPDATE leases SET until_ms = 0 WHERE name = ?1 AND holder = ?2";
const HELD: &str = "SELECT name FROM leases WHERE until_ms > ?1";
const MARK: &str = "SELECT mark FROM leases WHERE name = ?1";
const SET_MARK: &str = "UPDATE leases SET mark = ?3 WHERE name = ?1 AND holder = ?2 AND until_ms > ?4";

#[async_trait]
impl Coordination for Sqlite {
    async fn lease(&self, name: &str, holder: &str, lasts: Duration) -> Result<bool, StoreError> {
        let (name, holder) = (name.to_owned(), holder.to_owned());
        self.writer
            .write(move |connection| {
                let now = Timestamp::now();
                let row = params![name, holder, now.after(lasts).0, now.0];
                Ok(connection.prepare_cached(LEASE)?.execute(row)? == 1)
            })
            .await
    }

    async fn held(&self, names: &[String]) -> Result<HashSet<String>, StoreError> {
        let held = |connection: &Connection| {
            all(connection, HELD, [Timestamp::now().0], |row| Ok(row.get::<_, String>(0)?))
        };
        let held: HashSet<String> = self.readers.read(held).await?.into_iter().collect();
        Ok(names.iter().filter(|name| held.contains(*name)).cloned().collect())
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        let (name, holder) = (name.to_owned(), holder.to_owned());
        self.writer.write(move |connection| run(connection, RELEASE, [name, holder])).await
    }

    async fn mark(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let name = name.to_owned();
        let mark = move |connection: &Connection| first(connection, MARK, [name], |row| Ok(row.get(0)?));
        Ok(self.readers.read(mark).await?.flatten())
    }

    async fn set_mark(&self, name: &str, holder: &str, mark: &[u8]) -> Result<bool, StoreError> {
        let (name, holder, mark) = (name.to_owned(), holder.to_owned(), mark.to_owned());
        self.writer
            .write(move |connection| {
                let row = params![name, holder, mark, Timestamp::now().0];
                Ok(connection.prepare_cached(SET_MARK)?.execute(row)? == 1)
            })
            .await
    }
}
