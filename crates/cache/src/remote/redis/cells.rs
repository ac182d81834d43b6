//! Cells in Redis. Reads, and leases on absent keys, are plain commands; every other update is a script,
//! because it depends on the present cell.

use std::time::Duration;

use bytes::Bytes;
use fred::{
    error::Error,
    interfaces::KeysInterface,
    types::{Expiration, Key, SetOptions, Value},
};

use super::{RedisShared, failures::is_wrong_type, scripts::run_each, values};
use crate::{
    Version,
    api::clock::milliseconds,
    remote::shared::{Acquired, Cell, CellKind, Cells, FillResult, HEADER_BYTES, Header, SharedError},
};

/// Index of the header's last byte.
const HEAD_END: usize = HEADER_BYTES - 1;

#[async_trait::async_trait]
impl Cells for RedisShared {
    async fn read(&self, keys: &[String]) -> Result<Vec<Option<Cell>>, SharedError> {
        let call = self.begin_call()?;
        if let [key] = keys {
            let value = call.client().get::<Value, _>(self.names.cell(key)).await;
            let value = call.finish(nothing_of_another_type(value))?;
            return Ok(vec![values::cell(value)]);
        }
        if keys.is_empty() {
            return call.finish(Ok(Vec::new()));
        }
        let asked: Vec<Key> = keys.iter().map(|key| self.names.cell(key)).collect();
        let found = call.client().mget::<Value, _>(asked).await;
        let found = values::array(call.finish(found)?)?;
        if found.len() != keys.len() {
            return Err(SharedError::Unexpected);
        }
        Ok(found.into_iter().map(values::cell).collect())
    }

    async fn heads(&self, keys: &[String]) -> Result<Vec<Option<Header>>, SharedError> {
        let call = self.begin_call()?;
        let pipeline = call.client().pipeline();
        let mut queued = Ok(Value::Null);
        for key in keys {
            queued = queued.and(pipeline.getrange(self.names.cell(key), 0, HEAD_END).await);
        }
        let answers = pipeline.try_all::<Value>().await.into_iter().map(nothing_of_another_type);
        let found: Vec<Value> = call.finish(queued.and_then(|_| answers.collect()))?;
        if found.len() != keys.len() {
            return Err(SharedError::Unexpected);
        }
        Ok(found.iter().map(|head| Header::decode(head.as_bytes()?).map(|(header, _)| header)).collect())
    }

    async fn acquire(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        let retention = &self.options.retention;
        let arguments = vec![
            self.wakes(),
            values::number(token),
            values::duration(retention.leases),
            values::duration(retention.takeover),
        ];
        let call = self.begin_call()?;
        let calls: Vec<_> = keys.iter().map(|key| (self.names.cell(key), arguments.clone())).collect();
        let answers = run_each(call.client(), &self.scripts.acquire, &calls).await;
        call.finish(answers)?.into_iter().map(values::acquired).collect()
    }

    /// Plain commands do what the script would if the keys are absent; the script would cost Redis four times
    /// as much.
    async fn acquire_absent(&self, keys: &[String], token: u64) -> Result<Vec<Acquired>, SharedError> {
        let leased = Acquired::Leased { floor: Version::UNVERSIONED };
        let mut answers = vec![leased; keys.len()];
        let there = self.lease_absent(keys, token).await?;
        if there.is_empty() {
            return Ok(answers);
        }
        let left: Vec<String> = there.iter().map(|index| keys[*index].clone()).collect();
        for (index, acquired) in there.into_iter().zip(self.acquire(&left, token).await?) {
            answers[index] = acquired;
        }
        Ok(answers)
    }

    async fn fill(&self, cells: &[(String, Cell)]) -> Result<Vec<FillResult>, SharedError> {
        let call = self.begin_call()?;
        let script_call = |(key, cell): &(String, Cell)| {
            let ttl = values::duration(cell.ttl(self.ttl_of(cell.header.kind)));
            // The loaded copy's age includes the lease's age.
            let leases = if cell.ttl_max.is_some() { self.options.retention.leases } else { Duration::ZERO };
            let bytes = values::bytes(cell.to_bytes());
            (self.names.cell(key), vec![self.wakes(), bytes, ttl, values::duration(leases)])
        };
        let calls: Vec<_> = cells.iter().map(script_call).collect();
        let answers = run_each(call.client(), &self.scripts.fill, &calls).await;
        call.finish(answers)?.iter().map(values::filled).collect()
    }

    async fn release(&self, keys: &[String], token: u64) -> Result<(), SharedError> {
        let call = self.begin_call()?;
        let arguments = vec![self.wakes(), values::number(token), self.tombs()];
        let calls: Vec<_> = keys.iter().map(|key| (self.names.cell(key), arguments.clone())).collect();
        let answers = run_each(call.client(), &self.scripts.release, &calls).await;
        call.finish(answers).map(drop)
    }
}

impl RedisShared {
    /// Sets leases on absent keys. Returns the indexes of keys that exist.
    async fn lease_absent(&self, keys: &[String], token: u64) -> Result<Vec<usize>, SharedError> {
        let call = self.begin_call()?;
        let lease = Bytes::from(Cell::bare(CellKind::Lease, Version::UNVERSIONED, token).to_bytes());
        let expiration =
            Expiration::PX(i64::try_from(milliseconds(self.options.retention.leases)).unwrap_or(i64::MAX));
        let absent = Some(SetOptions::NX);
        let answers = if let [key] = keys {
            let key = self.names.cell(key);
            vec![call.client().set::<Value, _, _>(key, lease, Some(expiration), absent, true).await]
        } else {
            let pipeline = call.client().pipeline();
            for key in keys {
                let set = pipeline.set::<Value, _, _>(
                    self.names.cell(key),
                    lease.clone(),
                    Some(expiration.clone()),
                    absent.clone(),
                    true,
                );
                // This only queues the command.
                drop(set.await);
            }
            pipeline.try_all::<Value>().await
        };
        // A key of another type exists, too.
        let found = answers.into_iter().map(|answer| match answer {
            Err(error) if is_wrong_type(&error) => Ok(true),
            answer => answer.map(|found| !found.is_null()),
        });
        let found = call.finish(found.collect::<Result<Vec<bool>, Error>>())?;
        if found.len() != keys.len() {
            return Err(SharedError::Unexpected);
        }
        Ok((0..keys.len()).filter(|index| found[*index]).collect())
    }

    fn ttl_of(&self, kind: CellKind) -> Duration {
        let retention = &self.options.retention;
        match kind {
            CellKind::Value => self.jittered(retention.copies),
            CellKind::Null => retention.absences,
            CellKind::Tomb => retention.tombs,
            CellKind::Lease => retention.leases,
        }
    }
}

/// A key of another type counts as absent.
fn nothing_of_another_type(answer: Result<Value, Error>) -> Result<Value, Error> {
    match answer {
        Err(error) if is_wrong_type(&error) => Ok(Value::Null),
        answer => answer,
    }
}
