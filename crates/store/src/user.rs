use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Applied, Email, Keyword, Params, ParamsPatch, Phone, SecretChange, StoreError, Stored, Text, Timestamp,
    UserId, UserName, Version, Write, heap_bytes,
};

/// A user as stored: no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Names the user.
    pub id: UserId,
    /// Of this state.
    pub version: Version,
    /// Unique in its normalised form.
    pub user_name: Text,
    /// Empty: none. So are the texts below.
    pub nick_name: Text,
    /// For the user, services and admins only.
    pub email: Text,
    /// For the user, services and admins only. E.164.
    pub phone: Text,
    /// What the user says of it.
    pub gender: Gender,
    /// In years; 0: not said.
    pub age: u8,
    /// Free text.
    pub region: Text,
    /// Address of a picture.
    pub icon: Text,
    /// Further parameters.
    pub params: Params,
    /// When the record was made.
    pub created: Timestamp,
    /// When it was changed last.
    pub updated: Timestamp,
}

impl User {
    /// Bytes that the record takes in memory, roughly: what a cache weighs it by.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = [&self.user_name, &self.nick_name, &self.email, &self.phone, &self.region, &self.icon];
        size_of::<Self>() + texts.map(heap_bytes).iter().sum::<usize>() + self.params.weight()
    }
}

/// What a user says of their gender. The numbers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum Gender {
    /// Not said.
    #[default]
    Unspecified = 0,
    /// Female.
    Female = 1,
    /// Male.
    Male = 2,
    /// Another one.
    Other = 3,
}

/// A user to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    /// Chosen by the caller or allocated.
    pub id: UserId,
    /// The name.
    pub user_name: UserName,
    /// Shown name.
    pub nick_name: Text,
    /// Absent: none.
    pub email: Option<Email>,
    /// Absent: none.
    pub phone: Option<Phone>,
    /// As said.
    pub gender: Gender,
    /// In years.
    pub age: u8,
    /// Free text.
    pub region: Text,
    /// Address of a picture.
    pub icon: Text,
    /// Without secrets.
    pub params: Params,
    /// In the form that is stored.
    pub secrets: SecretChange,
}

/// A sparse change: `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPatch {
    /// A new name.
    pub user_name: Option<UserName>,
    /// A new shown name; empty: none.
    pub nick_name: Option<Text>,
    /// `Some(None)` removes it.
    pub email: Option<Option<Email>>,
    /// `Some(None)` removes it.
    pub phone: Option<Option<Phone>>,
    /// As said.
    pub gender: Option<Gender>,
    /// In years; 0: not said.
    pub age: Option<u8>,
    /// Empty: none.
    pub region: Option<Text>,
    /// Empty: none.
    pub icon: Option<Text>,
    /// A change of parameters.
    pub params: ParamsPatch,
    /// In the form that is stored.
    pub secrets: SecretChange,
}

/// Durable home of [`User`] records and their secrets. Object-safe: the server holds `Arc<dyn UserStore>`.
///
/// Names are unique among living users, and among deleted ones until their name is free: by an index, so
/// that of any number of concurrent writes exactly one wins. An acknowledged write is on disk (SQLite) or
/// on a majority (MongoDB). Every write raises the version by one; a record made again under an id that was
/// deleted continues from its stub.
///
/// Dropping a future leaves the outcome of a write unknown, as [`Outcome::Unknown`](crate::Outcome::Unknown)
/// does. The deadline of a call is its caller's: a write runs in a task that outlives it.
#[async_trait]
pub trait UserStore: Send + Sync + fmt::Debug + 'static {
    /// Reads one user.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn user(&self, id: UserId) -> Result<Stored<User>, StoreError>;

    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) users in one query. An entry for each *distinct* id that
    /// was ever stored, living or deleted, in no particular order; ids never stored are absent.
    ///
    /// # Errors
    /// When the store cannot answer; [`StoreError::Overloaded`] for more ids.
    async fn users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError>;

    /// Reads the living user with this name, compared by [`UserName::key`].
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn user_by_name(&self, name: &UserName) -> Result<Option<User>, StoreError>;

    /// Reads living users whose name, email or phone equals `keyword`, each once, by ascending id above
    /// `after`, at most `limit`. Every step uses an index; a page costs the same at any depth.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn search_users(
        &self,
        keyword: &Keyword,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<User>, StoreError>;

    /// Reads living users by ascending id above `after`, at most `limit`.
    ///
    /// # Errors
    /// When the store cannot answer.
    async fn scan_users(&self, after: Option<UserId>, limit: usize) -> Result<Vec<User>, StoreError>;

    /// Creates a user. Ignores `write.expected`. A deleted id may get its own reserved name back.
    ///
    /// # Errors
    /// [`StoreError::IdTaken`] if the id exists, [`StoreError::IdHeld`] if it was deleted and not released,
    /// [`StoreError::NameTaken`] if the name is not free, [`StoreError::RequestMismatch`]; then the store is unchanged.
    /// Else see [`StoreError::outcome`].
    async fn create_user(&self, user: NewUser, write: Write) -> Result<Applied<User>, StoreError>;

    /// Changes what `patch` names and nothing else, in one atomic step.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::NameTaken`],
    /// [`StoreError::ParamsTooLarge`], [`StoreError::RequestMismatch`]: the record is as before then. Else
    /// see [`StoreError::outcome`].
    async fn update_user(
        &self,
        id: UserId,
        patch: UserPatch,
        write: Write,
    ) -> Result<Applied<User>, StoreError>;

    /// Deletes a user and the secrets. What stays is a stub: id, version, and the name until
    /// `name_free_at` (compared with the `now` of the write that wants it). The id is held until
    /// [`Self::release_id`]: until then no user is created under it.
    ///
    /// # Errors
    /// As [`Self::update_user`].
    async fn delete_user(
        &self,
        id: UserId,
        name_free_at: Timestamp,
        write: Write,
    ) -> Result<Applied<Version>, StoreError>;

    /// Releases the id of a user that was deleted at `deleted` or before (compared with the `now` of the deletion): a user
    /// can be created under it from then on. A no-op for an id that is not held, or was deleted later. To be called when
    /// nothing of the deleted user is left. One indexed write.
    ///
    /// # Errors
    /// When the store cannot answer; the id may be released then.
    async fn release_id(&self, id: UserId, deleted: Timestamp) -> Result<(), StoreError>;
}
