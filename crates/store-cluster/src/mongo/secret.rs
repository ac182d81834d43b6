//! Secrets: `{_id: {o: kind of owner, id: owner, n: name}, s: hash or sealed text}`. They are written only in
//! their owner's transactions, and are removed with it.

use async_trait::async_trait;
use kith_store::{SecretOwner, SecretStore, StoreError, StoredSecret};
use mongodb::{
    ClientSession,
    bson::{Bson, doc, rawdoc},
    error::Error,
};

use super::{database::Mongo, error::malformed, group::GROUP, user::USER};

#[async_trait]
impl SecretStore for Mongo {
    async fn secret(&self, owner: SecretOwner, name: &str) -> Result<Option<StoredSecret>, StoreError> {
        let _permit = self.admit()?;
        let (kind, id) = match owner {
            SecretOwner::User(id) => (USER, id.get()),
            SecretOwner::Group(id) => (GROUP, id.get()),
        };
        let filter = doc! { "_id": { "o": kind, "id": id, "n": name } };
        let Some(found) = self.find_one(&self.secrets, filter).await? else {
            return Ok(None);
        };
        let sealed = found.get_str("s").map_err(|_| malformed("s"))?;
        Ok(Some(StoredSecret::new(sealed.to_owned())))
    }
}

impl Mongo {
    /// Sets or removes one of an owner's secrets.
    pub(super) async fn put_secret(
        &self,
        kind: &str,
        id: i64,
        name: &str,
        secret: Option<&StoredSecret>,
        session: &mut ClientSession,
    ) -> Result<(), Error> {
        let filter = doc! { "_id": { "o": kind, "id": id, "n": name } };
        let Some(secret) = secret else {
            return self.secrets.delete_one(filter).session(session).await.map(drop);
        };
        let document = rawdoc! { "_id": { "o": kind, "id": id, "n": name }, "s": secret.expose() };
        self.secrets.replace_one(filter, document).upsert(true).session(session).await.map(drop)
    }

    /// Removes all an owner's secrets: a range in the index on `_id`, since MongoDB compares subdocuments
    /// field by field.
    pub(super) async fn forget_secrets(
        &self,
        kind: &str,
        id: i64,
        session: &mut ClientSession,
    ) -> Result<(), Error> {
        let from = doc! { "o": kind, "id": id, "n": Bson::MinKey };
        let to = doc! { "o": kind, "id": id, "n": Bson::MaxKey };
        let filter = doc! { "_id": { "$gt": from, "$lt": to } };
        self.secrets.delete_many(filter).session(session).await.map(drop)
    }
}
