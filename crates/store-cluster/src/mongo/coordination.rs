//! Leases and marks: a document `{_id: name, holder, until, mark}` each. The clock is the server's.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use kith_store::{Coordination, StoreError, millis};
use mongodb::{
    bson::{Binary, DateTime, Document, RawDocument, doc, spec::BinarySubtype},
    options::ReadConcern,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    command::{durable_document, run_write},
    database::Mongo,
    document::number_in,
    error::{malformed, read_failed, write_failed},
    known_leases::{KnownLeases, LeaseStep, StoredLease},
    record::all,
};

/// The leases of this process. At rest they cost one command each two seconds, however many tasks ask for
/// leases.
#[derive(Debug)]
pub(super) struct Leases {
    mongo: Arc<Mongo>,
    known: Mutex<KnownLeases>,
}

impl Leases {
    pub(super) fn new(mongo: &Arc<Mongo>) -> Self {
        Self { mongo: Arc::clone(mongo), known: Mutex::default() }
    }

    /// Reads which of the leases that this process asks for are held.
    async fn read(&self) -> Result<(), StoreError> {
        let (names, sent) = (self.known.lock().names(), Instant::now());
        let stored = self.mongo.stored_leases(&names).await?;
        self.known.lock().read(&names, stored, sent);
        Ok(())
    }

    /// Renews this lease and the others that are wanted. `false`: some lease is not held any more.
    async fn renew(&self, name: &str) -> Result<bool, StoreError> {
        let (due, sent) = (self.known.lock().due(name), Instant::now());
        let mut known = if self.mongo.renew_leases(&due).await? {
            let mut known = self.known.lock();
            known.renewed(&due, sent);
            return Ok(due.iter().any(|lease| lease.name == name));
        } else {
            self.known.lock()
        };
        due.iter().for_each(|lease| known.forget(&lease.name));
        Ok(false)
    }

    async fn take(&self, name: &str, holder: &str, lasts: Duration) -> Result<bool, StoreError> {
        let sent = Instant::now();
        let is_held = self.mongo.take_lease(name, holder, lasts).await?;
        let mut known = self.known.lock();
        if is_held {
            known.taken(name, holder, lasts, sent);
        } else {
            known.forget(name);
        }
        Ok(is_held)
    }
}

#[async_trait]
impl Coordination for Leases {
    async fn lease(&self, name: &str, holder: &str, lasts: Duration) -> Result<bool, StoreError> {
        let ask = || self.known.lock().ask(name, holder, lasts);
        let mut step = ask();
        if step == LeaseStep::Read {
            self.read().await?;
            step = ask();
        }
        match step {
            LeaseStep::Held => Ok(true),
            LeaseStep::Refused => Ok(false),
            LeaseStep::Renew if self.renew(name).await? => Ok(true),
            LeaseStep::Renew | LeaseStep::Take | LeaseStep::Read => self.take(name, holder, lasts).await,
        }
    }

    async fn held(&self, names: &[String]) -> Result<HashSet<String>, StoreError> {
        let known = self.known.lock().held(names);
        if let Some(held) = known {
            return Ok(held.into_iter().collect());
        }
        self.read().await?;
        Ok(self.known.lock().held(names).unwrap_or_default().into_iter().collect())
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        let _permit = self.mongo.admit()?;
        self.known.lock().forget(name);
        let end = doc! { "$set": { "until": DateTime::from_millis(0) } };
        let released = self.mongo.leases.update_one(doc! { "_id": name, "holder": holder }, end).await;
        self.known.lock().forget(name);
        released.map(drop).map_err(write_failed)
    }

    async fn mark(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let _permit = self.mongo.admit()?;
        let Some(found) = self.mongo.find_one(&self.mongo.leases, doc! { "_id": name }).await? else {
            return Ok(None);
        };
        match found.get("mark").map_err(|_| malformed("mark"))? {
            Some(mark) => {
                mark.as_binary().map(|mark| Some(mark.bytes.to_vec())).ok_or_else(|| malformed("mark"))
            }
            None => Ok(None),
        }
    }

    async fn set_mark(&self, name: &str, holder: &str, mark: &[u8]) -> Result<bool, StoreError> {
        let _permit = self.mongo.admit()?;
        let held = held_by(name, holder);
        let mark = Binary { subtype: BinarySubtype::Generic, bytes: mark.to_vec() };
        let set = doc! { "$set": { "mark": mark } };
        let set = self.mongo.leases.update_one(held, set).await.map_err(write_failed)?;
        Ok(set.matched_count == 1)
    }
}

