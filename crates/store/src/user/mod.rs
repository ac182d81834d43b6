//! Users and their store.

mod access;
mod address;
mod name;

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    Applied, Keyword, Params, ParamsPatch, SecretChange, StoreError, Stored, Text, Timestamp, UserId,
    Version, Write, heap_bytes,
};
pub use access::{
    AccessChange, AccessStore, SUSPENSION_REASON_CHARS_MAX, Suspension, TOKENS_AFTER_DELETION, UserAccess,
};
pub use address::{EMAIL_CHARS_MAX, Email, Phone};
pub use name::{NAME_CHARS_MAX, UserName, skeleton};

/// A user as stored: no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Identifies the user.
    pub id: UserId,
    /// This state's version.
    pub version: Version,
    /// Unique in its normalised form.
    pub user_name: Text,
    /// Empty: none. This also applies to the texts below.
    pub nick_name: Text,
    /// Only the user, services and admins may see it.
    pub email: Text,
    /// Only the user, services and admins may see it. E.164.
    pub phone: Text,
    /// The gender that the user stated.
    pub gender: Gender,
    /// The age in years; 0: not stated.
    pub age: u8,
    /// The region, as free text.
    pub region: Text,
    /// A picture's address.
    pub icon: Text,
    /// Further parameters.
    pub params: Params,
    /// When the record was created.
    pub created: Timestamp,
    /// When it was changed last.
    pub updated: Timestamp,
}

impl User {
    /// The record's approximate size in memory, in bytes.
    #[must_use]
    pub fn weight(&self) -> usize {
        let texts = [&self.user_name, &self.nick_name, &self.email, &self.phone, &self.region, &self.icon];
        size_of::<Self>() + texts.map(heap_bytes).iter().sum::<usize>() + self.params.weight()
    }
}

/// The gender that a user states. The numbers are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
#[serde(rename_all = "snake_case")]
pub enum Gender {
    /// The user did not state it.
    #[default]
    Unspecified = 0,
    /// The user is female.
    Female = 1,
    /// The user is male.
    Male = 2,
    /// Any other gender.
    Other = 3,
}

impl Gender {
    /// Returns the gender with this number, if any.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::Unspecified),
            1 => Some(Self::Female),
            2 => Some(Self::Male),
            3 => Some(Self::Other),
            _ => None,
        }
    }
}

/// A user to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUser {
    /// Chosen by the caller or allocated.
    pub id: UserId,
    /// The user's name.
    pub user_name: UserName,
    /// The name that is shown.
    pub nick_name: Text,
    /// Absent: the user has no email.
    pub email: Option<Email>,
    /// Absent: the user has no phone.
    pub phone: Option<Phone>,
    /// The gender that the user stated.
    pub gender: Gender,
    /// The age in years.
    pub age: u8,
    /// The region, as free text.
    pub region: Text,
    /// A picture's address.
    pub icon: Text,
    /// The parameters, without secrets.
    pub params: Params,
    /// The secrets, in their stored form.
    pub secrets: SecretChange,
}

/// A partial change: `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPatch {
    /// Changes the name.
    pub user_name: Option<UserName>,
    /// A new shown name; empty: none.
    pub nick_name: Option<Text>,
    /// `Some(None)` removes it.
    pub email: Option<Option<Email>>,
    /// `Some(None)` removes it.
    pub phone: Option<Option<Phone>>,
    /// The gender that the user stated.
    pub gender: Option<Gender>,
    /// The age in years; 0: not stated.
    pub age: Option<u8>,
    /// Empty: removes the region.
    pub region: Option<Text>,
    /// Empty: removes the picture.
    pub icon: Option<Text>,
    /// The changed parameters.
    pub params: ParamsPatch,
    /// The secrets, in their stored form.
    pub secrets: SecretChange,
}

/// Storage for [`User`] records and their secrets. Object-safe: the server holds `Arc<dyn UserStore>`.
///
/// Names are unique among existing users, and among deleted users until their name is free: by an index, so
/// that exactly one of any number of concurrent writes wins. An acknowledged write is on disk (SQLite) or on
/// a majority (MongoDB). Every write raises the version by one; a record that is created again under a
/// deleted id continues from its stub.
///
/// Dropping a future leaves a write's outcome unknown, as [`Outcome::Unknown`](crate::Outcome::Unknown) does.
/// The caller sets a call's deadline: a write runs in a task that outlives it.
#[async_trait]
pub trait UserStore: Send + Sync + fmt::Debug + 'static {
    /// Reads one user.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn user(&self, id: UserId) -> Result<Stored<User>, StoreError>;

    /// Reads up to [`BATCH_MAX`](crate::BATCH_MAX) users in one query. Returns an entry for each *distinct*
    /// id of an existing or deleted user, in no particular order. Ids that were never stored are absent.
    ///
    /// # Errors
    /// If the store cannot answer; [`StoreError::Overloaded`] for more ids.
    async fn users(&self, ids: &[UserId]) -> Result<Vec<(UserId, Stored<User>)>, StoreError>;

    /// Reads the existing user with this name, compared by [`UserName::key`].
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn user_by_name(&self, name: &UserName) -> Result<Option<User>, StoreError>;

    /// Reads existing users whose name, email or phone equals `keyword`, each once, by ascending id above
    /// `after`, at most `limit`. Every step uses an index; a page costs the same at any depth.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn search_users(
        &self,
        keyword: &Keyword,
        after: Option<UserId>,
        limit: usize,
    ) -> Result<Vec<User>, StoreError>;

    /// Reads existing users by ascending id above `after`, at most `limit`.
    ///
    /// # Errors
    /// If the store cannot answer.
    async fn scan_users(&self, after: Option<UserId>, limit: usize) -> Result<Vec<User>, StoreError>;

    /// Creates a user. Ignores `write.expected`. A deleted id may get its own reserved name back.
    ///
    /// # Errors
    /// [`StoreError::IdTaken`] if the id exists, [`StoreError::IdHeld`] if it was deleted and not released,
    /// [`StoreError::NameTaken`] if the name is not free, [`StoreError::RequestMismatch`]; then the store is
    /// unchanged. For other errors see [`StoreError::outcome`].
    async fn create_user(&self, user: NewUser, write: Write) -> Result<Applied<User>, StoreError>;

    /// Changes only the fields that `patch` names, in one atomic step.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Conflict`], [`StoreError::NameTaken`],
    /// [`StoreError::ParamsTooLarge`], [`StoreError::RequestMismatch`]: the record is unchanged then. For
    /// other errors see [`StoreError::outcome`].
    async fn update_user(
        &self,
        id: UserId,
        patch: UserPatch,
        write: Write,
    ) -> Result<Applied<User>, StoreError>;

    /// Deletes a user and the secrets. A stub is kept: id, version, and the name until `name_free_at`
    /// (compared with the `now` of a write that uses the name). The id is held until [`Self::release_id`]:
    /// until then no user is created under it.
    ///
    /// # Errors
    /// Fails like [`Self::update_user`].
    async fn delete_user(
        &self,
        id: UserId,
        name_free_at: Timestamp,
        write: Write,
    ) -> Result<Applied<Version>, StoreError>;

    /// Releases the id of a user that was deleted at `deleted` or before (compared with the deletion's
    /// `now`): a user can be created under it from then on. Does nothing for an id that is not held, or was
    /// deleted later. Call it after all the deleted user's data was removed. One indexed write.
    ///
    /// # Errors
    /// If the store cannot answer; the id may be released then.
    async fn release_id(&self, id: UserId, deleted: Timestamp) -> Result<(), StoreError>;
}
