//! The prefix's owner: only one database's nodes use it at a time.

use std::time::Duration;

use fred::{error::Error, interfaces::KeysInterface, types::Value};

use super::{RedisShared, failures::meaning, names::Names, scripts::run, values};
use crate::remote::shared::SharedError;

/// How long the remaining data of a database are kept, in milliseconds.
const LEFT_MS: i64 = 600_000;

impl RedisShared {
    /// Takes or renews the prefix for this database. `Some`: the id of another database, which has renewed it
    /// within `lasts`. One step. Then the previous database's data expire.
    ///
    /// # Errors
    /// When the server does not answer or takes no writes.
    pub async fn own_prefix(&self, lasts: Duration) -> Result<Option<u64>, SharedError> {
        let own = self.options.database_id;
        let (owner, before) = self.owner(&format!("{own:016x}"), lasts).await?;
        if let Some(before) = before
            && let Err(error) = self.expire(before).await
        {
            tracing::debug!(kind = ?error.kind(), "what another database left in Redis stays");
        }
        Ok(owner.filter(|owner| *owner != own))
    }

    /// The id of the database that has renewed the prefix within `lasts`; `None`: its nodes do not run.
    /// Changes nothing.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn prefix_owner(&self, lasts: Duration) -> Result<Option<u64>, SharedError> {
        Ok(self.owner("", lasts).await?.0)
    }

    /// Reads which database has the prefix, and which other database had it before.
    async fn owner(&self, id: &str, lasts: Duration) -> Result<(Option<u64>, Option<u64>), SharedError> {
        let arguments = vec![Value::from(id), values::duration(lasts)];
        let keys = vec![self.names.owner.clone()];
        let answer = run(&self.control.client, &self.scripts.owner, keys, arguments).await;
        let answer = values::array(answer.map_err(|error| meaning(&error))?)?;
        let [owner, before] = answer.as_slice() else { return Err(SharedError::Unexpected) };
        Ok((read_id(owner), read_id(before)))
    }

    /// The last epoch's log and registry have no expiry; presence and copies do expire.
    async fn expire(&self, database_id: u64) -> Result<(), Error> {
        let client = &self.control.client;
        let Ok(names) = Names::new(&self.options.prefix, database_id, self.config.database) else {
            return Ok(());
        };
        let highest: Value = client.get(names.highest_epoch()).await?;
        let epoch = highest.as_bytes().and_then(|bytes| bytes.first_chunk::<8>());
        let epoch = epoch.map_or(0, |bytes| u64::from_be_bytes(*bytes));
        for key in [names.log(epoch), names.nodes(epoch), names.highest_epoch()] {
            let _: Value = client.pexpire(key, LEFT_MS, None).await?;
        }
        Ok(())
    }
}

fn read_id(value: &Value) -> Option<u64> {
    let text = value.as_string()?;
    if text.len() == 16 { u64::from_str_radix(&text, 16).ok() } else { None }
}
