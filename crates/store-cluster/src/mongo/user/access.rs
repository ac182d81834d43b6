//! Whether users are let in: fields `{av, account, tokens_from, suspended: {until, reason}}` in the users.
//! `av` is the version of these fields, absent before the first change. All but `suspended` stays in a
//! deleted user's stub.

use std::collections::HashSet;

use async_trait::async_trait;
use kith_store::{
    AccessChange, AccessStore, Applied, BATCH_MAX, ParamsPatch, SecretChange, StoreError, Stored, Suspension,
    TOKENS_AFTER_DELETION, Text, Timestamp, User, UserAccess, UserId, Version, Write, at_most,
};
use mongodb::{
    bson::{Document, RawDocument, doc},
    options::ReadConcern,
};

use crate::mongo::{
    database::Mongo,
    document::{count, fields, moment, number, number_in, text},
    error::{malformed, read_failed},
    record::all,
    write::{Change, Order},
};

const VERSION: &str = "av";
const ACCOUNT: &str = "account";
const TOKENS_FROM: &str = "tokens_from";
const SUSPENDED: &str = "suspended";
/// These fields outlive a deletion.
pub(super) const KEPT: [&str; 3] = [VERSION, ACCOUNT, TOKENS_FROM];

#[async_trait]
impl AccessStore for Mongo {
    async fn accesses(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError> {
        self.accesses_by(ids, ReadConcern::majority()).await
    }

    async fn strong_accesses(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError> {
        self.accesses_by(ids, ReadConcern::linearizable()).await
    }

    async fn change_access(
        &self,
        id: UserId,
        change: AccessChange,
        write: Write,
    ) -> Result<Applied<UserAccess>, StoreError> {
        let _permit = self.admit()?;
        let order = Order { id: id.get(), change: changes(change), secrets: SecretChange::new(), write };
        let done = Box::pin(self.write::<User>(&order)).await?;
        Ok(Applied { record: access(&done.document)?, replayed: done.replayed })
    }
}

impl Mongo {
    /// Reads these fields alone.
    async fn accesses_by(
        &self,
        ids: &[UserId],
        concern: ReadConcern,
    ) -> Result<Vec<(UserId, Stored<UserAccess>)>, StoreError> {
        at_most(ids.len(), BATCH_MAX)?;
        let distinct: HashSet<i64> = ids.iter().map(|id| id.get()).collect();
        if distinct.is_empty() {
            return Ok(Vec::new());
        }
        let _permit = self.admit()?;
        let limit = count(distinct.len());
        let find = self.users.find(doc! { "_id": { "$in": distinct.into_iter().collect::<Vec<_>>() } });
        let find = find.projection(doc! { VERSION: 1, ACCOUNT: 1, TOKENS_FROM: 1, SUSPENDED: 1 });
        let cursor = find.limit(limit).read_concern(concern).max_time(self.options.command).await;
        let record = |document: &RawDocument| {
            let access = access(document)?;
            Ok((access.user, access.stored()))
        };
        all(cursor.map_err(read_failed)?, record).await
    }
}

/// The operators that a deletion at this time adds.
pub(super) fn ended(now: Timestamp) -> Document {
    let tokens_from = now.after(TOKENS_AFTER_DELETION).0;
    doc! { "$inc": { VERSION: 1_i64, ACCOUNT: 1_i64 }, "$max": { TOKENS_FROM: tokens_from } }
}

fn changes(change: AccessChange) -> Change {
    let (mut set, mut unset) = (Document::new(), Document::new());
    let mut more = doc! { "$inc": { VERSION: 1_i64 } };
    match change {
        AccessChange::Suspend(Suspension { until, reason }) => {
            let mut suspended = doc! { "reason": reason.as_str() };
            if let Some(until) = until {
                suspended.insert("until", until.0);
            }
            set.insert(SUSPENDED, suspended);
        }
        AccessChange::Resume => drop(unset.insert(SUSPENDED, "")),
        AccessChange::RefuseTokens(at) => drop(more.insert("$max", doc! { TOKENS_FROM: at.0 })),
    }
    Change::Update { set, unset, params: ParamsPatch::default(), more }
}

/// The access in a user's document, or in its stub.
fn access(document: &RawDocument) -> Result<UserAccess, StoreError> {
    let id = number_in(document, "_id")?.ok_or_else(|| malformed("_id"))?;
    let mut access = UserAccess::unrestricted(UserId::new(id).map_err(|_| malformed("_id"))?);
    for field in fields(document) {
        let (name, value) = field?;
        match name {
            VERSION => {
                access.version = Version::new(number(value, VERSION)?).ok_or_else(|| malformed(VERSION))?;
            }
            ACCOUNT => {
                access.account = u32::try_from(number(value, ACCOUNT)?).map_err(|_| malformed(ACCOUNT))?;
            }
            TOKENS_FROM => access.tokens_from = moment(value, TOKENS_FROM)?,
            SUSPENDED => {
                let value = value.as_document().ok_or_else(|| malformed(SUSPENDED))?;
                access.suspension = Some(suspension(value)?);
            }
            _ => {}
        }
    }
    Ok(access)
}

fn suspension(document: &RawDocument) -> Result<Suspension, StoreError> {
    let mut suspension = Suspension { until: None, reason: Text::default() };
    for field in fields(document) {
        match field? {
            ("until", value) => suspension.until = Some(moment(value, SUSPENDED)?),
            ("reason", value) => suspension.reason = text(value, SUSPENDED)?,
            _ => {}
        }
    }
    Ok(suspension)
}
