//! Users: `{_id, v, name, name_key, nick, email, email_key, phone, gender, age, region, icon, params,
//! created, updated, w, u}`. Absent texts are absent fields. `w` is a random number from the insert, `u` from
//! the last update. A deleted user's stub has `id_held`, the moment of the deletion, until the id is
//! released. Whether the user is let in is in further fields: see [`access`].

mod access;

use async_trait::async_trait;
use kith_store::{
    Applied, Email, Gender, Keyword, NewUser, Params, Phone, SecretChange, StoreError, Stored, Text,
    Timestamp, User, UserId, UserName, UserPatch, UserStore, Version, Write,
};
use mongodb::{
    Collection,
    bson::{Document, RawDocument, RawDocumentBuf, doc},
    options::ReadConcern,
};

use super::{
    database::Mongo,
    document::{
        change_params, fields, kind, moment, number_in, params, params_document, small, text, version,
    },
    error::{malformed, write_failed},
    record::{PageFilter, Record, is_stub, version_of},
    write::{Change, ID_HELD, Order},
};

/// How ids of secrets name a user.
pub(super) const USER: &str = "u";

#[async_trait]
impl UserStore for Mongo {
    async fn user(&self, id: UserId) -> Result<Stored<User>, StoreError> {
        let _permit = self.admit()?;
        self.one(id.get()).await
    }