impl Mongo {
    async fn take_lease(&self, name: &str, holder: &str, lasts: Duration) -> Result<bool, StoreError> {
        let _permit = self.admit()?;
        let me = doc! { "$literal": holder };
        let run_out = doc! { "$lte": [{ "$ifNull": ["$until", DateTime::from_millis(0)] }, "$$NOW"] };
        let mine = doc! { "$or": [run_out, { "$eq": ["$holder", me.clone()] }] };
        let lasts = millis(lasts);
        let until = doc! { "$cond": [mine.clone(), { "$add": ["$$NOW", lasts] }, "$until"] };
        let holds = doc! { "$cond": [mine, me, "$holder"] };
        let take = vec![doc! { "$set": { "holder": holds, "until": until } }];
        let held = self.upsert(&self.leases, doc! { "_id": name }, take.into()).await?;
        Ok(held.get_str("holder").map_err(|_| malformed("holder"))? == holder)
    }

    /// Renews leases that are held, by one command; never makes a lease shorter. `false`: not all of them are
    /// held.
    async fn renew_leases(&self, leases: &[StoredLease]) -> Result<bool, StoreError> {
        let _permit = self.admit()?;
        let statement = |StoredLease { name, holder, left }: &StoredLease| {
            let until = doc! { "$max": ["$until", { "$add": ["$$NOW", millis(*left)] }] };
            doc! { "q": held_by(name, holder), "u": [{ "$set": { "until": until } }] }
        };
        let command = doc! {
            "update": self.leases.name(),
            "updates": leases.iter().map(statement).collect::<Vec<_>>(),
            "ordered": false,
            "writeConcern": durable_document(self.options.write_majority),
            "maxTimeMS": millis(self.options.command),
        };
        let reply = run_write(&self.database, command).await.map_err(write_failed)?;
        let matched = reply.get("n").and_then(|n| n.as_i64().or_else(|| n.as_i32().map(i64::from)));
        Ok(matched.ok_or_else(|| malformed("n"))? == i64::try_from(leases.len()).unwrap_or(i64::MAX))
    }

    /// Returns the held leases among these names.
    async fn stored_leases(&self, names: &[String]) -> Result<Vec<StoredLease>, StoreError> {
        let _permit = self.admit()?;
        let lasts = doc! { "$gt": ["$until", "$$NOW"] };
        let filter = doc! { "_id": { "$in": names }, "$expr": lasts };
        let fields = doc! { "holder": 1, "left": { "$subtract": ["$until", "$$NOW"] } };
        let found = self.leases.find(filter).projection(fields).read_concern(ReadConcern::majority());
        let found = found.max_time(self.options.command).await.map_err(read_failed)?;
        all(found, stored_lease).await
    }
}

/// Matches the lease if this holder has it.
fn held_by(name: &str, holder: &str) -> Document {
    doc! { "_id": name, "holder": holder, "$expr": { "$gt": ["$until", "$$NOW"] } }
}

fn stored_lease(lease: &RawDocument) -> Result<StoredLease, StoreError> {
    let text = |field| lease.get_str(field).map(str::to_owned).map_err(|_| malformed(field));
    let left = number_in(lease, "left")?.ok_or_else(|| malformed("left"))?;
    let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
    Ok(StoredLease { name: text("_id")?, holder: text("holder")?, left })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mongo::concerns::{assert_majority_writes, commands};

    const LASTS: Duration = Duration::from_secs(2);

    #[tokio::test]
    #[ignore = "needs MongoDB: run cargo xtask test"]
    async fn leases_of_a_process_are_one_command() {
        let seen = commands(&["find", "findAndModify", "update"], async |stores| {
            let begun = Instant::now();
            while begun.elapsed() < LASTS * 7 / 10 {
                for name in ["one", "two", "three"] {
                    assert!(stores.coordination.lease(name, "a", LASTS).await.unwrap());
                }
                tokio::time::sleep(LASTS / 100).await;
            }
        });
        let seen = seen.await;
        let of = |kind: &str| -> Vec<_> {
            seen.iter().filter(|command| command.contains_key(kind)).cloned().collect()
        };
        assert_eq!(of("findAndModify").len(), 3, "each is taken");
        let renewals = of("updates");
        assert!((1..=2).contains(&renewals.len()), "{renewals:?}");
        assert_majority_writes(&renewals, 1);
        for renewal in renewals {
            assert_eq!(renewal.get_array("updates").unwrap().len(), 3);
        }
    }
}
