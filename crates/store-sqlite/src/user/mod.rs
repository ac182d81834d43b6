//! The store for users.

pub(crate) mod access;

use std::sync::LazyLock;

use async_trait::async_trait;
use kith_store::{
    Applied, Keyword, NewUser, SecretOwner, StoreError, Stored, TOKENS_AFTER_DELETION, Text, Timestamp, User,
    UserId, UserName, UserPatch, UserStore, Version, Write,
};
use rusqlite::{Connection, params};

use crate::{
    Sqlite,
    batch::BatchQuery,
    error::{Failure, is_duplicate},
    relation::removal,
    row::{params_text, size, stored_user, user_of},
    secret,
    state::{check_expected, live_version, version_for_new},
    statement::{all, first, run},
};

macro_rules! select {
    () => {
        "SELECT id, version, deleted, name, nick, email, phone, gender, age, region, icon, params, \
         created_ms, updated_ms FROM users"
    };
}

/// Uses the primary key.
pub(crate) const BY_ID: &str = concat!(select!(), " WHERE id = ?1");
/// Uses the primary key.
pub(crate) static BY_IDS: LazyLock<BatchQuery> = LazyLock::new(|| BatchQuery::new(select!()));
/// Index `users_name`.
pub(crate) const BY_NAME: &str = concat!(select!(), " WHERE name_key = ?1 AND deleted = 0");
/// Uses indexes `users_name`, `users_email` and `users_phone`, each from `after` on; then the primary key. A
/// NULL email or phone equals none.
pub(crate) const SEARCH: &str = concat!(
    select!(),
    " WHERE id IN (
        SELECT id FROM users WHERE name_key = ?3 AND id > ?1
        UNION ALL SELECT id FROM (SELECT id FROM users WHERE email_key = ?4 AND id > ?1 ORDER BY id LIMIT ?2)
        UNION ALL SELECT id FROM (SELECT id FROM users WHERE phone = ?5 AND id > ?1 ORDER BY id LIMIT ?2)
    ) AND deleted = 0 ORDER BY id LIMIT ?2"
);
/// Uses the primary key.
pub(crate) const SCAN: &str = concat!(select!(), " WHERE id > ?1 AND deleted = 0 ORDER BY id LIMIT ?2");
/// Uses the primary key.
pub(crate) const STATE: &str = "SELECT version, deleted FROM users WHERE id = ?1";
/// On conflict: a stub, which the record continues. A name that it keeps is kept for this id.
const CREATE: &str = "INSERT INTO users (id, version, deleted, name, name_key, nick, email, email_key, phone,
        gender, age, region, icon, params, created_ms, updated_ms)
    VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version, deleted = 0, name = excluded.name,
        name_key = excluded.name_key, name_free_ms = NULL, nick = excluded.nick, email = excluded.email,
        email_key = excluded.email_key, phone = excluded.phone, gender = excluded.gender, age = excluded.age,
        region = excluded.region, icon = excluded.icon, params = excluded.params,
        created_ms = excluded.created_ms, updated_ms = excluded.updated_ms";
/// Uses the primary key. Indexed columns are set apart: naming a column makes SQLite write its index again.
pub(crate) const UPDATE: &str =
    "UPDATE users SET version = ?2, nick = ?3, gender = ?4, age = ?5, region = ?6,
    icon = ?7, params = ?8, updated_ms = ?9 WHERE id = ?1";
pub(crate) const RENAME: &str = "UPDATE users SET name = ?2, name_key = ?3 WHERE id = ?1";
pub(crate) const SET_EMAIL: &str = "UPDATE users SET email = ?2, email_key = ?3 WHERE id = ?1";
pub(crate) const SET_PHONE: &str = "UPDATE users SET phone = ?2 WHERE id = ?1";
/// Uses the primary key. The columns that decide which users are let in stay in the stub, without a
/// suspension.
pub(crate) const DELETE: &str = "UPDATE users SET version = ?2, deleted = 1, name = NULL, name_free_ms = ?3,
    nick = '', email = NULL, email_key = NULL, phone = NULL, gender = 0, age = 0, region = '', icon = '',
    params = '{}', created_ms = 0, updated_ms = ?4, access_version = access_version + 1, account = account + 1,
    tokens_from_ms = MAX(tokens_from_ms, ?5), suspended_until_ms = NULL, suspension_reason = NULL WHERE id = ?1";