    async fn users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        self.users_by(ids, ReadConcern::majority()).await
    }

    async fn user_by_name(&self, name: &UserName) -> Result<Option<User>, StoreError> {
        let _permit = self.admit()?;
        self.named(name.key()).await
    }

    async fn search_users(
        &self,
        keyword: &Keyword,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<User>, StoreError> {
        let _permit = self.admit()?;
        let after = after.map(UserId::get);
        let (named, mut found) =
            futures::try_join!(self.named(keyword.name()), self.with_address(keyword, after, limit))?;
        let named = named.filter(|user| after.is_none_or(|after| user.id.get() > after));
        if let Some(user) = named
            && let Err(at) = found.binary_search_by_key(&user.id, |other| other.id)
        {
            found.insert(at, user);
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn scan_users(&self, after: Option<UserId>, limit: usize) -> Result<Vec<User>, StoreError> {
        let _permit = self.admit()?;
        self.page(PageFilter::all(), after.map(UserId::get), limit).await
    }

    async fn create_user(&self, user: NewUser, write: Write) -> Result<Applied<User>, StoreError> {
        let _permit = self.admit()?;
        let (id, change) = (user.id.get(), Change::Create(document(&user, write.now)));
        self.put_user(Order { id, change, secrets: user.secrets, write }).await
    }

    async fn update_user(
        &self,
        id: UserId,
        mut patch: UserPatch,
        write: Write,
    ) -> Result<Applied<User>, StoreError> {
        let _permit = self.admit()?;
        let secrets = std::mem::take(&mut patch.secrets);
        self.put_user(Order { id: id.get(), change: changes(patch, write.now), secrets, write }).await
    }

    async fn delete_user(
        &self,
        id: UserId,
        name_free_at: Timestamp,
        write: Write,
    ) -> Result<Applied<Version>, StoreError> {
        let _permit = self.admit()?;
        let set = doc! { "name_free_at": name_free_at.0, ID_HELD: write.now.0 };
        let change = Change::Delete { keep: &["name_key"], set, more: access::ended(write.now) };
        let order = Order { id: id.get(), change, secrets: SecretChange::new(), write };
        let done = Box::pin(self.write::<User>(&order)).await?;
        Ok(Applied { record: version_of(&done.document)?, replayed: done.replayed })
    }

    async fn release_id(&self, id: UserId, deleted: Timestamp) -> Result<(), StoreError> {
        let _permit = self.admit()?;
        let filter = doc! { "_id": id.get(), "deleted": true, ID_HELD: { "$lte": deleted.0 } };
        let update = doc! { "$unset": { ID_HELD: "" } };
        self.users.update_one(filter, update).await.map(drop).map_err(write_failed)
    }
}

impl Mongo {
    /// Reads users with this read concern.
    pub(super) async fn users_by(
        &self,
        ids: &[UserId],
        concern: ReadConcern,
    ) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        let _permit = self.admit()?;
        let found = self.many(ids.iter().map(|id| id.get()).collect(), concern).await?;
        found.into_iter().map(|(id, user)| Ok((user_id(id)?, user))).collect()
    }

    async fn put_user(&self, order: Order) -> Result<Applied<User>, StoreError> {
        let done = Box::pin(self.write::<User>(&order)).await?;
        Ok(Applied { record: User::read(&done.document)?, replayed: done.replayed })
    }

    /// Index `name_key`; a stub may hold the name.
    async fn named(&self, key: &str) -> Result<Option<User>, StoreError> {
        match self.find_one(&self.users, doc! { "name_key": key }).await? {
            Some(document) if !is_stub(&document)? => User::read(&document).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    /// Index `email_key` or `phone`: a keyword is an address, a number or neither.
    async fn with_address(
        &self,
        keyword: &Keyword,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<User>, StoreError> {
        let (index, key) = match (keyword.email(), keyword.phone()) {
            (Some(email), _) => ("email_key", email),
            (None, Some(phone)) => ("phone", phone),
            (None, None) => return Ok(Vec::new()),
        };
        self.page(PageFilter { filter: doc! { index: key }, index }, after, limit).await
    }
}

impl Record for User {
    const OWNER: &'static str = USER;
    const KEPT: &'static [&'static str] = &access::KEPT;

    fn collection(mongo: &Mongo) -> &Collection<RawDocumentBuf> {
        &mongo.users
    }

    fn read(document: &RawDocument) -> Result<Self, StoreError> {
        let id = number_in(document, "_id")?.ok_or_else(|| malformed("_id"))?;
        let mut user = blank(user_id(id)?);
        for field in fields(document) {
            let (name, value) = field?;
            match name {
                "v" => user.version = version(value)?,
                "name" => user.user_name = text(value, "name")?,
                "nick" => user.nick_name = text(value, "nick")?,
                "email" => user.email = text(value, "email")?,
                "phone" => user.phone = text(value, "phone")?,
                "gender" => user.gender = kind(value, "gender", Gender::of)?,
                "age" => user.age = small(value, "age")?,
                "region" => user.region = text(value, "region")?,
                "icon" => user.icon = text(value, "icon")?,
                "params" => user.params = params(value)?,
                "created" => user.created = moment(value, "created")?,
                "updated" => user.updated = moment(value, "updated")?,
                _ => {}
            }
        }
        if user.version == Version::NONE || user.user_name.is_empty() {
            return Err(malformed("name"));
        }
        Ok(user)
    }

    fn version(&self) -> Version {
        self.version
    }

    fn params(&self) -> &Params {
        &self.params
    }
}

fn blank(id: UserId) -> User {
    User {
        id,
        version: Version::NONE,
        user_name: Text::default(),
        nick_name: Text::default(),
        email: Text::default(),
        phone: Text::default(),
        gender: Gender::Unspecified,
        age: 0,
        region: Text::default(),
        icon: Text::default(),
        params: Params::default(),
        created: Timestamp(0),
        updated: Timestamp(0),
    }
}

fn document(user: &NewUser, now: Timestamp) -> Document {
    let mut document = doc! { "name": user.user_name.text(), "name_key": user.user_name.key() };
    let email = user.email.as_ref();
    let texts = [
        ("nick", Some(user.nick_name.as_str())),
        ("email", email.map(Email::text)),
        ("email_key", email.map(Email::key)),
        ("phone", user.phone.as_ref().map(Phone::text)),
        ("region", Some(user.region.as_str())),
        ("icon", Some(user.icon.as_str())),
    ];
    for (field, text) in texts {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            document.insert(field, text);
        }
    }
    document.insert("gender", i32::from(user.gender as u8));
    document.insert("age", i32::from(user.age));
    document.insert("params", params_document(&user.params));
    document.insert("created", now.0);
    document.insert("updated", now.0);
    document
}

fn changes(patch: UserPatch, now: Timestamp) -> Change {
    let (mut set, mut unset) = (doc! { "updated": now.0 }, Document::new());
    if let Some(name) = &patch.user_name {
        set.insert("name", name.text());
        set.insert("name_key", name.key());
    }
    let email = patch.email.as_ref().map(Option::as_ref);
    let texts = [
        ("nick", patch.nick_name.as_deref()),
        ("email", email.map(|email| email.map_or("", Email::text))),
        ("email_key", email.map(|email| email.map_or("", Email::key))),
        ("phone", patch.phone.as_ref().map(|phone| phone.as_ref().map_or("", Phone::text))),
        ("region", patch.region.as_deref()),
        ("icon", patch.icon.as_deref()),
    ];
    for (field, text) in texts {
        match text {
            Some("") => drop(unset.insert(field, "")),
            Some(text) => drop(set.insert(field, text)),
            None => {}
        }
    }
    if let Some(gender) = patch.gender {
        set.insert("gender", i32::from(gender as u8));
    }
    if let Some(age) = patch.age {
        set.insert("age", i32::from(age));
    }
    change_params(&patch.params, &mut set, &mut unset);
    Change::Update { set, unset, params: patch.params, more: Document::new() }
}

fn user_id(number: i64) -> Result<UserId, StoreError> {
    UserId::new(number).map_err(|_| malformed("_id"))
}