/// Index `users_name`.
pub(crate) const FREE_NAME: &str = "UPDATE users SET name_key = NULL, name_free_ms = NULL
    WHERE name_key = ?1 AND deleted = 1 AND name_free_ms <= ?2";
/// Index `users_name_free`.
pub(crate) const FREE_NAMES: &str = "UPDATE users SET name_key = NULL, name_free_ms = NULL WHERE id IN
    (SELECT id FROM users WHERE name_free_ms <= ?1 ORDER BY name_free_ms LIMIT 1000)";

#[async_trait]
impl UserStore for Sqlite {
    async fn user(&self, id: UserId) -> Result<Stored<User>, StoreError> {
        self.readers.read(move |connection| user(connection, id)).await
    }

    async fn users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError> {
        self.readers.by_keys(&BY_IDS, ids, stored_user).await
    }

    async fn user_by_name(&self, name: &UserName) -> Result<Option<User>, StoreError> {
        let key = name.key().to_owned();
        self.readers.read(move |connection| first(connection, BY_NAME, [key], user_of)).await
    }

    async fn search_users(
        &self,
        keyword: &Keyword,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<User>, StoreError> {
        let (keyword, after) = (keyword.clone(), after.map_or(0, UserId::get));
        let search = move |connection: &Connection| {
            let (name, email, phone) = (keyword.name(), keyword.email(), keyword.phone());
            all(connection, SEARCH, params![after, size(limit), name, email, phone], user_of)
        };
        self.readers.read(search).await
    }

    async fn scan_users(&self, after: Option<UserId>, limit: usize) -> Result<Vec<User>, StoreError> {
        self.readers.all(SCAN, [after.map_or(0, UserId::get), size(limit)], user_of).await
    }

    async fn create_user(&self, user: NewUser, write: Write) -> Result<Applied<User>, StoreError> {
        self.writer.once(write, move |connection, write| create(connection, &user, write.now)).await
    }

    async fn update_user(
        &self,
        id: UserId,
        patch: UserPatch,
        write: Write,
    ) -> Result<Applied<User>, StoreError> {
        self.writer.once(write, move |connection, write| update(connection, id, &patch, write)).await
    }

    async fn delete_user(
        &self,
        id: UserId,
        name_free_at: Timestamp,
        write: Write,
    ) -> Result<Applied<Version>, StoreError> {
        self.writer.once(write, move |connection, write| delete(connection, id, name_free_at, write)).await
    }

    /// The note about its removal holds the id.
    async fn release_id(&self, id: UserId, deleted: Timestamp) -> Result<(), StoreError> {
        self.writer.write(move |connection| removal::end(connection, id, deleted)).await
    }
}

/// Erases the names of stubs that are free by now, at most 1000.
pub(crate) fn free_names(connection: &Connection, now: Timestamp) -> Result<(), Failure> {
    run(connection, FREE_NAMES, [now.0])
}

fn user(connection: &Connection, id: UserId) -> Result<Stored<User>, Failure> {
    let found = first(connection, BY_ID, [id.get()], stored_user)?;
    Ok(found.map_or(Stored::Never, |(_, user)| user))
}

fn create(connection: &Connection, new: &NewUser, now: Timestamp) -> Result<User, Failure> {
    let version = version_for_new(connection, STATE, new.id.get())?;
    if version != Version::FIRST && removal::is_noted(connection, new.id)? {
        return Err(StoreError::IdHeld.into());
    }
    free_name(connection, &new.user_name, now)?;
    let user = first_state(new, version, now);
    let (email, phone) = (new.email.as_ref(), new.phone.as_ref());
    let row = params![
        user.id.get(),
        version.get(),
        user.user_name.as_str(),
        new.user_name.key(),
        user.nick_name.as_str(),
        email.map(|email| email.text()),
        email.map(|email| email.key()),
        phone.map(|phone| phone.text()),
        user.gender as u8,
        user.age,
        user.region.as_str(),
        user.icon.as_str(),
        params_text(&user.params)?,
        now.0
    ];
    connection.prepare_cached(CREATE)?.execute(row).map_err(name_taken)?;
    secret::change(connection, SecretOwner::User(new.id), &new.secrets)?;
    Ok(user)
}

fn first_state(new: &NewUser, version: Version, now: Timestamp) -> User {
    User {
        id: new.id,
        version,
        user_name: new.user_name.text().into(),
        nick_name: new.nick_name.clone(),
        email: new.email.as_ref().map(|email| email.text().into()).unwrap_or_default(),
        phone: new.phone.as_ref().map(|phone| phone.text().into()).unwrap_or_default(),
        gender: new.gender,
        age: new.age,
        region: new.region.clone(),
        icon: new.icon.clone(),
        params: new.params.clone(),
        created: now,
        updated: now,
    }
}

fn update(connection: &Connection, id: UserId, patch: &UserPatch, write: &Write) -> Result<User, Failure> {
    let Some(mut user) = user(connection, id)?.live() else {
        return Err(StoreError::NotFound.into());
    };
    check_expected(write, user.version)?;
    apply(&mut user, patch, write.now);
    if !user.params.fits() {
        return Err(StoreError::ParamsTooLarge.into());
    }
    let row = params![
        id.get(),
        user.version.get(),
        user.nick_name.as_str(),
        user.gender as u8,
        user.age,
        user.region.as_str(),
        user.icon.as_str(),
        params_text(&user.params)?,
        write.now.0
    ];
    run(connection, UPDATE, row)?;
    update_indexed(connection, id, patch, write.now)?;
    secret::change(connection, SecretOwner::User(id), &patch.secrets)?;
    Ok(user)
}

fn apply(user: &mut User, patch: &UserPatch, now: Timestamp) {
    user.version = user.version.next();
    user.updated = now;
    set(&mut user.user_name, patch.user_name.as_ref().map(UserName::text));
    set(&mut user.nick_name, patch.nick_name.as_deref());
    set(&mut user.region, patch.region.as_deref());
    set(&mut user.icon, patch.icon.as_deref());
    let email = patch.email.as_ref().map(|email| email.as_ref().map_or("", |email| email.text()));
    set(&mut user.email, email);
    let phone = patch.phone.as_ref().map(|phone| phone.as_ref().map_or("", |phone| phone.text()));
    set(&mut user.phone, phone);
    user.gender = patch.gender.unwrap_or(user.gender);
    user.age = patch.age.unwrap_or(user.age);
    user.params.apply(&patch.params);
}

fn set(field: &mut Text, value: Option<&str>) {
    if let Some(value) = value {
        *field = Text::new(value);
    }
}

fn update_indexed(
    connection: &Connection,
    id: UserId,
    patch: &UserPatch,
    now: Timestamp,
) -> Result<(), Failure> {
    let id = id.get();
    if let Some(name) = &patch.user_name {
        free_name(connection, name, now)?;
        let row = params![id, name.text(), name.key()];
        connection.prepare_cached(RENAME)?.execute(row).map_err(name_taken)?;
    }
    if let Some(email) = &patch.email {
        let email = email.as_ref();
        let row = params![id, email.map(|email| email.text()), email.map(|email| email.key())];
        run(connection, SET_EMAIL, row)?;
    }
    if let Some(phone) = &patch.phone {
        run(connection, SET_PHONE, params![id, phone.as_ref().map(|phone| phone.text())])?;
    }
    Ok(())
}

fn delete(
    connection: &Connection,
    id: UserId,
    name_free_at: Timestamp,
    write: &Write,
) -> Result<Version, Failure> {
    let version = live_version(connection, STATE, id.get())?;
    check_expected(write, version)?;
    let version = version.next();
    let tokens_from = write.now.after(TOKENS_AFTER_DELETION);
    run(connection, DELETE, [id.get(), version.get(), name_free_at.0, write.now.0, tokens_from.0])?;
    secret::remove_all(connection, SecretOwner::User(id))?;
    removal::hold(connection, id, write.now)?;
    Ok(version)
}

/// Takes a name from a stub that held it long enough.
fn free_name(connection: &Connection, name: &UserName, now: Timestamp) -> Result<(), Failure> {
    run(connection, FREE_NAME, params![name.key(), now.0])
}

/// `users_name` is the only unique index besides the primary key.
fn name_taken(error: rusqlite::Error) -> Failure {
    if is_duplicate(&error) { StoreError::NameTaken.into() } else { error.into() }
}
